# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders to hypervisors, the definitions of instances, and the time since which the store can know
all running instances.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("instances", sa.Column("definition", sa.String(length=512), nullable=True))
    op.add_column("instances", sa.Column("task_state", sa.String(length=32), nullable=True))
    op.add_column("instances", sa.Column("order_uuid", sa.String(length=36), nullable=True))
    op.create_index("ix_instances_definition", "instances", ["definition"], unique=True)
    continuity = op.create_table(
        "continuity",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("born_at", sa.Double(), nullable=False),
        sa.Column("claims", sa.BigInteger(), nullable=False),
        sa.Column("written_by", sa.BigInteger(), nullable=True),
        sa.Column("timeline", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_continuity")),
    )
    op.bulk_insert(continuity, [{"id": 1, "born_at": 0, "claims": 0}])

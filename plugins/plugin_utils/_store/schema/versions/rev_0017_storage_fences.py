# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts that are shut out of shared storage."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "storage_fences",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("fence", sa.String(length=1024), nullable=False),
        sa.Column("addresses", sa.JSON(), nullable=False),
        sa.Column("cut", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("verified_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_storage_fences")),
    )

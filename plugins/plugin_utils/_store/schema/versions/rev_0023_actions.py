# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions of runs with their actors, one row for each action."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "actions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36)),
        sa.Column("instance_name", sa.String(length=255)),
        sa.Column("host", sa.String(length=255)),
        sa.Column("destination", sa.String(length=255)),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("controller", sa.String(length=255), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("job", sa.JSON(none_as_null=True)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_actions")),
    )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quotas of projects."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0014"
down_revision = "0013"

HAS_PROJECT = "project IS NOT NULL"


def upgrade() -> None:
    op.create_table(
        "quotas",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("hard_limit", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quotas")),
        sa.UniqueConstraint("project", "resource", name=op.f("uq_quotas_project_resource")),
    )
    op.create_index(
        "ix_instances_project",
        "instances",
        ["project"],
        sqlite_where=sa.text(HAS_PROJECT),
        postgresql_where=sa.text(HAS_PROJECT),
    )

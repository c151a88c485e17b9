# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that hosts can give their guests, and the CPU of the guests of a group of hosts."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("host_model", sa.JSON(), nullable=True))
    op.create_table(
        "fleet_cpus",
        sa.Column("cell", sa.String(length=255), nullable=False),
        sa.Column("arch", sa.String(length=64), nullable=False),
        sa.Column("domain_type", sa.String(length=64), nullable=False),
        sa.Column("vendor", sa.String(length=64), nullable=False),
        sa.Column("cpu", sa.JSON(), nullable=False),
        sa.Column("hosts", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint(
            "cell", "arch", "domain_type", "vendor", name=op.f("pk_fleet_cpus")
        ),
    )

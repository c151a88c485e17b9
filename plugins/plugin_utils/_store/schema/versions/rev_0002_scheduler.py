# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data that the scheduler's host filters and weighers read: figures of hosts, images of
instances, flavors.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("host_ip", sa.String(length=64), nullable=True))
    op.add_column("compute_nodes", sa.Column("stats", sa.JSON(), nullable=True))
    op.add_column("compute_nodes", sa.Column("metrics", sa.JSON(), nullable=True))
    op.add_column(
        "compute_nodes", sa.Column("num_io_ops", sa.Integer(), nullable=False, server_default="0")
    )
    op.add_column(
        "compute_nodes",
        sa.Column("failed_builds", sa.Integer(), nullable=False, server_default="0"),
    )
    op.add_column("instances", sa.Column("image", sa.JSON(), nullable=True))
    op.create_index("ix_allocations_use", "allocations", ["provider_id", "class_id", "used"])
    op.create_table(
        "flavors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("extra_specs", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flavors")),
        sa.UniqueConstraint("name", name=op.f("uq_flavors_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_flavors_uuid")),
    )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA cells, PCI devices and mediated devices of hosts, and their allocations to consumers."""

from __future__ import annotations

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    _create(
        "pci_devices",
        "address",
        sa.Column("address", sa.String(length=32), nullable=False),
        sa.Column("vendor_id", sa.String(length=4), nullable=False),
        sa.Column("product_id", sa.String(length=4), nullable=False),
        sa.Column("device_class", sa.String(length=6), nullable=True),
        sa.Column("numa_node", sa.Integer(), nullable=True),
        sa.Column("dev_type", sa.String(length=16), nullable=False),
        sa.Column("parent_addr", sa.String(length=32), nullable=True),
        sa.Column("iommu_group", sa.Integer(), nullable=True),
        sa.Column("interface", sa.Text(), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=True),
        sa.Column("traits", sa.JSON(), nullable=False),
        sa.Column("reported", sa.Boolean(), nullable=False),
        sa.Column("request_number", sa.Integer(), nullable=True),
        *_owner("pci_devices"),
    )
    _create(
        "mdev_types",
        "parent",
        sa.Column("parent", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
    )
    _create(
        "mdevs",
        "uuid",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("parent", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        *_owner("mdevs"),
    )
    for table in ("pci_devices", "mdevs"):
        op.create_index(op.f(f"ix_{table}_consumer_id"), table, ["consumer_id"])
    op.create_table(
        "numa_allocations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("consumer_id", sa.Integer(), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("cells", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["consumer_id"],
            ["consumers.id"],
            name=op.f("fk_numa_allocations_consumer_id_consumers"),
            ondelete="CASCADE",
        ),
        _of_node("numa_allocations"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_numa_allocations")),
        sa.UniqueConstraint(
            "consumer_id",
            "compute_node_id",
            name=op.f("uq_numa_allocations_consumer_id_compute_node_id"),
        ),
    )
    op.create_index(
        op.f("ix_numa_allocations_compute_node_id"), "numa_allocations", ["compute_node_id"]
    )
    op.add_column("instances", sa.Column("host_request", sa.JSON(), nullable=True))
    op.add_column("compute_nodes", sa.Column("shared_cpus", sa.JSON(), nullable=True))
    # The column had the facts of hosts, which nothing read; the next discovery writes the cells with their CPU sets.
    op.execute(sa.text("UPDATE compute_nodes SET numa_cells = NULL"))


def _create(table: str, key: str, *columns: Any) -> None:
    """Create a table of things of a compute node, each with a key that is unique on the node."""
    op.create_table(
        table,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        *columns,
        _of_node(table),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint("compute_node_id", key, name=op.f(f"uq_{table}_compute_node_id_{key}")),
    )


def _of_node(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_compute_node_id_compute_nodes")
    return sa.ForeignKeyConstraint(
        ["compute_node_id"], ["compute_nodes.id"], name=name, ondelete="CASCADE"
    )


def _owner(table: str) -> tuple[sa.Column[int], sa.ForeignKeyConstraint]:
    name = op.f(f"fk_{table}_consumer_id_consumers")
    return (
        sa.Column("consumer_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["consumer_id"], ["consumers.id"], name=name, ondelete="SET NULL"),
    )

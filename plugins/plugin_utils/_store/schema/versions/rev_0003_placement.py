# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement: aggregates of providers, use counted beside the inventory, claims that expire."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0003"
down_revision = "0002"

_USED = """
UPDATE inventories SET used = coalesce((
    SELECT sum(allocations.used) FROM allocations
    WHERE allocations.provider_id = inventories.provider_id AND allocations.class_id = inventories.class_id
), 0)
"""


def upgrade() -> None:
    op.add_column(
        "inventories", sa.Column("used", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.execute(_USED)
    # The sums it served are now beside the inventory.
    op.drop_index("ix_allocations_use", "allocations")
    # Each claim writes to every index: the unique index over consumers replaces these.
    op.drop_index("ix_allocations_class_id", "allocations")
    op.drop_index("ix_allocations_consumer_id", "allocations")
    op.create_index(
        "ix_instances_building",
        "instances",
        ["compute_node_id"],
        sqlite_where=sa.text("state = 'building'"),
        postgresql_where=sa.text("state = 'building'"),
    )
    op.add_column("consumers", sa.Column("expires_at", sa.Double(), nullable=True))
    op.add_column("migrations", sa.Column("details", sa.JSON(), nullable=True))
    op.create_table(
        "placement_aggregates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_placement_aggregates")),
        sa.UniqueConstraint("uuid", name=op.f("uq_placement_aggregates_uuid")),
    )
    op.create_table(
        "provider_aggregates",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["provider_id"],
            ["resource_providers.id"],
            name=op.f("fk_provider_aggregates_provider_id_resource_providers"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["aggregate_id"],
            ["placement_aggregates.id"],
            name=op.f("fk_provider_aggregates_aggregate_id_placement_aggregates"),
        ),
        sa.PrimaryKeyConstraint("provider_id", "aggregate_id", name=op.f("pk_provider_aggregates")),
    )

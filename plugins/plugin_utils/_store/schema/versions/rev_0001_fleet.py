# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first schema: services, compute nodes, providers, instances, migrations."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "aggregates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregates")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregates_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_aggregates_uuid")),
    )
    op.create_table(
        "consumers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=True),
        sa.Column("user", sa.String(length=255), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_consumers")),
        sa.UniqueConstraint("uuid", name=op.f("uq_consumers_uuid")),
    )
    op.create_table(
        "resource_classes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_classes")),
        sa.UniqueConstraint("name", name=op.f("uq_resource_classes_name")),
    )
    op.create_table(
        "resource_providers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=512), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("root_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["parent_id"],
            ["resource_providers.id"],
            name=op.f("fk_resource_providers_parent_id_resource_providers"),
        ),
        sa.ForeignKeyConstraint(
            ["root_id"],
            ["resource_providers.id"],
            name=op.f("fk_resource_providers_root_id_resource_providers"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_providers")),
        sa.UniqueConstraint("name", name=op.f("uq_resource_providers_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_resource_providers_uuid")),
    )
    op.create_index(
        op.f("ix_resource_providers_parent_id"), "resource_providers", ["parent_id"], unique=False
    )
    op.create_index(
        op.f("ix_resource_providers_root_id"), "resource_providers", ["root_id"], unique=False
    )
    op.create_table(
        "server_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("max_server_per_host", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_server_groups")),
        sa.UniqueConstraint("name", name=op.f("uq_server_groups_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_server_groups_uuid")),
    )
    op.create_table(
        "services",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("binary", sa.String(length=255), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("maintenance", sa.Boolean(), nullable=False),
        sa.Column("status_before_drain", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("last_seen_up", sa.Double(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
        sa.UniqueConstraint("host", "binary", name=op.f("uq_services_host_binary")),
        sa.UniqueConstraint("uuid", name=op.f("uq_services_uuid")),
    )
    op.create_table(
        "traits",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_traits")),
        sa.UniqueConstraint("name", name=op.f("uq_traits_name")),
    )
    op.create_table(
        "aggregate_hosts",
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["aggregate_id"],
            ["aggregates.id"],
            name=op.f("fk_aggregate_hosts_aggregate_id_aggregates"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("aggregate_id", "host", name=op.f("pk_aggregate_hosts")),
    )
    op.create_table(
        "allocations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("class_id", sa.Integer(), nullable=False),
        sa.Column("consumer_id", sa.Integer(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["class_id"],
            ["resource_classes.id"],
            name=op.f("fk_allocations_class_id_resource_classes"),
        ),
        sa.ForeignKeyConstraint(
            ["consumer_id"],
            ["consumers.id"],
            name=op.f("fk_allocations_consumer_id_consumers"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["provider_id"],
            ["resource_providers.id"],
            name=op.f("fk_allocations_provider_id_resource_providers"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allocations")),
        sa.UniqueConstraint(
            "consumer_id",
            "provider_id",
            "class_id",
            name=op.f("uq_allocations_consumer_id_provider_id_class_id"),
        ),
    )
    op.create_index(op.f("ix_allocations_class_id"), "allocations", ["class_id"], unique=False)
    op.create_index(
        op.f("ix_allocations_consumer_id"), "allocations", ["consumer_id"], unique=False
    )
    op.create_index(
        op.f("ix_allocations_provider_id"), "allocations", ["provider_id"], unique=False
    )
    op.create_table(
        "compute_nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("service_id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(length=255), nullable=False),
        sa.Column("uri", sa.Text(), nullable=True),
        sa.Column("cell", sa.String(length=255), nullable=True),
        sa.Column("migration_uri", sa.Text(), nullable=True),
        sa.Column("migration_address", sa.Text(), nullable=True),
        sa.Column("reported", sa.Boolean(), nullable=False),
        sa.Column("hypervisor_type", sa.String(length=255), nullable=True),
        sa.Column("hypervisor_version", sa.Integer(), nullable=True),
        sa.Column("memory_mb_used", sa.Integer(), nullable=True),
        sa.Column("local_gb_used", sa.Integer(), nullable=True),
        sa.Column("disk_available_least", sa.Integer(), nullable=True),
        sa.Column("cpu_info", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("numa_cells", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("supported_instances", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("facts", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name=op.f("fk_compute_nodes_service_id_services")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_compute_nodes")),
        sa.UniqueConstraint(
            "host", "hypervisor_hostname", name=op.f("uq_compute_nodes_host_hypervisor_hostname")
        ),
        sa.UniqueConstraint("uuid", name=op.f("uq_compute_nodes_uuid")),
    )
    op.create_index(
        op.f("ix_compute_nodes_service_id"), "compute_nodes", ["service_id"], unique=False
    )
    op.create_table(
        "inventories",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("class_id", sa.Integer(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("min_unit", sa.BigInteger(), nullable=False),
        sa.Column("max_unit", sa.BigInteger(), nullable=False),
        sa.Column("step_size", sa.BigInteger(), nullable=False),
        sa.Column("allocation_ratio", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["class_id"],
            ["resource_classes.id"],
            name=op.f("fk_inventories_class_id_resource_classes"),
        ),
        sa.ForeignKeyConstraint(
            ["provider_id"],
            ["resource_providers.id"],
            name=op.f("fk_inventories_provider_id_resource_providers"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inventories")),
        sa.UniqueConstraint(
            "provider_id", "class_id", name=op.f("uq_inventories_provider_id_class_id")
        ),
    )
    op.create_index(op.f("ix_inventories_class_id"), "inventories", ["class_id"], unique=False)
    op.create_index(
        op.f("ix_inventories_provider_id"), "inventories", ["provider_id"], unique=False
    )
    op.create_table(
        "provider_traits",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("trait_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["provider_id"],
            ["resource_providers.id"],
            name=op.f("fk_provider_traits_provider_id_resource_providers"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["trait_id"], ["traits.id"], name=op.f("fk_provider_traits_trait_id_traits")
        ),
        sa.PrimaryKeyConstraint("provider_id", "trait_id", name=op.f("pk_provider_traits")),
    )
    op.create_table(
        "domains",
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("persistent", sa.Boolean(), nullable=False),
        sa.Column("autostart", sa.Boolean(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("xml", sa.Text(), nullable=True),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_domains_compute_node_id_compute_nodes"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("compute_node_id", "uuid", name=op.f("pk_domains")),
    )
    op.create_index(op.f("ix_domains_uuid"), "domains", ["uuid"], unique=False)
    op.create_table(
        "instances",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("server_group_id", sa.Integer(), nullable=True),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("project", sa.String(length=255), nullable=True),
        sa.Column("user", sa.String(length=255), nullable=True),
        sa.Column("flavor", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_instances_compute_node_id_compute_nodes"),
        ),
        sa.ForeignKeyConstraint(
            ["server_group_id"],
            ["server_groups.id"],
            name=op.f("fk_instances_server_group_id_server_groups"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instances")),
        sa.UniqueConstraint("uuid", name=op.f("uq_instances_uuid")),
    )
    op.create_index(
        op.f("ix_instances_compute_node_id"), "instances", ["compute_node_id"], unique=False
    )
    op.create_index(op.f("ix_instances_name"), "instances", ["name"], unique=False)
    op.create_index(
        op.f("ix_instances_server_group_id"), "instances", ["server_group_id"], unique=False
    )
    op.create_table(
        "migrations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_name", sa.String(length=255), nullable=False),
        sa.Column("source_node_id", sa.Integer(), nullable=True),
        sa.Column("destination_node_id", sa.Integer(), nullable=True),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("destination", sa.String(length=512), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["destination_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_migrations_destination_node_id_compute_nodes"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["source_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_migrations_source_node_id_compute_nodes"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_migrations")),
        sa.UniqueConstraint("uuid", name=op.f("uq_migrations_uuid")),
    )
    op.create_index(
        op.f("ix_migrations_destination_node_id"),
        "migrations",
        ["destination_node_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_migrations_instance_uuid"), "migrations", ["instance_uuid"], unique=False
    )
    op.create_index(
        op.f("ix_migrations_source_node_id"), "migrations", ["source_node_id"], unique=False
    )
    op.create_index(op.f("ix_migrations_status"), "migrations", ["status"], unique=False)

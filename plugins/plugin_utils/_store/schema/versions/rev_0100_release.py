# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema of the first release, 1.0.0."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0100"
down_revision = None


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
        sa.Column("project", sa.String(length=255)),
        sa.Column("user", sa.String(length=255)),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_consumers")),
        sa.UniqueConstraint("uuid", name=op.f("uq_consumers_uuid")),
    )
    continuity = op.create_table(
        "continuity",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("born_at", sa.Double(), nullable=False),
        sa.Column("claims", sa.BigInteger(), nullable=False),
        sa.Column("written_by", sa.BigInteger()),
        sa.Column("timeline", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_continuity")),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("purpose", sa.String(length=32), nullable=False),
        sa.Column("actor", sa.String(length=255)),
        sa.Column("instance_uuid", sa.String(length=36)),
        sa.Column("instance_name", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255)),
        sa.Column("node", sa.String(length=255)),
        sa.Column("alternates", sa.JSON(), nullable=False),
        sa.Column("explanation", sa.JSON(none_as_null=True)),
        sa.Column("message", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
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
    op.create_table(
        "history",
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("capacity", sa.Double(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "zone", "resource_class", name=op.f("pk_history")),
    )
    op.create_table(
        "images",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("disk_format", sa.String(length=64)),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("source", sa.Text()),
        sa.Column("checksum", sa.String(length=255)),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("name", name=op.f("uq_images_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_images_uuid")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("process", sa.String(length=255), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("acquired_at", sa.Double(), nullable=False),
        sa.Column("renewed_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "placement_aggregates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_placement_aggregates")),
        sa.UniqueConstraint("uuid", name=op.f("uq_placement_aggregates_uuid")),
    )
    op.create_table(
        "power_events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("driver", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("power_state", sa.String(length=32)),
        sa.Column("boot_id", sa.String(length=36)),
        sa.Column("message", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_power_events")),
        sa.UniqueConstraint("uuid", name=op.f("uq_power_events_uuid")),
    )
    op.create_index(op.f("ix_power_events_host"), "power_events", ["host"])
    op.create_table(
        "quotas",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("hard_limit", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quotas")),
        sa.UniqueConstraint("project", "resource", name=op.f("uq_quotas_project_resource")),
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
        sa.Column("parent_id", sa.Integer()),
        sa.Column("root_id", sa.Integer()),
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
    op.create_index(op.f("ix_resource_providers_parent_id"), "resource_providers", ["parent_id"])
    op.create_index(op.f("ix_resource_providers_root_id"), "resource_providers", ["root_id"])
    op.create_table(
        "rolling_hosts",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("stage", sa.String(length=32), nullable=False),
        sa.Column("boot_id", sa.String(length=36)),
        sa.Column("instances", sa.JSON(none_as_null=True)),
        sa.Column("message", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_rolling_hosts")),
    )
    op.create_table(
        "server_groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("max_server_per_host", sa.Integer(), nullable=False),
        sa.Column("max_moving", sa.Integer()),
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
        sa.Column("disabled_reason", sa.Text()),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("maintenance", sa.Boolean(), nullable=False),
        sa.Column("status_before_drain", sa.JSON(none_as_null=True)),
        sa.Column("labels", sa.JSON(none_as_null=True)),
        sa.Column("last_seen_up", sa.Double()),
        sa.Column("last_error", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
        sa.UniqueConstraint("host", "binary", name=op.f("uq_services_host_binary")),
        sa.UniqueConstraint("uuid", name=op.f("uq_services_uuid")),
    )
    op.create_table(
        "storage_fences",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("fence", sa.String(length=1024), nullable=False),
        sa.Column("addresses", sa.JSON(), nullable=False),
        sa.Column("cut", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("verified_at", sa.Double()),
        sa.PrimaryKeyConstraint("host", "fence", name=op.f("pk_storage_fences")),
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
    op.create_index(op.f("ix_allocations_provider_id"), "allocations", ["provider_id"])
    op.create_table(
        "compute_nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("service_id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(length=255), nullable=False),
        sa.Column("uri", sa.Text()),
        sa.Column("cell", sa.String(length=255)),
        sa.Column("migration_uri", sa.Text()),
        sa.Column("migration_address", sa.Text()),
        sa.Column("host_uuid", sa.String(length=36)),
        sa.Column("reported", sa.Boolean(), nullable=False),
        sa.Column("hypervisor_type", sa.String(length=255)),
        sa.Column("hypervisor_version", sa.Integer()),
        sa.Column("memory_mb_used", sa.Integer()),
        sa.Column("local_gb_used", sa.Integer()),
        sa.Column("disk_available_least", sa.Integer()),
        sa.Column("cpu_info", sa.JSON(none_as_null=True)),
        sa.Column("host_model", sa.JSON(none_as_null=True)),
        sa.Column("numa_cells", sa.JSON(none_as_null=True)),
        sa.Column("shared_cpus", sa.JSON(none_as_null=True)),
        sa.Column("supported_instances", sa.JSON(none_as_null=True)),
        sa.Column("host_ip", sa.String(length=64)),
        sa.Column("stats", sa.JSON(none_as_null=True)),
        sa.Column("metrics", sa.JSON(none_as_null=True)),
        sa.Column("num_io_ops", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed_builds", sa.Integer(), server_default="0", nullable=False),
        sa.Column("facts", sa.JSON(none_as_null=True)),
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
    op.create_index(op.f("ix_compute_nodes_host_uuid"), "compute_nodes", ["host_uuid"])
    op.create_index(op.f("ix_compute_nodes_service_id"), "compute_nodes", ["service_id"])
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
        sa.Column("used", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserved_before_drain", sa.BigInteger()),
        sa.Column("drain_reason", sa.Text()),
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
    op.create_index(op.f("ix_inventories_class_id"), "inventories", ["class_id"])
    op.create_index(op.f("ix_inventories_provider_id"), "inventories", ["provider_id"])
    op.create_table(
        "provider_aggregates",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["aggregate_id"],
            ["placement_aggregates.id"],
            name=op.f("fk_provider_aggregates_aggregate_id_placement_aggregates"),
        ),
        sa.ForeignKeyConstraint(
            ["provider_id"],
            ["resource_providers.id"],
            name=op.f("fk_provider_aggregates_provider_id_resource_providers"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("provider_id", "aggregate_id", name=op.f("pk_provider_aggregates")),
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
        "domain_files",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("path", sa.String(length=1024), nullable=False),
        sa.Column("identity", sa.String(length=1024)),
        sa.Column("written", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_domain_files_compute_node_id_compute_nodes"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_domain_files")),
    )
    op.create_index(op.f("ix_domain_files_compute_node_id"), "domain_files", ["compute_node_id"])
    op.create_index(op.f("ix_domain_files_identity"), "domain_files", ["identity"])
    op.create_index(op.f("ix_domain_files_path"), "domain_files", ["path"])
    op.create_index(op.f("ix_domain_files_uuid"), "domain_files", ["uuid"])
    op.create_table(
        "domains",
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("persistent", sa.Boolean(), nullable=False),
        sa.Column("autostart", sa.Boolean(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("xml", sa.Text()),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("local_disks", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_domains_compute_node_id_compute_nodes"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("compute_node_id", "uuid", name=op.f("pk_domains")),
    )
    op.create_index(op.f("ix_domains_uuid"), "domains", ["uuid"])
    op.create_table(
        "instances",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("compute_node_id", sa.Integer()),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("server_group_id", sa.Integer()),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("availability_zone", sa.String(length=255)),
        sa.Column("project", sa.String(length=255)),
        sa.Column("user", sa.String(length=255)),
        sa.Column("flavor", sa.String(length=255)),
        sa.Column("extra_specs", sa.JSON(none_as_null=True)),
        sa.Column("host_request", sa.JSON(none_as_null=True)),
        sa.Column("image", sa.JSON(none_as_null=True)),
        sa.Column("image_name", sa.String(length=255)),
        sa.Column("image_id", sa.String(length=255)),
        sa.Column("image_format", sa.String(length=255)),
        sa.Column("policy", sa.JSON(none_as_null=True)),
        sa.Column("labels", sa.JSON(none_as_null=True)),
        sa.Column("definition", sa.String(length=512)),
        sa.Column("task_state", sa.String(length=32)),
        sa.Column("order_uuid", sa.String(length=36)),
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
        "ix_instances_building",
        "instances",
        ["compute_node_id"],
        unique=False,
        sqlite_where=sa.text("state = 'building'"),
        postgresql_where=sa.text("state = 'building'"),
    )
    op.create_index(op.f("ix_instances_compute_node_id"), "instances", ["compute_node_id"])
    op.create_index("ix_instances_definition", "instances", ["definition"], unique=True)
    op.create_index(op.f("ix_instances_name"), "instances", ["name"])
    op.create_index(
        "ix_instances_project",
        "instances",
        ["project"],
        unique=False,
        sqlite_where=sa.text("project IS NOT NULL"),
        postgresql_where=sa.text("project IS NOT NULL"),
    )
    op.create_index(op.f("ix_instances_server_group_id"), "instances", ["server_group_id"])
    op.create_table(
        "mdev_types",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("parent", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_mdev_types_compute_node_id_compute_nodes"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mdev_types")),
        sa.UniqueConstraint(
            "compute_node_id", "parent", name=op.f("uq_mdev_types_compute_node_id_parent")
        ),
    )
    op.create_table(
        "mdevs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("parent", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("consumer_id", sa.Integer()),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_mdevs_compute_node_id_compute_nodes"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["consumer_id"],
            ["consumers.id"],
            name=op.f("fk_mdevs_consumer_id_consumers"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mdevs")),
        sa.UniqueConstraint("compute_node_id", "uuid", name=op.f("uq_mdevs_compute_node_id_uuid")),
    )
    op.create_index(op.f("ix_mdevs_consumer_id"), "mdevs", ["consumer_id"])
    op.create_table(
        "migrations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("instance_name", sa.String(length=255), nullable=False),
        sa.Column("source_node_id", sa.Integer()),
        sa.Column("destination_node_id", sa.Integer()),
        sa.Column("source", sa.String(length=512), nullable=False),
        sa.Column("destination", sa.String(length=512), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("message", sa.Text()),
        sa.Column("details", sa.JSON(none_as_null=True)),
        sa.Column("copied_memory_mib", sa.BigInteger()),
        sa.Column("copied_disk_mib", sa.BigInteger()),
        sa.Column("seconds", sa.Double()),
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
        op.f("ix_migrations_destination_node_id"), "migrations", ["destination_node_id"]
    )
    op.create_index(op.f("ix_migrations_instance_uuid"), "migrations", ["instance_uuid"])
    op.create_index(op.f("ix_migrations_source_node_id"), "migrations", ["source_node_id"])
    op.create_index(op.f("ix_migrations_status"), "migrations", ["status"])
    op.create_table(
        "numa_allocations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("consumer_id", sa.Integer(), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("cells", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_numa_allocations_compute_node_id_compute_nodes"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["consumer_id"],
            ["consumers.id"],
            name=op.f("fk_numa_allocations_consumer_id_consumers"),
            ondelete="CASCADE",
        ),
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
    op.create_table(
        "pci_devices",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(length=32), nullable=False),
        sa.Column("vendor_id", sa.String(length=4), nullable=False),
        sa.Column("product_id", sa.String(length=4), nullable=False),
        sa.Column("device_class", sa.String(length=6)),
        sa.Column("numa_node", sa.Integer()),
        sa.Column("dev_type", sa.String(length=16), nullable=False),
        sa.Column("parent_addr", sa.String(length=32)),
        sa.Column("iommu_group", sa.Integer()),
        sa.Column("interface", sa.Text()),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("resource_class", sa.String(length=255)),
        sa.Column("traits", sa.JSON(), nullable=False),
        sa.Column("reported", sa.Boolean(), nullable=False),
        sa.Column("request_number", sa.Integer()),
        sa.Column("consumer_id", sa.Integer()),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_pci_devices_compute_node_id_compute_nodes"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["consumer_id"],
            ["consumers.id"],
            name=op.f("fk_pci_devices_consumer_id_consumers"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pci_devices")),
        sa.UniqueConstraint(
            "compute_node_id", "address", name=op.f("uq_pci_devices_compute_node_id_address")
        ),
    )
    op.create_index(op.f("ix_pci_devices_consumer_id"), "pci_devices", ["consumer_id"])
    op.bulk_insert(continuity, [{"id": 1, "born_at": 0, "claims": 0}])

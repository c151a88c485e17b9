# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of the store. The revisions in versions make them; a test compares both.

Times are seconds since 1970 (UTC) as floating point. Sizes are MiB or GiB, by their names.
"""

from __future__ import annotations

from ..._records.node_fields import NODE_FIELDS
from ..._records.statuses import MigrationStatus
from ..database.sql import sa
from . import columns

# Instances that are claimed and have no domain yet; in SQL, because a query uses an index only by
# the same words.
IS_BUILDING = "state = 'building'"
# Instances of a project, which quotas count.
HAS_PROJECT = "project IS NOT NULL"

if sa:
    metadata = columns.new_metadata()

    # A service is one process unit on one host. services.py derives from it whether the host is up.
    services = sa.Table(
        "services",
        metadata,
        columns.identifier(),
        columns.uuid(),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("binary", sa.String(255), nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False, default=False),
        sa.Column("disabled_reason", sa.Text),
        sa.Column("forced_down", sa.Boolean, nullable=False, default=False),
        sa.Column("maintenance", sa.Boolean, nullable=False, default=False),
        # The switches before a drain, which undrain restores (rule S5).
        sa.Column("status_before_drain", sa.JSON(none_as_null=True)),
        # The variable drover_labels of the host.
        sa.Column("labels", sa.JSON(none_as_null=True)),
        sa.Column("last_seen_up", sa.Double),
        sa.Column("last_error", sa.Text),
        columns.time("created_at"),
        sa.UniqueConstraint("host", "binary"),
    )

    # The provider with the same uuid has the inventories.
    compute_nodes = sa.Table(
        "compute_nodes",
        metadata,
        columns.identifier(),
        columns.uuid(),
        columns.reference("service_id", "services.id"),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(255), nullable=False),
        sa.Column("uri", sa.Text),
        sa.Column("cell", sa.String(255)),
        sa.Column("migration_uri", sa.Text),
        sa.Column("migration_address", sa.Text),
        # A copy from the facts, to find a host under two names.
        sa.Column("host_uuid", sa.String(36), index=True),
        # False where its host no longer reports it, and allocations keep it.
        sa.Column("reported", sa.Boolean, nullable=False, default=True),
        *map(columns.of_field, NODE_FIELDS),
        columns.time("created_at"),
        columns.time("updated_at"),
        sa.UniqueConstraint("host", "hypervisor_hostname"),
    )

    resource_classes = sa.Table("resource_classes", metadata, columns.identifier(), columns.name())
    traits = sa.Table("traits", metadata, columns.identifier(), columns.name())

    resource_providers = sa.Table(
        "resource_providers",
        metadata,
        columns.identifier(),
        columns.uuid(),
        sa.Column("name", sa.String(512), nullable=False, unique=True),
        sa.Column("generation", sa.Integer, nullable=False, default=0),
        columns.reference("parent_id", "resource_providers.id", nullable=True),
        # Null for a root.
        columns.reference("root_id", "resource_providers.id", nullable=True),
    )
    inventories = sa.Table(
        "inventories",
        metadata,
        columns.identifier(),
        columns.reference("provider_id", "resource_providers.id", ondelete="CASCADE"),
        columns.reference("class_id", "resource_classes.id"),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("min_unit", sa.BigInteger, nullable=False),
        sa.Column("max_unit", sa.BigInteger, nullable=False),
        sa.Column("step_size", sa.BigInteger, nullable=False),
        sa.Column("allocation_ratio", sa.Double, nullable=False),
        # The sum of its allocations, which _placement/inventory.py updates: a claim locks this one
        # row.
        sa.Column("used", sa.BigInteger, nullable=False, default=0, server_default="0"),
        # The reserved amount of a storage pool before its drain; during the drain all of it is
        # reserved, see _placement/pool_drains.py.
        sa.Column("reserved_before_drain", sa.BigInteger),
        sa.Column("drain_reason", sa.Text),
        sa.UniqueConstraint("provider_id", "class_id"),
    )
    provider_traits = sa.Table(
        "provider_traits",
        metadata,
        sa.Column(
            "provider_id",
            sa.ForeignKey("resource_providers.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("trait_id", sa.ForeignKey("traits.id"), primary_key=True),
    )

    # Aggregates of providers (not of hosts), which connect them to sharing providers.
    placement_aggregates = sa.Table(
        "placement_aggregates", metadata, columns.identifier(), columns.uuid()
    )
    provider_aggregates = sa.Table(
        "provider_aggregates",
        metadata,
        sa.Column(
            "provider_id",
            sa.ForeignKey("resource_providers.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("aggregate_id", sa.ForeignKey("placement_aggregates.id"), primary_key=True),
    )

    # Host aggregates; the key availability_zone of their metadata makes one a zone.
    aggregates = sa.Table(
        "aggregates",
        metadata,
        columns.identifier(),
        columns.uuid(),
        columns.name(),
        sa.Column("metadata", sa.JSON, nullable=False),
    )
    aggregate_hosts = sa.Table(
        "aggregate_hosts",
        metadata,
        sa.Column(
            "aggregate_id", sa.ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("host", sa.String(255), primary_key=True),
    )

    consumers = sa.Table(
        "consumers",
        metadata,
        columns.identifier(),
        columns.uuid(),
        sa.Column("type", sa.String(255), nullable=False),
        sa.Column("project", sa.String(255)),
        sa.Column("user", sa.String(255)),
        sa.Column("generation", sa.Integer, nullable=False, default=0),
        columns.time("created_at"),
        # Until discovery has seen the instance; null for one that runs.
        sa.Column("expires_at", sa.Double),
    )
    allocations = sa.Table(
        "allocations",
        metadata,
        columns.identifier(),
        columns.reference("provider_id", "resource_providers.id"),
        # Few indexes, because each claim writes all of them: no query is by class, and the unique
        # one finds consumers.
        columns.reference("class_id", "resource_classes.id", index=False),
        columns.reference("consumer_id", "consumers.id", ondelete="CASCADE", index=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("consumer_id", "provider_id", "class_id"),
    )

    server_groups = sa.Table(
        "server_groups",
        metadata,
        columns.identifier(),
        columns.uuid(),
        columns.name(),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("max_server_per_host", sa.Integer, nullable=False, default=1),
        # The number of members that may move at the same time; null for no limit.
        sa.Column("max_moving", sa.Integer),
    )

    flavors = sa.Table(
        "flavors",
        metadata,
        columns.identifier(),
        columns.uuid(),
        columns.name(),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("disk_gb", sa.Integer, nullable=False),
        sa.Column("extra_specs", sa.JSON, nullable=False),
        columns.time("created_at"),
    )

    images = sa.Table(
        "images",
        metadata,
        columns.identifier(),
        columns.uuid(),
        columns.name(),
        sa.Column("disk_format", sa.String(64)),
        sa.Column("properties", sa.JSON, nullable=False),
        # A URL or a path, and sha256:DIGITS.
        sa.Column("source", sa.Text),
        sa.Column("checksum", sa.String(255)),
        columns.time("created_at"),
    )

    # In the store from its claim on.
    instances = sa.Table(
        "instances",
        metadata,
        columns.identifier(),
        columns.uuid(),
        sa.Column("name", sa.String(255), nullable=False, index=True),
        columns.reference("compute_node_id", "compute_nodes.id", nullable=True),
        # building (claimed), active (a domain exists) or missing (its host no longer shows it).
        sa.Column("state", sa.String(32), nullable=False),
        columns.reference("server_group_id", "server_groups.id", nullable=True),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("disk_gb", sa.Integer, nullable=False),
        sa.Column("availability_zone", sa.String(255)),
        sa.Column("project", sa.String(255)),
        sa.Column("user", sa.String(255)),
        sa.Column("flavor", sa.String(255)),
        # The extra specs of the instance itself; they override the extra specs of its flavor.
        sa.Column("extra_specs", sa.JSON(none_as_null=True)),
        # The NUMA cells and PCI devices of its request, see _numa.request.HostRequest.
        sa.Column("host_request", sa.JSON(none_as_null=True)),
        # The properties of its image.
        sa.Column("image", sa.JSON(none_as_null=True)),
        sa.Column("image_name", sa.String(255)),
        sa.Column("image_id", sa.String(255)),
        # The disk format of its image.
        sa.Column("image_format", sa.String(255)),
        # The rules for its move in a drain: move, on_drain, priority.
        sa.Column("policy", sa.JSON(none_as_null=True)),
        # The labels in its domain's metadata.
        sa.Column("labels", sa.JSON(none_as_null=True)),
        # PROJECT/NAME of its definition, see orders.py.
        sa.Column("definition", sa.String(512)),
        # The open order to a hypervisor, see orders.py.
        sa.Column("task_state", sa.String(32)),
        sa.Column("order_uuid", sa.String(36)),
        columns.time("created_at"),
        # Few of millions, which the scheduler counts for each decision.
        sa.Index("ix_instances_definition", "definition", unique=True),
        sa.Index(
            "ix_instances_project",
            "project",
            sqlite_where=sa.text(HAS_PROJECT),
            postgresql_where=sa.text(HAS_PROJECT),
        ),
        sa.Index(
            "ix_instances_building",
            "compute_node_id",
            sqlite_where=sa.text(IS_BUILDING),
            postgresql_where=sa.text(IS_BUILDING),
        ),
    )
    # The domains in a compute node's last report; a uuid with two rows is one domain on two hosts.
    domains = sa.Table(
        "domains",
        metadata,
        sa.Column(
            "compute_node_id",
            sa.ForeignKey("compute_nodes.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("uuid", sa.String(36), primary_key=True, index=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("persistent", sa.Boolean, nullable=False),
        sa.Column("autostart", sa.Boolean, nullable=False),
        # Disks, interfaces, pass-through devices, metadata and the rest of the domain's facts.
        sa.Column("facts", sa.JSON, nullable=False),
        sa.Column("xml", sa.Text),
        sa.Column("seen_at", sa.Double, nullable=False),
        # True if it has a disk that its host alone has: no other host can start it.
        sa.Column("local_disks", sa.Boolean, nullable=False, server_default=sa.false()),
    )

    # The files, folders and devices of these domains, with the images behind them; only changes are
    # written, see files.py.
    domain_files = sa.Table(
        "domain_files",
        metadata,
        columns.identifier(),
        columns.reference("compute_node_id", "compute_nodes.id", ondelete="CASCADE"),
        sa.Column("uuid", sa.String(36), nullable=False, index=True),
        sa.Column("path", sa.String(1024), nullable=False, index=True),
        # The identity of the file on shared storage, the same on all hosts; null if not known.
        sa.Column("identity", sa.String(1024), index=True),
        # True if the domain may write to it: no read-only disk, no kernel, no image behind a disk.
        sa.Column("written", sa.Boolean, nullable=False, server_default=sa.false()),
    )

    # The limits of projects, by the names of Nova (instances, cores, ram) or of resource classes.
    quotas = sa.Table(
        "quotas",
        metadata,
        columns.identifier(),
        sa.Column("project", sa.String(255), nullable=False),
        sa.Column("resource", sa.String(255), nullable=False),
        sa.Column("hard_limit", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("project", "resource"),
    )
    # The PCI devices that may be given away, by the variable drover_pci_device_specs of the host,
    # see devices.py.
    pci_devices = sa.Table(
        "pci_devices",
        metadata,
        columns.identifier(),
        columns.reference("compute_node_id", "compute_nodes.id", ondelete="CASCADE", index=False),
        sa.Column("address", sa.String(32), nullable=False),
        sa.Column("vendor_id", sa.String(4), nullable=False),
        sa.Column("product_id", sa.String(4), nullable=False),
        sa.Column("device_class", sa.String(6)),
        # Null if the host does not know it.
        sa.Column("numa_node", sa.Integer),
        # type-PCI, type-PF, type-VF or vdpa.
        sa.Column("dev_type", sa.String(16), nullable=False),
        # The address of the physical function of a virtual one.
        sa.Column("parent_addr", sa.String(32)),
        sa.Column("iommu_group", sa.Integer),
        # The name of its network interface on the host; null if it has none.
        sa.Column("interface", sa.Text),
        # The tags of the device spec.
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("resource_class", sa.String(255)),
        sa.Column("traits", sa.JSON, nullable=False),
        # False if the host no longer shows it, or if no device spec names it now, and a consumer
        # keeps it.
        sa.Column("reported", sa.Boolean, nullable=False),
        # The number, from 0, of the request of its owner that it meets; null if no claim gave it.
        sa.Column("request_number", sa.Integer),
        # An instance, or a migration at its source; null for a free device.
        columns.reference("consumer_id", "consumers.id", nullable=True, ondelete="SET NULL"),
        sa.UniqueConstraint("compute_node_id", "address"),
    )
    # The types of mediated devices that may be made, by the variable drover_mdev_types; a device
    # makes one.
    mdev_types = sa.Table(
        "mdev_types",
        metadata,
        columns.identifier(),
        columns.reference("compute_node_id", "compute_nodes.id", ondelete="CASCADE", index=False),
        # libvirt's name of the device that makes them.
        sa.Column("parent", sa.String(255), nullable=False),
        sa.Column("type", sa.String(255), nullable=False),
        sa.Column("resource_class", sa.String(255), nullable=False),
        # The number of devices that exist, and that can still be made.
        sa.Column("total", sa.Integer, nullable=False),
        sa.UniqueConstraint("compute_node_id", "parent"),
    )
    # All mediated devices of hosts.
    mdevs = sa.Table(
        "mdevs",
        metadata,
        columns.identifier(),
        columns.reference("compute_node_id", "compute_nodes.id", ondelete="CASCADE", index=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("parent", sa.String(255), nullable=False),
        sa.Column("type", sa.String(255), nullable=False),
        # False if it is defined and does not exist.
        sa.Column("active", sa.Boolean, nullable=False),
        columns.reference("consumer_id", "consumers.id", nullable=True, ondelete="SET NULL"),
        sa.UniqueConstraint("compute_node_id", "uuid"),
    )
    # The NUMA cells of compute nodes that consumers have, see _store/hosts/numa.py.
    numa_allocations = sa.Table(
        "numa_allocations",
        metadata,
        columns.identifier(),
        columns.reference("consumer_id", "consumers.id", ondelete="CASCADE", index=False),
        columns.reference("compute_node_id", "compute_nodes.id", ondelete="CASCADE"),
        # Guest and host cell, memory, page size, shared vCPUs, pins, reserved CPUs and policies of
        # each.
        sa.Column("cells", sa.JSON, nullable=False),
        sa.UniqueConstraint("consumer_id", "compute_node_id"),
    )

    # A migration is one move of one instance. While it is open its uuid is the consumer of the
    # source's room.
    migrations = sa.Table(
        "migrations",
        metadata,
        columns.identifier(),
        columns.uuid(),
        sa.Column("instance_uuid", sa.String(36), nullable=False, index=True),
        sa.Column("instance_name", sa.String(255), nullable=False),
        columns.reference("source_node_id", "compute_nodes.id", nullable=True, ondelete="SET NULL"),
        columns.reference(
            "destination_node_id", "compute_nodes.id", nullable=True, ondelete="SET NULL"
        ),
        sa.Column("source", sa.String(512), nullable=False),
        sa.Column("destination", sa.String(512), nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("status", sa.String(32), nullable=False, index=True),
        sa.Column("message", sa.Text),
        # The old flavor and sizes of a resize, for its undo.
        sa.Column("details", sa.JSON(none_as_null=True)),
        # The amounts that a completed move copied, and its duration; all three are null if they are
        # not known.
        sa.Column("copied_memory_mib", sa.BigInteger),
        sa.Column("copied_disk_mib", sa.BigInteger),
        sa.Column("seconds", sa.Double),
        columns.time("created_at"),
        columns.time("updated_at"),
    )

    # The runs at work (rule S4): one row per host.
    leases = sa.Table(
        "leases",
        metadata,
        sa.Column("name", sa.String(255), primary_key=True),
        # The holder for people, and its process for leases.py.
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("process", sa.String(255), nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("acquired_at", sa.Double, nullable=False),
        sa.Column("renewed_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
    )

    # Power actions on hosts, recorded before they begin, and again with their outcome.
    power_events = sa.Table(
        "power_events",
        metadata,
        columns.identifier(),
        columns.uuid(),
        sa.Column("host", sa.String(255), nullable=False, index=True),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("driver", sa.String(32), nullable=False),
        # running (also of a killed run), completed or failed.
        sa.Column("status", sa.String(32), nullable=False),
        # on, off or unknown, by the driver after the action.
        sa.Column("power_state", sa.String(32)),
        # After the action; while it runs, the boot_id at its begin.
        sa.Column("boot_id", sa.String(36)),
        sa.Column("message", sa.Text),
        columns.time("created_at"),
        columns.time("updated_at"),
    )

    # The hosts of the open rolling maintenance.
    rolling_hosts = sa.Table(
        "rolling_hosts",
        metadata,
        sa.Column("host", sa.String(255), primary_key=True),
        # The last one that began, see rolling.py.
        sa.Column("stage", sa.String(32), nullable=False),
        # Before the reboot.
        sa.Column("boot_id", sa.String(36)),
        # The instances on the host before its drain.
        sa.Column("instances", sa.JSON(none_as_null=True)),
        sa.Column("message", sa.Text),
        columns.time("created_at"),
        columns.time("updated_at"),
    )

    # The hosts that are shut out of shared storage, from before they are until they are let in
    # again.
    storage_fences = sa.Table(
        "storage_fences",
        metadata,
        sa.Column("host", sa.String(255), primary_key=True),
        # The name or the path of its tasks.
        sa.Column("fence", sa.String(1024), primary_key=True),
        # The addresses that are shut out.
        sa.Column("addresses", sa.JSON, nullable=False),
        # The texts of the disks that were seen to be cut off last, see _storage_identity.
        sa.Column("cut", sa.JSON, nullable=False),
        columns.time("created_at"),
        # None until that was seen, and again from the next run's begin on.
        sa.Column("verified_at", sa.Double),
    )

    # The CPU that the guests of a group of hosts have. Empty texts stand for no cell and no vendor.
    fleet_cpus = sa.Table(
        "fleet_cpus",
        metadata,
        *(
            sa.Column(name, sa.String(length), primary_key=True)
            for name, length in (("cell", 255), ("arch", 64), ("domain_type", 64), ("vendor", 64))
        ),
        sa.Column("cpu", sa.JSON, nullable=False),
        # The hosts from which it was computed.
        sa.Column("hosts", sa.JSON, nullable=False),
        columns.time("created_at"),
    )

    # The capacity and the use of the fleet on each day, counted from 1970 in UTC; a bounded number
    # of days, see history.py. The zone is an empty text for hosts without a zone.
    history = sa.Table(
        "history",
        metadata,
        sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("zone", sa.String(255), primary_key=True),
        sa.Column("resource_class", sa.String(255), primary_key=True),
        sa.Column("capacity", sa.Double, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
    )

    # Decisions of the scheduler; the newest are kept, see decisions.py. No index, because each
    # claim writes here.
    decisions = sa.Table(
        "decisions",
        metadata,
        columns.identifier(),
        columns.time("created_at"),
        # place, resize or migrate.
        sa.Column("purpose", sa.String(32), nullable=False),
        # The user of the scheduler, for people.
        sa.Column("actor", sa.String(255)),
        # No foreign key: the row outlives the instance, and a refused instance never existed.
        sa.Column("instance_uuid", sa.String(36)),
        sa.Column("instance_name", sa.String(255), nullable=False),
        # Null without a valid host.
        sa.Column("host", sa.String(255)),
        sa.Column("node", sa.String(255)),
        sa.Column("alternates", sa.JSON, nullable=False),
        sa.Column("explanation", sa.JSON(none_as_null=True)),
        sa.Column("message", sa.Text),
    )

    # The actions of runs; the newest are kept, see actions.py. No index, because each claim writes
    # here.
    actions = sa.Table(
        "actions",
        metadata,
        columns.identifier(),
        columns.time("created_at"),
        # A text of actions.KINDS.
        sa.Column("kind", sa.String(32), nullable=False),
        # No foreign keys: the row outlives the instance and the host.
        sa.Column("instance_uuid", sa.String(36)),
        sa.Column("instance_name", sa.String(255)),
        sa.Column("host", sa.String(255)),
        # The destination of a move.
        sa.Column("destination", sa.String(255)),
        sa.Column("message", sa.Text, nullable=False),
        # The columns of the run, see records.runs.
        sa.Column("user", sa.String(255), nullable=False),
        sa.Column("controller", sa.String(255), nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("job", sa.JSON(none_as_null=True)),
    )

    # One row: the time at which the store was brought back, if it has not read all hosts since (0,
    # see MADE_AND_UNREAD), and the number of its claims, see continuity.py.
    continuity = sa.Table(
        "continuity",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("born_at", sa.Double, nullable=False),
        sa.Column("claims", sa.BigInteger, nullable=False),
        sa.Column("written_by", sa.BigInteger),
        sa.Column("timeline", sa.Integer),
    )

    #: The tables of an export: without the one that is about this database.
    EXPORTED = [table for table in metadata.sorted_tables if table.name != "continuity"]

# The states of migrations that run, or that a killed run left open.
OPEN_MIGRATION: tuple[MigrationStatus, ...] = ("accepted", "running")
# The states above, and the states in which both ends still hold room: a resize that waits for its
# confirmation, an evacuation with a source that is not back.
HOLDING_MIGRATION: tuple[MigrationStatus, ...] = (*OPEN_MIGRATION, "finished", "done")

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store's tables. Migrations make them; a test compares both.

Times are seconds since 1970 (UTC) as floating point. Sizes are MiB or GiB as the name says.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils.records.node_fields import NODE_FIELDS, NUMBER, TEXT, NodeField
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

# Which instances are claimed and have no domain yet; in SQL, as an index has to be asked for in its own words.
IS_BUILDING = "state = 'building'"

if sa:
    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )

    def _id() -> sa.Column[int]:
        return sa.Column("id", sa.Integer, primary_key=True)

    def _uuid() -> sa.Column[str]:
        return sa.Column("uuid", sa.String(36), nullable=False, unique=True)

    def _reference(name: str, target: str, nullable: bool = False, ondelete: str | None = None, index: bool = True) -> sa.Column[int]:
        return sa.Column(name, sa.ForeignKey(target, ondelete=ondelete), nullable=nullable, index=index)

    def _field(field: NodeField) -> sa.Column[Any]:
        kind: Any = sa.JSON(none_as_null=True)
        if field.types in (NUMBER, TEXT):
            kind = sa.Integer if field.types == NUMBER else sa.String(field.length)
        if field.default is None:
            return sa.Column(field.name, kind)
        return sa.Column(field.name, kind, nullable=False, default=field.default, server_default=str(field.default))

    # One process unit on one host. Up or down is worked out from what is here, see services.py.
    services = sa.Table(
        "services",
        metadata,
        _id(),
        _uuid(),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("binary", sa.String(255), nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False, default=False),
        sa.Column("disabled_reason", sa.Text),
        sa.Column("forced_down", sa.Boolean, nullable=False, default=False),
        sa.Column("maintenance", sa.Boolean, nullable=False, default=False),
        # What drain found before it disabled the host, for undrain to give back (rule S5).
        sa.Column("status_before_drain", sa.JSON(none_as_null=True)),
        sa.Column("last_seen_up", sa.Double),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.UniqueConstraint("host", "binary"),
    )

    # What the scheduler places on. Its room is in the inventories of the provider of its uuid.
    compute_nodes = sa.Table(
        "compute_nodes",
        metadata,
        _id(),
        _uuid(),
        _reference("service_id", "services.id"),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(255), nullable=False),
        sa.Column("uri", sa.Text),
        sa.Column("cell", sa.String(255)),
        sa.Column("migration_uri", sa.Text),
        sa.Column("migration_address", sa.Text),
        # False once its host no longer reports it while something is still allocated on it.
        sa.Column("reported", sa.Boolean, nullable=False, default=True),
        *map(_field, NODE_FIELDS),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.UniqueConstraint("host", "hypervisor_hostname"),
    )

    resource_classes = sa.Table("resource_classes", metadata, _id(), sa.Column("name", sa.String(255), nullable=False, unique=True))
    traits = sa.Table("traits", metadata, _id(), sa.Column("name", sa.String(255), nullable=False, unique=True))

    resource_providers = sa.Table(
        "resource_providers",
        metadata,
        _id(),
        _uuid(),
        sa.Column("name", sa.String(512), nullable=False, unique=True),
        sa.Column("generation", sa.Integer, nullable=False, default=0),
        _reference("parent_id", "resource_providers.id", nullable=True),
        # Null means that the provider is a root itself.
        _reference("root_id", "resource_providers.id", nullable=True),
    )
    inventories = sa.Table(
        "inventories",
        metadata,
        _id(),
        _reference("provider_id", "resource_providers.id", ondelete="CASCADE"),
        _reference("class_id", "resource_classes.id"),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("min_unit", sa.BigInteger, nullable=False),
        sa.Column("max_unit", sa.BigInteger, nullable=False),
        sa.Column("step_size", sa.BigInteger, nullable=False),
        sa.Column("allocation_ratio", sa.Double, nullable=False),
        # The sum of its allocations, kept by placement/inventory.py: a claim reads and holds this one row.
        sa.Column("used", sa.BigInteger, nullable=False, default=0, server_default="0"),
        sa.UniqueConstraint("provider_id", "class_id"),
    )
    provider_traits = sa.Table(
        "provider_traits",
        metadata,
        sa.Column("provider_id", sa.ForeignKey("resource_providers.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("trait_id", sa.ForeignKey("traits.id"), primary_key=True),
    )

    # Aggregates of providers (not of hosts): what a sharing provider is reached through.
    placement_aggregates = sa.Table("placement_aggregates", metadata, _id(), _uuid())
    provider_aggregates = sa.Table(
        "provider_aggregates",
        metadata,
        sa.Column("provider_id", sa.ForeignKey("resource_providers.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("aggregate_id", sa.ForeignKey("placement_aggregates.id"), primary_key=True),
    )

    # Host aggregates; the key availability_zone of their metadata makes one a zone.
    aggregates = sa.Table(
        "aggregates",
        metadata,
        _id(),
        _uuid(),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("metadata", sa.JSON, nullable=False),
    )
    aggregate_hosts = sa.Table(
        "aggregate_hosts",
        metadata,
        sa.Column("aggregate_id", sa.ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("host", sa.String(255), primary_key=True),
    )

    consumers = sa.Table(
        "consumers",
        metadata,
        _id(),
        _uuid(),
        sa.Column("type", sa.String(255), nullable=False),
        sa.Column("project", sa.String(255)),
        sa.Column("user", sa.String(255)),
        sa.Column("generation", sa.Integer, nullable=False, default=0),
        sa.Column("created_at", sa.Double, nullable=False),
        # Until discovery has seen the instance; null for one that runs.
        sa.Column("expires_at", sa.Double),
    )
    allocations = sa.Table(
        "allocations",
        metadata,
        _id(),
        _reference("provider_id", "resource_providers.id"),
        # Few indexes, as each claim writes into all: nothing looks for a class, and the unique one finds consumers.
        _reference("class_id", "resource_classes.id", index=False),
        _reference("consumer_id", "consumers.id", ondelete="CASCADE", index=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("consumer_id", "provider_id", "class_id"),
    )

    server_groups = sa.Table(
        "server_groups",
        metadata,
        _id(),
        _uuid(),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("max_server_per_host", sa.Integer, nullable=False, default=1),
        # How many members may be under way at one time; null for no limit.
        sa.Column("max_moving", sa.Integer),
    )

    flavors = sa.Table(
        "flavors",
        metadata,
        _id(),
        _uuid(),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("disk_gb", sa.Integer, nullable=False),
        sa.Column("extra_specs", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )

    # What the store holds of an instance, from its claim on.
    instances = sa.Table(
        "instances",
        metadata,
        _id(),
        _uuid(),
        sa.Column("name", sa.String(255), nullable=False, index=True),
        _reference("compute_node_id", "compute_nodes.id", nullable=True),
        # building (claimed), active (a domain exists) or missing (its host no longer shows it).
        sa.Column("state", sa.String(32), nullable=False),
        _reference("server_group_id", "server_groups.id", nullable=True),
        sa.Column("vcpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("disk_gb", sa.Integer, nullable=False),
        sa.Column("availability_zone", sa.String(255)),
        sa.Column("project", sa.String(255)),
        sa.Column("user", sa.String(255)),
        sa.Column("flavor", sa.String(255)),
        # The properties of the image it was made from.
        sa.Column("image", sa.JSON(none_as_null=True)),
        # What may be done with it when its host is emptied: move, on_drain, priority.
        sa.Column("policy", sa.JSON(none_as_null=True)),
        # PROJECT/NAME of the definition that it was made from, see orders.py: a definition is one instance.
        sa.Column("definition", sa.String(512)),
        # What a hypervisor was ordered to do with it, and the name of that order, until what became of it is known.
        sa.Column("task_state", sa.String(32)),
        sa.Column("order_uuid", sa.String(36)),
        sa.Column("created_at", sa.Double, nullable=False),
        # Few of millions; the scheduler counts them for every decision.
        sa.Index("ix_instances_definition", "definition", unique=True),
        sa.Index(
            "ix_instances_building",
            "compute_node_id",
            sqlite_where=sa.text(IS_BUILDING),
            postgresql_where=sa.text(IS_BUILDING),
        ),
    )
    # What a compute node's libvirt last showed; a uuid with two rows is one domain on two hosts.
    domains = sa.Table(
        "domains",
        metadata,
        sa.Column("compute_node_id", sa.ForeignKey("compute_nodes.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("uuid", sa.String(36), primary_key=True, index=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("persistent", sa.Boolean, nullable=False),
        sa.Column("autostart", sa.Boolean, nullable=False),
        # Disks, interfaces, pass-through devices, metadata and the rest of the domain's facts.
        sa.Column("facts", sa.JSON, nullable=False),
        sa.Column("xml", sa.Text),
        sa.Column("seen_at", sa.Double, nullable=False),
    )

    # The files and devices of what a compute node last showed, with all that is behind them. Who needs a file is looked for in
    # all of them; so they are written only where they have changed, see files.py.
    domain_files = sa.Table(
        "domain_files",
        metadata,
        _id(),
        _reference("compute_node_id", "compute_nodes.id", ondelete="CASCADE"),
        sa.Column("uuid", sa.String(36), nullable=False, index=True),
        sa.Column("path", sa.String(1024), nullable=False, index=True),
        # Where it is on shared storage, the same on every host; null where that is not known.
        sa.Column("identity", sa.String(1024), index=True),
        # Whether the domain may write to it: a disk that is not read-only, not what is behind one.
        sa.Column("written", sa.Boolean, nullable=False, server_default=sa.false()),
    )

    # One move of one instance. While it is open its uuid is the consumer of the source's room.
    migrations = sa.Table(
        "migrations",
        metadata,
        _id(),
        _uuid(),
        sa.Column("instance_uuid", sa.String(36), nullable=False, index=True),
        sa.Column("instance_name", sa.String(255), nullable=False),
        _reference("source_node_id", "compute_nodes.id", nullable=True, ondelete="SET NULL"),
        _reference("destination_node_id", "compute_nodes.id", nullable=True, ondelete="SET NULL"),
        sa.Column("source", sa.String(512), nullable=False),
        sa.Column("destination", sa.String(512), nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("status", sa.String(32), nullable=False, index=True),
        sa.Column("message", sa.Text),
        # What an undo gives back beside the place: the old flavor and sizes of a resize.
        sa.Column("details", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
    )

    # Who is at work on a host (rule S4): one row per host that somebody works on.
    leases = sa.Table(
        "leases",
        metadata,
        sa.Column("name", sa.String(255), primary_key=True),
        # The holder in words for people, and the process in words for leases.py.
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("process", sa.String(255), nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("acquired_at", sa.Double, nullable=False),
        sa.Column("renewed_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
    )

    # One power action on one host: written down before it is begun, and again with what came of it.
    power_events = sa.Table(
        "power_events",
        metadata,
        _id(),
        _uuid(),
        sa.Column("host", sa.String(255), nullable=False, index=True),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("driver", sa.String(32), nullable=False),
        # running, completed or failed; one that is still running was left by a run that was killed.
        sa.Column("status", sa.String(32), nullable=False),
        # on, off or unknown, as the driver said in the end.
        sa.Column("power_state", sa.String(32)),
        # The boot that was seen in the end; before that, the one that the action began with.
        sa.Column("boot_id", sa.String(36)),
        sa.Column("message", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
    )

    # How far a rolling maintenance has come with each of its hosts; empty when there is none.
    rolling_hosts = sa.Table(
        "rolling_hosts",
        metadata,
        sa.Column("host", sa.String(255), primary_key=True),
        # What was begun last, see rolling.py.
        sa.Column("stage", sa.String(32), nullable=False),
        # Its boot before the reboot.
        sa.Column("boot_id", sa.String(36)),
        # What was on it before its drain.
        sa.Column("instances", sa.JSON(none_as_null=True)),
        sa.Column("message", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
    )

    # What the scheduler decided and why; only the newest are kept, see decisions.py. No index: each claim writes here.
    decisions = sa.Table(
        "decisions",
        metadata,
        _id(),
        sa.Column("created_at", sa.Double, nullable=False),
        # What for: place, resize or migrate.
        sa.Column("purpose", sa.String(32), nullable=False),
        # Who asked, in words for people.
        sa.Column("actor", sa.String(255)),
        # Not a reference: what is told outlives the instance, and one that was refused never was there.
        sa.Column("instance_uuid", sa.String(36)),
        sa.Column("instance_name", sa.String(255), nullable=False),
        # Null when there was no valid host.
        sa.Column("host", sa.String(255)),
        sa.Column("node", sa.String(255)),
        sa.Column("alternates", sa.JSON, nullable=False),
        sa.Column("explanation", sa.JSON(none_as_null=True)),
        sa.Column("message", sa.Text),
    )

    # A migration in one of these states is under way, or was when its run was killed.
    # One row: since when the store can know what runs, and how many claims it has seen, see continuity.py.
    continuity = sa.Table(
        "continuity",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("born_at", sa.Double, nullable=False),
        sa.Column("claims", sa.BigInteger, nullable=False),
        sa.Column("written_by", sa.BigInteger),
        sa.Column("timeline", sa.Integer),
    )

    #: What an export holds: all but what is of one database only.
    EXPORTED = [table for table in metadata.sorted_tables if table.name != "continuity"]

OPEN_MIGRATION = ("accepted", "running")
# In these states too both ends are held: a resize that waits to be confirmed, an evacuation whose source
# has not come back.
HOLDING_MIGRATION = (*OPEN_MIGRATION, "finished", "done")

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's host filters and weighers, answered by drover's engine.

``install()`` replaces Nova's classes by classes with the same names. They turn the input of a test
(HostState, RequestSpec, configuration, mocked aggregate metadata) into a fleet and a request of
ours: columns as the store's read_columns returns them, with only the optional columns that our
policy reads for this request; a request made from the mapping that users write, if a mapping can
express it. The answer comes from our filter, or from our weighing of all hosts at once.

Nova's own filters and weighers are not in use, except the handler that calls one filter after the
other. ASKED counts the calls of our engine; a test without a call does not count.
"""

from __future__ import annotations

import importlib
import json
import os
import uuid
from dataclasses import replace

import nova.conf
from nova import exception, objects, servicegroup
from nova import weights as nova_weights
from nova.scheduler import filters as host_filters
from nova.scheduler import utils as sched_utils
from nova.scheduler import weights as host_weights
from nova.scheduler.filters import extra_specs_ops
from nova.scheduler.filters import utils as filter_utils

from ansible_collections.drover.compute.plugins.plugin_utils._common import errors as drover_errors
from ansible_collections.drover.compute.plugins.plugin_utils._common import spec_names
from ansible_collections.drover.compute.plugins.plugin_utils._common.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils._numa import (
    device_requests as pci_requests,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa import guest as numa_guest
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import (
    aggregates,
    errors,
    filtering,
    host_states,
    weighing,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import (
    extra_spec_operators as operators,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import policy as policies
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import (
    request_spec as request_specs,
)

CONF = nova.conf.CONF
ASKED = {"count": 0}


# --- configuration ---------------------------------------------------------

#: Our policy key -> (group, option) of Nova, if they differ.
RENAMED = {
    "metrics_weight_multiplier": ("metrics", "weight_multiplier"),
    "metrics_weight_setting": ("metrics", "weight_setting"),
    "metrics_required": ("metrics", "required"),
    "metrics_weight_of_unavailable": ("metrics", "weight_of_unavailable"),
    "default_availability_zone": ("DEFAULT", "default_availability_zone"),
}
#: Options of Nova before filters and weighers, by our keys.
SCHEDULER = {
    "limit_tenants_to_placement_aggregate",
    "placement_aggregate_required_for_tenants",
    "enable_isolated_aggregate_filtering",
    "image_metadata_prefilter",
    "query_placement_for_image_type_support",
}


def nova_option(key):
    group, name = RENAMED.get(key, ("scheduler" if key in SCHEDULER else "filter_scheduler", key))
    where = CONF if group == "DEFAULT" else getattr(CONF, group)
    return getattr(where, name)


def policy(names=(), weighers=()):
    """Return our policy with Nova's present configuration.

    The lists of Nova's options (name=ratio) stay unchanged, because our policy reads them.
    """
    kinds = policies.Catalogue("host_filters").own, policies.Catalogue("weighers").own
    mapping = {"enabled_filters": list(names), "weighers": list(weighers)}
    for kind, chosen in zip(kinds, (names, weighers)):
        for name in chosen:
            for key in kind[name].options:
                value = nova_option(key)
                if value is None:
                    continue
                mapping[key] = value
    return policies.Policy.from_mapping(mapping)


# --- requests --------------------------------------------------------------


def field(obj, name, default=None):
    """Return a field of a versioned object, or of any object of a test; the default if it is not
    set."""
    if obj is None:
        return default
    if isinstance(obj, dict):
        return obj.get(name, default)
    try:
        if hasattr(obj, "obj_attr_is_set") and name in obj.fields and not obj.obj_attr_is_set(name):
            return default
        value = getattr(obj, name)
    except (NotImplementedError, AttributeError, exception.NovaException):
        return default
    return default if value is None else value


def properties_of(image):
    by_name = {}
    properties = field(image, "properties")
    for name in getattr(properties, "fields", ()):
        if properties.obj_attr_is_set(name):
            value = getattr(properties, name)
            if value is not None:
                by_name[name] = value
    return by_name


def request(spec, aliases=None):
    """Return our RequestSpec for a RequestSpec of Nova."""
    flavor, image = field(spec, "flavor"), field(spec, "image")
    # A guest that boots from a volume needs no root disk of the host; our caller must leave it out.
    disk = (field(flavor, "ephemeral_gb") or 0) - -(field(flavor, "swap") or 0) // 1024
    disk += 0 if field(spec, "is_bfv", False) else field(flavor, "root_gb") or 0
    mapping = {
        "name": "request",
        "vcpus": field(flavor, "vcpus") or 1,
        "memory_mb": field(flavor, "memory_mb") or 1,
        "disk_gb": disk,
    }
    extra = {}
    if flavor is not None:
        extra = dict(field(flavor, "extra_specs") or {})
        if os.environ.get("ADAPTER_IGNORE_MALFORMED"):
            # Nova ignores amounts that are not numbers, and we refuse them: they are left out to
            # test the rest of the request.
            extra = {
                key: value
                for key, value in extra.items()
                if not key.startswith("resources") or str(value).isdigit()
            }
        mapping["flavor"] = {"name": field(flavor, "name") or "flavor", "extra_specs": extra}
    if image is not None:
        mapping["image"] = {"properties": properties_of(image)}
        if field(image, "id"):
            mapping["image"]["id"] = field(image, "id")
        if field(image, "disk_format"):
            mapping["image"]["disk_format"] = field(image, "disk_format")
    if field(spec, "scheduler_hints"):
        mapping["hints"] = dict(field(spec, "scheduler_hints"))
    for key, name in (
        ("project", "project_id"),
        ("availability_zone", "availability_zone"),
        ("uuid", "instance_uuid"),
    ):
        if field(spec, name):
            mapping[key] = field(spec, name)
    if field(spec, "instance_group"):
        mapping["server_group"] = "group"
    for key in ("ignore_hosts", "force_hosts", "force_nodes"):
        if field(spec, key):
            mapping[key] = list(field(spec, key))
    destination = field(spec, "requested_destination")
    if destination is not None:
        cell = field(destination, "cell")
        mapping["requested_destination"] = {
            "host": field(destination, "host"),
            "node": field(destination, "node"),
            "cell": field(cell, "uuid") if cell is not None else None,
            "allow_cross_cell_move": bool(field(destination, "allow_cross_cell_move", False)),
        }
    topology = field(spec, "numa_topology")
    asks_cells = topology is not None and len(topology.cells) > 0
    if asks_cells:
        # A flavor may request cells without CPUs, because tests set only some of the values.
        mapping["vcpus"] = sum(
            len(field(cell, "cpuset", ())) + len(field(cell, "pcpuset", ()))
            for cell in topology.cells
        )
        mapping["memory_mb"] = sum(cell.memory for cell in topology.cells)
    try:
        spec_names.refuse_unknown_of_request(mapping, "The request")
    except drover_errors.DroverError as problem:
        if "asks for what drover does not do" in str(problem):
            raise NotApplicable(f"drover refuses it: {problem}") from problem
    request_spec = request_specs.RequestSpec.from_request(mapping, aliases=aliases or {})
    host_request = request_spec.host_request
    if asks_cells:
        network = field(spec, "network_metadata")
        host_request = replace(
            host_request,
            topology=guest(topology),
            physnets=frozenset(field(network, "physnets", ()) or ()),
            is_tunneled=bool(field(network, "tunneled", False)),
        )
    device_requests = field(spec, "pci_requests")
    if device_requests is not None and device_requests.requests:
        host_request = replace(
            host_request, pci=tuple(pci_request(each) for each in device_requests.requests)
        )
    return replace(request_spec, host_request=host_request)


def pci_request(each):
    specs = tuple(tuple(sorted((key, value) for key, value in spec.items())) for spec in each.spec)
    return pci_requests.PciRequest(
        each.count, specs, field(each, "numa_policy") or pci_requests.LEGACY
    )


def guest(topology):
    cells = [
        numa_guest.GuestCell(
            tuple(sorted(field(cell, "cpuset", ()) or ())),
            tuple(sorted(field(cell, "pcpuset", ()) or ())),
            cell.memory,
        )
        for cell in topology.cells
    ]
    sizes = {field(cell, "pagesize") for cell in topology.cells}
    if len(sizes) > 1:
        raise NotApplicable("guest cells with different page sizes, which no flavor can ask for")
    size = sizes.pop()
    first = topology.cells[0]
    return numa_guest.GuestTopology(
        tuple(cells),
        field(first, "cpu_policy"),
        field(first, "cpu_thread_policy"),
        field(topology, "emulator_threads_policy"),
        {-1: "small", -2: "large", -3: "any"}.get(size, size),
    )


class NotApplicable(Exception):
    """The reason why our model does not have an object of a test."""


# --- hosts -----------------------------------------------------------------


class States(host_states.HostStates):
    """HostStates that reads the aggregates of hosts on first use, so that a test may forbid the
    read."""

    def __init__(self, columns, read):
        self._read_aggregates = read
        self._aggregates = None
        super().__init__(columns)

    @property
    def aggregates(self):
        if self._aggregates is None:
            numbers = {}
            for host in self.host:
                numbers.setdefault(host, len(numbers))
            self._aggregates = aggregates.Aggregates(self._read_aggregates(), numbers, self.host_of)
        return self._aggregates

    @aggregates.setter
    def aggregates(self, _value):
        pass


def metadata_of(hosts, key):
    """Return aggregates as the store has them, from the source of Nova's filters: the metadata
    functions if a test replaces these."""
    aggregate_rows = []
    for host in hosts:
        if key is not None and is_mock(filter_utils.aggregate_values_from_key):
            values = filter_utils.aggregate_values_from_key(host, key)
            aggregate_rows += [
                {"name": f"{host.host}-{value}", "metadata": {key: value}, "hosts": [host.host]}
                for value in sorted(values)
            ]
        elif key is None and is_mock(filter_utils.aggregate_metadata_get_by_host):
            metadata = filter_utils.aggregate_metadata_get_by_host(host)
            aggregate_rows += [
                {
                    "name": f"{host.host}-{name}",
                    "metadata": {name: ",".join(sorted(values))},
                    "hosts": [host.host],
                }
                for name, values in sorted(metadata.items())
            ]
        else:
            aggregate_rows += [
                {
                    "name": f"{host.host}-{number}",
                    "metadata": dict(each.metadata),
                    "hosts": [host.host],
                }
                for number, each in enumerate(host.aggregates)
            ]
    return aggregate_rows


def is_mock(function):
    return type(function).__module__.startswith("unittest.mock")


def service_of(host, asked):
    service = getattr(host, "service", None)
    disabled = bool(field(service, "disabled", False)) if service else False
    # Nova does not query a disabled service either: its answer would change nothing.
    up = (
        bool(servicegroup.API().service_is_up(service))
        if asked and service and not disabled
        else True
    )
    return disabled, up


def metrics_of(host):
    if host.metrics is None:
        return None
    metrics = []
    for each in host.metrics:
        metrics.append({"name": each.name, "value": field(each, "value")})
    return metrics


def columns_of(hosts, spec, wanted, ask_services=False):
    """Return columns as the store's read_columns does; ``wanted``: the optional columns that our
    policy reads."""
    size = len(hosts)
    services = [service_of(host, ask_services) for host in hosts]
    columns = {
        "host": [host.host for host in hosts],
        "node": [host.nodename for host in hosts],
        "uuid": [
            host.uuid or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{host.host}/{host.nodename}"))
            for host in hosts
        ],
        "cell": [host.cell_uuid for host in hosts],
        "disabled": [disabled for disabled, _up in services],
        "up": [up for _disabled, up in services],
        "num_instances": [host.num_instances for host in hosts],
        "num_io_ops": [host.num_io_ops for host in hosts],
        "failed_builds": [host.failed_builds for host in hosts],
        # Nova has one number for the free disk, in MiB; here it is the host's report, in GiB.
        "disk_available_least": [host.free_disk_mb / 1024 for host in hosts],
        "resources": {
            "VCPU": amounts(
                hosts, lambda host: host.vcpus_total, lambda host: host.vcpus_used, "cpu"
            ),
            "MEMORY_MB": amounts(
                hosts,
                lambda host: max(host.total_usable_ram_mb, host.free_ram_mb),
                lambda host: max(host.total_usable_ram_mb, host.free_ram_mb) - host.free_ram_mb,
                "ram",
            ),
            "DISK_GB": amounts(
                hosts,
                lambda host: max(host.total_usable_disk_gb, host.free_disk_mb // 1024 + 1),
                lambda host: 0,
                "disk",
            ),
        },
        "instances": {},
        "instance_names": {},
        "server_groups": {},
    }
    if "hypervisor_version" in wanted:
        columns["hypervisor_version"] = [host.hypervisor_version or 0 for host in hosts]
    for name in ("hypervisor_type", "host_ip", "cpu_info", "supported_instances"):
        if name in wanted:
            columns[name] = [as_stored(getattr(host, name)) for host in hosts]
    if "stats" in wanted:
        columns["stats"] = [as_stored(getattr(host, "stats", None)) for host in hosts]
    if "metrics" in wanted:
        columns["metrics"] = [as_stored(metrics_of(host)) for host in hosts]
    if "traits" in wanted:
        columns["traits"] = [[] for _host in hosts]
    if "node_images" in wanted:
        columns["node_images"] = [
            (row, json.dumps(properties_of(objects.ImageMeta.from_instance(each))), 1)
            for row, host in enumerate(hosts)
            for each in images_of(host)
        ]
    if "free_pci_devices" in wanted:
        columns["free_pci_devices"] = [len(devices_of(host)) for host in hosts]
    if "numa" in wanted:
        columns["numa"] = [numa_document(host) for host in hosts]
    members(columns, hosts, spec)
    assert len(columns["host"]) >= size
    return columns


def images_of(host):
    """Return the instances of a host, from Nova's call that reads their flavors and images."""
    listed = objects.InstanceList(objects=list(host.instances.values()))
    listed.fill_metadata()
    return listed.objects


def as_stored(value):
    """Return structures as JSON text, the form of the store."""
    if isinstance(value, str) or value is None:
        return value
    return json.dumps(value)


def amounts(hosts, total, used, name):
    ratios = [getattr(host, name + "_allocation_ratio") for host in hosts]
    return {
        "total": [int(total(host)) for host in hosts],
        "used": [int(used(host)) for host in hosts],
        "reserved": [0] * len(hosts),
        "ratio": [1.0 if ratio is None else float(ratio) for ratio in ratios],
        "min_unit": [1] * len(hosts),
        "max_unit": [2**31] * len(hosts),
        "step_size": [1] * len(hosts),
    }


def members(columns, hosts, spec):
    """Add the instances of hosts and the server group.

    Nova's affinity reads the hosts of a group, its anti-affinity and the soft policies read its
    members. A host that only the group names gets a separate row, and a host of an affinity group
    gets a member.
    """
    for row, host in enumerate(hosts):
        for key, each in host.instances.items():
            columns["instances"][field(each, "uuid", key) if not isinstance(key, str) else key] = (
                row
            )
    group = field(spec, "instance_group")
    if not group:
        return
    rules = field(group, "rules") or {}
    uuids = [str(each) for each in field(group, "members") or ()]
    policy_name = (
        field(group, "policy") or next(iter(field(group, "policies") or ()), None) or "affinity"
    )
    if policy_name == "affinity":
        for name in field(group, "hosts") or ():
            if name not in columns["host"]:
                add_row(columns, name)
            made_up = "member-of-" + name
            columns["instances"][made_up] = columns["host"].index(name)
            uuids.append(made_up)
    columns["server_groups"]["group"] = {
        "uuid": None,
        "policy": policy_name,
        "members": uuids,
        "max_server_per_host": int(rules.get("max_server_per_host", 1)),
    }


def add_row(columns, name):
    size = len(columns["host"])
    for key, column in columns.items():
        if (
            isinstance(column, list)
            and key not in ("node_images", "node_flavors")
            and len(column) == size
        ):
            column.append(
                {"host": name, "node": name, "disabled": False, "up": True}.get(
                    key,
                    column[0] if key in ("num_instances", "num_io_ops", "failed_builds") else None,
                )
            )
    for resource in columns["resources"].values():
        for column in resource.values():
            column.append(column[0])


def numa_document(host):
    topology = host.numa_topology
    cells, guest_cells = [], []
    for cell in topology.cells if topology else ():
        network = field(cell, "network_metadata")
        memory, cpus = field(cell, "memory_usage", 0), field(cell, "cpu_usage", 0)
        cells.append(
            {
                "id": field(cell, "id", 0),
                "cpus": sorted(cell.cpuset),
                "pcpus": sorted(field(cell, "pcpuset", ()) or ()),
                "memory_mb": cell.memory,
                "siblings": [sorted(each) for each in cell.siblings],
                "socket": field(cell, "socket"),
                "pages": pages_of(cell, memory),
                "physnets": sorted(field(network, "physnets", ()) or ()),
                "tunneled": bool(field(network, "tunneled", False)),
            }
        )
        pinned = sorted(field(cell, "pinned_cpus", ()) or ())
        if memory or cpus or pinned:
            guest_cells.append(
                {
                    "host": field(cell, "id", 0),
                    "guest": 0,
                    "memory_mb": memory,
                    "page_kb": None,
                    "shared": list(range(cpus)),
                    "pins": {str(number): cpu for number, cpu in enumerate(pinned)},
                    "reserved": [],
                    "thread_policy": None,
                }
            )
    return {
        "cells": cells,
        "pci": devices_of(host),
        "device_spec": [{}],
        "instances": [{"uuid": "held", "cells": guest_cells, "pci": []}] if guest_cells else [],
    }


def pages_of(cell, memory):
    """Return the pages of a cell. The invented instance that holds its memory uses the smallest
    pages, so less is reserved."""
    smallest = min((page.size_kb for page in cell.mempages), default=0)
    return [
        {
            "size_kb": page.size_kb,
            "total": page.total,
            "reserved": (
                field(page, "used", 0)
                + field(page, "reserved", 0)
                - (memory * 1024 // smallest if page.size_kb == smallest else 0)
            ),
        }
        for page in cell.mempages
    ]


def devices_of(host):
    """Return a device for each that a pool counts; pools of mocks have no count."""
    stats = host.pci_stats
    if stats is None:
        return []
    if is_mock(stats):
        raise NotApplicable("the PCI pools are a mock")
    devices = []
    for number, pool in enumerate(stats.pools):
        for place in range(pool["count"]):
            devices.append(
                {
                    "vendor_id": identity(pool["vendor_id"]),
                    "product_id": identity(pool["product_id"]),
                    "numa_node": pool.get("numa_node"),
                    "dev_type": pool.get("dev_type", "type-PCI"),
                    "parent_addr": None,
                    "address": (
                        f"{number:04x}:{place >> 8:02x}:{(place >> 3) & 0x1F:02x}.{place & 7:x}"
                    ),
                }
            )
    return devices


def identity(text):
    """Return four hexadecimal digits, also for words of tests in their place."""
    try:
        return f"{int(str(text), 16):04x}"
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_OID, str(text)).hex[:4]


# --- filters ---------------------------------------------------------------

#: Names of our filters -> the metadata key for Nova's function, or None for all metadata.
KEYS = {
    "AggregateNumInstancesFilter": "max_instances_per_host",
    "AggregateIoOpsFilter": "max_io_ops_per_host",
    "AggregateTypeAffinityFilter": "instance_type",
}


def host_passes(name, host, spec):
    ASKED["count"] += 1
    if host is None:
        raise NotApplicable("there is no host")
    wish = policy([name])
    request_spec = request(spec)
    columns = columns_of(
        [host], spec, wish.needs([request_spec]), ask_services=name == "ComputeFilter"
    )
    states = States(columns, lambda: metadata_of([host], KEYS.get(name)))
    row = states.host.index(host.host)
    answer = bool(filtering.ask_filter(wish.filters[0], states, request_spec)[row])
    # A check that a test notices errors: run.py --invert.
    return answer != bool(os.environ.get("ADAPTER_INVERT"))


#: Nova's module, class -> our name.
FILTERS = {
    ("affinity_filter", "DifferentHostFilter"),
    ("affinity_filter", "SameHostFilter"),
    ("affinity_filter", "SimpleCIDRAffinityFilter"),
    ("affinity_filter", "ServerGroupAntiAffinityFilter"),
    ("affinity_filter", "ServerGroupAffinityFilter"),
    ("aggregate_image_properties_isolation", "AggregateImagePropertiesIsolation"),
    ("aggregate_instance_extra_specs", "AggregateInstanceExtraSpecsFilter"),
    ("aggregate_multitenancy_isolation", "AggregateMultiTenancyIsolation"),
    ("all_hosts_filter", "AllHostsFilter"),
    ("compute_capabilities_filter", "ComputeCapabilitiesFilter"),
    ("compute_filter", "ComputeFilter"),
    ("image_props_filter", "ImagePropertiesFilter"),
    ("io_ops_filter", "IoOpsFilter"),
    ("io_ops_filter", "AggregateIoOpsFilter"),
    ("isolated_hosts_filter", "IsolatedHostsFilter"),
    ("json_filter", "JsonFilter"),
    ("metrics_filter", "MetricsFilter"),
    ("num_instances_filter", "NumInstancesFilter"),
    ("num_instances_filter", "AggregateNumInstancesFilter"),
    ("numa_topology_filter", "NUMATopologyFilter"),
    ("pci_passthrough_filter", "PciPassthroughFilter"),
    ("type_filter", "AggregateTypeAffinityFilter"),
}


def make_filter(module, name):
    def passes(self, host_state, spec_obj):
        try:
            return host_passes(name, host_state, spec_obj)
        except errors.RequestError as problem:
            # Nova fails while it examines a host; we refuse the request before that.
            if "is no operator" in str(problem):
                raise KeyError(str(problem)) from problem
            raise

    return type(
        name, (host_filters.BaseHostFilter,), {"host_passes": passes, "__module__": module.__name__}
    )


# --- weighers --------------------------------------------------------------

WEIGHERS = {
    "affinity": ("ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher"),
    "compute": ("BuildFailureWeigher",),
    "cpu": ("CPUWeigher",),
    "cross_cell": ("CrossCellWeigher",),
    "disk": ("DiskWeigher",),
    "hypervisor_version": ("HypervisorVersionWeigher",),
    "image_props": ("ImagePropertiesWeigher",),
    "io_ops": ("IoOpsWeigher",),
    "metrics": ("MetricsWeigher",),
    "num_instances": ("NumInstancesWeigher",),
    "pci": ("PCIWeigher",),
    "ram": ("RAMWeigher",),
}


def weigh(names, hosts, spec):
    """Return the weights of hosts, in their order, by all these weighers together."""
    ASKED["count"] += 1
    wish = policy((), names)
    request_spec = request(spec)
    states = States(
        columns_of(hosts, spec, wish.needs([request_spec])), lambda: metadata_of(hosts, None)
    )
    rows = {key: row for row, key in enumerate(zip(states.host, states.node))}
    passed = np.array(sorted(rows[host.host, host.nodename] for host in hosts), dtype=np.int64)
    weights, _parts = weighing.Weighing(states, request_spec, wish).weigh(passed, detail=False)
    if os.environ.get("ADAPTER_INVERT"):
        weights = -weights - 1
    by_row = dict(zip(passed.tolist(), weights.tolist()))
    return [by_row[rows[host.host, host.nodename]] for host in hosts]


def multiplier(name, host):
    ASKED["count"] += 1
    wish = policy((), [name])
    states = States(columns_of([host], None, ()), lambda: metadata_of([host], None))
    factors = weighing.Weighing(states, request(None), wish)._multiplier(
        wish.weighers[0][0], np.array([0])
    )
    return float(np.ravel(factors)[0])


def make_weigher(module, name):
    def weight_multiplier(self, host_state):
        return multiplier(name, host_state)

    def nothing(self):
        """Do nothing: the configuration is read again for each call."""

    return type(
        name,
        (host_weights.BaseHostWeigher,),
        {
            "weight_multiplier": weight_multiplier,
            "_weigh_object": lambda self, *_: None,
            "_parse_setting": nothing,
            "__module__": module.__name__,
        },
    )


def get_weighed_objects(self, weighers, obj_list, weighing_properties):
    """Return the weighed hosts for BaseWeightHandler, best first, equal ones in their order."""
    hosts = list(obj_list)
    names = [type(each).__name__ for each in weighers]
    try:
        weights = weigh(names, hosts, weighing_properties or None)
    except errors.SchedulerError as problem:
        if "does not report the metric" in str(problem):
            raise exception.ComputeHostMetricNotFound(host="?", node="?", name="?") from problem
        raise
    weighed = [self.object_class(host, weight) for host, weight in zip(hosts, weights)]
    return sorted(weighed, key=lambda each: each.weight, reverse=True)


def normalize(weight_list, minval=None, maxval=None):
    ASKED["count"] += 1
    if not len(weight_list):
        return ()
    return weighing.normalise(np.array(weight_list, dtype=np.float64), minval, maxval).tolist()


# --- helpers of Nova's filters ---------------------------------------------


def match(value, requirement):
    """Compare a value of a host with an extra spec, for extra_specs_ops.match."""
    ASKED["count"] += 1
    return operators.requirement(requirement).matches(value)


def membership(host):
    return aggregates.Membership(
        [
            {"name": str(number), "metadata": each.metadata}
            for number, each in enumerate(host.aggregates)
        ]
    )


def aggregate_values_from_key(host_state, key_name):
    ASKED["count"] += 1
    return membership(host_state).raw.get(key_name, set())


def aggregate_metadata_get_by_host(host_state, key=None):
    ASKED["count"] += 1
    found = membership(host_state).split
    return {name: values for name, values in found.items() if key in (None, name)}


def instance_uuids_overlap(host_state, uuids):
    ASKED["count"] += 1
    states = States(columns_of([host_state], None, ()), list)
    return bool(states.holds([str(each) for each in uuids])[0])


def get_weight_multiplier(host_state, multiplier_name, multiplier_config):
    ASKED["count"] += 1
    return membership(host_state).least(multiplier_name, multiplier_config)


def install():
    for file, name in sorted(FILTERS):
        module = importlib.import_module("nova.scheduler.filters." + file)
        setattr(module, name, make_filter(module, name))
    for file, names in WEIGHERS.items():
        module = importlib.import_module("nova.scheduler.weights." + file)
        for name in names:
            setattr(module, name, make_weigher(module, name))
    nova_weights.BaseWeightHandler.get_weighed_objects = get_weighed_objects
    nova_weights.normalize = normalize
    extra_specs_ops.match = match
    filter_utils.aggregate_values_from_key = aggregate_values_from_key
    filter_utils.aggregate_metadata_get_by_host = aggregate_metadata_get_by_host
    filter_utils.instance_uuids_overlap = instance_uuids_overlap
    sched_utils.get_weight_multiplier = get_weight_multiplier

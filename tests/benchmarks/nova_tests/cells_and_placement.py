# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More of Nova's functions, answered by drover's engine: hosts that a request names, cells and
pinned CPUs, PCI devices and aliases, traits of images. adapter.py must be installed too.
"""

from __future__ import annotations

import copy
import json
import types
import uuid

from nova import exception, objects
from nova.objects import fields
from nova.pci import request as nova_pci_request
from nova.pci import stats as nova_pci_stats
from nova.scheduler import host_manager, request_filter
from nova.scheduler import utils as sched_utils
from nova.virt import hardware

from ansible_collections.drover.compute.plugins.plugin_utils._common import errors as drover_errors
from ansible_collections.drover.compute.plugins.plugin_utils._numa import (
    cpu_sets,
    cpu_topology,
    device_pools,
    device_specs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa import (
    device_requests as pci_requests,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa import hosts as numa_hosts
from ansible_collections.drover.compute.plugins.plugin_utils._numa import request as numa_request
from ansible_collections.drover.compute.plugins.plugin_utils._numa import specs as numa_specs
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import (
    components,
    errors,
    filtering,
    prefilters,
)
from ansible_collections.drover.compute.tests.benchmarks.nova_tests import adapter
from ansible_collections.drover.compute.tests.benchmarks.nova_tests.adapter import (
    ASKED,
    CONF,
    NotApplicable,
    field,
    np,
)

SIZES = {"small": -1, "large": -2, "any": -3}


def translated(function):
    """Turn a refusal of our engine into Nova's exception for it."""

    def call(*args, **kw):
        ASKED["count"] += 1
        try:
            return function(*args, **kw)
        except drover_errors.InvalidSpecs as problem:
            if problem.code == "Unsupported":
                raise NotApplicable(f"drover refuses it: {problem}") from problem
            if problem.code == "ValueError":
                raise ValueError(str(problem)) from problem
            raise getattr(exception, problem.code)(message=str(problem)) from problem

    return call


def properties(image_meta):
    """Return image properties as users write them, from ImageMetaProps."""
    by_name = {}
    for name, value in adapter.properties_of(image_meta).items():
        if name in ("hw_numa_cpus", "hw_numa_mem"):
            for number, each in enumerate(value):
                by_name[f"{name}.{number}"] = (
                    ",".join(map(str, sorted(each))) if name == "hw_numa_cpus" else str(each)
                )
        elif name == "traits_required":
            # The form of an image of Glance.
            by_name.update({"trait:" + each: "required" for each in value})
        else:
            by_name[name] = value
    return by_name


# --- cells: requests of flavor and image ----------------------------------

#: Nova's own function, for a table of cases with one that drover refuses as a whole: the other rows
#: still use ours.
NOVAS = {
    name: getattr(hardware, name)
    for name in ("numa_get_constraints", "_get_desirable_cpu_topologies")
}
NOVAS_TOPOLOGY = hardware.get_cpu_topology_constraints
NOVAS_POLICY = hardware.get_cpu_policy_constraint
#: The number of these calls.
LENT = {"count": 0}


def numa_get_constraints(flavor, image_meta):
    try:
        return own_constraints(flavor, image_meta)
    except NotApplicable:
        LENT["count"] += 1
        ours_now, hardware.get_cpu_policy_constraint = (
            hardware.get_cpu_policy_constraint,
            NOVAS_POLICY,
        )
        try:
            return NOVAS["numa_get_constraints"](flavor, image_meta)
        finally:
            hardware.get_cpu_policy_constraint = ours_now


@translated
def own_constraints(flavor, image_meta):
    request, _constraints = numa_request.read_request(
        flavor.vcpus,
        flavor.memory_mb,
        field(flavor, "extra_specs", {}),
        properties(image_meta),
        None,
    )
    topology = request.topology
    if topology is None:
        return None
    size = SIZES.get(topology.page_size, topology.page_size)
    cells = [
        objects.InstanceNUMACell(
            id=number,
            cpuset=set(cell.shared),
            pcpuset=set(cell.pinned),
            memory=cell.memory_mb,
            pagesize=size,
            cpu_policy=topology.cpu_policy,
            cpu_thread_policy=topology.thread_policy,
        )
        for number, cell in enumerate(topology.cells)
    ]
    return objects.InstanceNUMATopology(
        cells=cells, emulator_threads_policy=topology.emulator_policy
    )


def specs(flavor, image_meta):
    return numa_specs.Specs(field(flavor, "extra_specs", {}), properties(image_meta))


@translated
def get_cpu_policy_constraint(flavor, image_meta):
    return numa_specs._cpu_policy(specs(flavor, image_meta))


@translated
def get_numa_pagesize_constraint(flavor, image_meta):
    size = numa_specs._page_size(specs(flavor, image_meta))
    return SIZES.get(size, size)


@translated
def get_pci_numa_policy_constraint(flavor, image_meta):
    return pci_requests.affinity_policy(field(flavor, "extra_specs", {}), properties(image_meta))


@translated
def get_cpu_topology_constraints(flavor, image_meta):
    topologies = cpu_topology.read_cpu_topology(
        field(flavor, "extra_specs", {}), properties(image_meta)
    )
    return tuple(
        objects.VirtCPUTopology(sockets=each.sockets, cores=each.cores, threads=each.threads)
        for each in topologies
    )


@translated
def get_best_cpu_topology(flavor, image_meta, *_more, **_kw):
    topology = cpu_topology.guest_cpu_topology(
        flavor.vcpus, field(flavor, "extra_specs", {}), properties(image_meta)
    )
    return objects.VirtCPUTopology(
        sockets=topology.sockets, cores=topology.cores, threads=topology.threads
    )


def get_desirable_cpu_topologies(flavor, image_meta, allow_threads=True, **_kw):
    if not allow_threads:
        # A guest without threads on any host: only drivers without threads need that.
        LENT["count"] += 1
        ours_now, hardware.get_cpu_topology_constraints = (
            hardware.get_cpu_topology_constraints,
            NOVAS_TOPOLOGY,
        )
        try:
            return NOVAS["_get_desirable_cpu_topologies"](flavor, image_meta, allow_threads)
        finally:
            hardware.get_cpu_topology_constraints = ours_now
    return [get_best_cpu_topology(flavor, image_meta)]


def parse_cpu_spec(spec):
    ASKED["count"] += 1
    try:
        return cpu_sets.parse_cpu_set(spec, "the set")
    except drover_errors.DroverError as problem:
        raise exception.Invalid(message=str(problem)) from problem


# --- cells: the fit ---------------------------------------------------------


def numa_host(topology, limits=None, pci_stats=None):
    host = types.SimpleNamespace(numa_topology=topology, pci_stats=pci_stats)
    document = adapter.numa_document(host)
    if pci_stats is not None:
        devices, given, _objects = devices_of(pci_stats)
        document.update(pci=devices, device_spec=given)
    ratios = (
        {key: field(limits, key) for key in ("cpu_allocation_ratio", "ram_allocation_ratio")}
        if limits is not None
        else {}
    )
    pack = CONF.compute.packing_host_numa_cells_allocation_strategy
    return numa_hosts.NumaHosts([{**document, "name": "host", **ratios}], pack)


def request_of(topology, limits, pci_requests):
    network = field(limits, "network_metadata")
    return numa_request.HostRequest(
        topology=adapter.guest(topology),
        pci=tuple(pci_request(each) for each in pci_requests or ()),
        physnets=frozenset(field(network, "physnets", ()) or ()),
        is_tunneled=bool(field(network, "tunneled", False)),
        with_limits=limits is not None,
    )


def numa_fit_instance_to_host(
    host_topology,
    instance_topology,
    provider_mapping=None,
    limits=None,
    pci_requests=None,
    pci_stats=None,
):
    ASKED["count"] += 1
    if not (host_topology and instance_topology):
        return None
    if (
        adapter.is_mock(nova_pci_stats.PciDeviceStats.support_requests)
        or adapter.is_mock(hardware._numa_cells_support_network_metadata)
        or adapter.is_mock(pci_stats)
    ):
        raise NotApplicable("a part of the fit is a mock")
    if pci_requests and pci_stats is None:
        return None
    try:
        placed = numa_host(host_topology, limits, pci_stats).place(
            request_of(instance_topology, limits, pci_requests), 0
        )
    except numa_hosts.DoesNotFit:
        return None
    fitted = copy.deepcopy(instance_topology)
    for cell, placed_cell in zip(fitted.cells, placed["cells"]):
        cell.id = placed_cell["host"]
        if placed_cell["page_kb"] is not None:
            cell.pagesize = placed_cell["page_kb"]
        if placed_cell["pins"]:
            cell.cpu_pinning = {int(vcpu): cpu for vcpu, cpu in placed_cell["pins"].items()}
        if placed_cell["reserved"]:
            cell.cpuset_reserved = set(placed_cell["reserved"])
    return fitted


def numa_fit_instance_cell(host_cell, instance_cell, limits=None, cpuset_reserved=0):
    if cpuset_reserved not in (0, 1):
        raise NotApplicable("more than one CPU for the emulator")
    topology = objects.InstanceNUMATopology(cells=[instance_cell])
    if cpuset_reserved:
        topology.emulator_threads_policy = fields.CPUEmulatorThreadsPolicy.ISOLATE
    fitted = numa_fit_instance_to_host(
        objects.NUMATopology(cells=[host_cell]), topology, {}, limits
    )
    return fitted and fitted.cells[0]


def numa_cell_supports_pagesize_request(host_cell, inst_cell):
    size = field(inst_cell, "pagesize")
    if size not in (-1, -2, -3) and size not in [page.size_kb for page in host_cell.mempages]:
        # Nova has another exception for this, within a fit that then fails.
        fitted = numa_fit_instance_cell(host_cell, inst_cell)
        if fitted is None:
            raise exception.MemoryPageSizeNotSupported(pagesize=size)
    fitted = numa_fit_instance_cell(host_cell, inst_cell)
    return fitted and fitted.pagesize


def numa_usage_from_instance_numa(host_topology, instance_topology, free=False):
    ASKED["count"] += 1
    if not host_topology or not instance_topology:
        return host_topology
    hosts = numa_host(host_topology)
    cells = []
    for cell in instance_topology.cells:
        cells.append(
            {
                "guest": 0,
                "host": cell.id,
                "memory_mb": cell.memory,
                "page_kb": field(cell, "pagesize"),
                "shared": sorted(field(cell, "cpuset", ()) or ()),
                "pins": {
                    str(vcpu): cpu for vcpu, cpu in (field(cell, "cpu_pinning") or {}).items()
                },
                "reserved": sorted(field(cell, "cpuset_reserved", ()) or ()),
                "cpu_policy": field(cell, "cpu_policy"),
                "thread_policy": field(cell, "cpu_thread_policy"),
                "emulator_policy": None,
            }
        )
    try:
        (hosts.release if free else hosts.consume)(0, {"cells": cells, "pci": []})
    except drover_errors.DroverError as problem:
        kind = exception.CPUUnpinningInvalid if free else exception.CPUPinningInvalid
        raise kind(message=str(problem)) from problem
    topology = copy.deepcopy(host_topology)
    for cell, used in zip(topology.cells, hosts.usage(0)):
        cell.cpu_usage, cell.memory_usage, cell.pinned_cpus = (
            used["shared"],
            used["memory_mb"],
            set(used["pinned"]),
        )
        for page in cell.mempages:
            page.used = (
                page.total - field(page, "reserved", 0) - used["pages_free"][str(page.size_kb)]
            )
    return topology


def numa_cells_support_network_metadata(host_topology, chosen_host_cells, network_metadata):
    ASKED["count"] += 1
    request = numa_request.HostRequest(
        physnets=frozenset(field(network_metadata, "physnets", ()) or ()),
        is_tunneled=bool(field(network_metadata, "tunneled", False)),
    )
    ids = [cell.id for cell in host_topology.cells]
    return numa_host(host_topology)._reaches_networks(
        0, request, [ids.index(cell.id) for cell in chosen_host_cells]
    )


# --- PCI devices ------------------------------------------------------------


def pci_request(each):
    """Return our request for devices; Nova's words for PFs and VFs in the specs are ours too."""
    spec_pairs = []
    for spec in each.spec:
        if any(key in spec for key in ("resource_class", "traits")):
            spec = {
                key: value for key, value in spec.items() if key not in ("resource_class", "traits")
            }
        spec_pairs.append(tuple(sorted(spec.items())))
    return pci_requests.PciRequest(
        each.count, tuple(spec_pairs), field(each, "numa_policy") or pci_requests.LEGACY
    )


def devices_of(stats):
    """Return (devices, device specs with their tags, {address: PciDevice}) of the pools of Nova."""
    devices, spec_list, pci_devices = [], [], {}
    place = 0
    for pool in stats.pools:
        tags = {
            key: value
            for key, value in pool.items()
            if key
            not in (
                "product_id",
                "vendor_id",
                "numa_node",
                "dev_type",
                "count",
                "devices",
                "parent_ifname",
                "rp_uuid",
                "address",
            )
        }
        pool_devices = list(pool.get("devices") or ())
        if len(pool_devices) != pool["count"]:
            pool_devices = [None] * pool["count"]
        for device in pool_devices:
            place += 1
            # Addresses in tests are often equal, so each device gets a new one.
            address = f"{0x100 + (place >> 8):04x}:{place & 0xFF:02x}:{0:02x}.{0:x}"
            devices.append(
                {
                    "address": address,
                    "vendor_id": pool["vendor_id"],
                    "product_id": pool["product_id"],
                    "numa_node": pool.get("numa_node"),
                    "dev_type": pool.get("dev_type", "type-PCI"),
                    "parent_addr": None,
                    "parent_ifname": pool.get("parent_ifname"),
                    # Nova pools a device as remote managed only if it has a serial number.
                    "card_serial_number": "x",
                    "was": device and device.address,
                    "was_parent": device and device.parent_addr,
                }
            )
            spec_list.append(
                {
                    "address": address,
                    **{key: str(value) for key, value in tags.items() if value is not None},
                }
            )
            pci_devices[address] = device
    by_address = {}
    for entry in devices:
        by_address.setdefault(entry["was"], entry["address"])
    for entry in devices:
        if entry["was_parent"] in by_address:
            entry["parent_addr"] = by_address[entry["was_parent"]]
        elif entry["was_parent"] is not None and entry["dev_type"] != "type-PCI":
            # No instance gets the physical function; this name joins its virtual ones.
            entry["parent_addr"] = entry["was_parent"]
    # The form of the store: the spec of a physical function would match its virtual ones too.
    parents = {each["address"]: each["parent_addr"] for each in devices}
    spec_list.sort(key=lambda each: parents[each["address"]] is None)
    return devices, spec_list, pci_devices


def nearness(stats, numa_cells):
    if numa_cells is None:
        return None
    chosen = frozenset(cell.id for cell in numa_cells)
    topology = field(stats, "numa_topology")
    sockets = {cell.id: field(cell, "socket") for cell in field(topology, "cells") or ()}
    mine = {sockets.get(number) for number in chosen}
    if None in sockets.values() or None in mine:
        return device_pools.Nearness(chosen, None)
    return device_pools.Nearness(
        chosen, frozenset(number for number, socket in sockets.items() if socket in mine)
    )


def refuse_placement(stats, requests, provider_mapping=None):
    if any("rp_uuid" in pool for pool in stats.pools) or any(
        "rp_uuids" in spec for each in requests for spec in each.spec
    ):
        raise NotApplicable(
            "devices that are bound to providers, which Nova keeps in the pools and we in the"
            " candidates"
        )


def support_requests(self, requests, provider_mapping, numa_cells=None):
    ASKED["count"] += 1
    requests = list(requests)
    refuse_placement(self, requests)
    devices, given, _known = devices_of(self)
    host = device_pools.HostDevices(devices, device_specs.read_device_specs(given))
    return host.supports([pci_request(each) for each in requests], nearness(self, numa_cells))


def consume_requests(self, pci_requests, numa_cells=None):
    ASKED["count"] += 1
    requests = list(pci_requests)
    refuse_placement(self, requests)
    devices, given, pci_devices = devices_of(self)
    host = device_pools.HostDevices(devices, device_specs.read_device_specs(given))
    choices = host.choose([pci_request(each) for each in requests], nearness(self, numa_cells))
    if choices is None:
        raise exception.PciDeviceRequestFailed(requests=pci_requests)
    taken = []
    for request, mine in zip(requests, choices):
        for number in mine:
            device = pci_devices[host.devices[number]["address"]]
            for pool in list(self.pools):
                if device in pool["devices"]:
                    pool["devices"].remove(device)
                    pool["count"] -= 1
                    self._handle_device_dependents(device)
                    break
            device.request_id = field(request, "request_id")
            taken.append(device)
    return taken


@translated
def get_alias_from_config():
    written_aliases = [json.loads(each) for each in CONF.pci.alias]
    aliases = pci_requests.read_aliases(written_aliases, CONF.filter_scheduler.pci_in_placement)
    by_name = {}
    for name, alias in aliases.items():
        written = [dict(each) for each in written_aliases if each.get("name") == name]
        plain = []
        for original, spec in zip(written, alias.specs):
            spec = dict(spec)
            # We read these keys and keep their results; Nova keeps the words.
            for key in ("capability_type", "resource_class", "traits"):
                if key in original:
                    spec[key] = original[key]
            plain.append(spec)
        by_name[name] = (alias.policy, plain)
    return by_name


get_alias_from_config.cache_clear = lambda: None


def requests_of(text, policy=None):
    written_aliases = [json.loads(each) for each in CONF.pci.alias]
    aliases = pci_requests.read_aliases(written_aliases, CONF.filter_scheduler.pci_in_placement)
    device_requests = pci_requests.requests_of_flavor(
        {"pci_passthrough:alias": text}, aliases, policy
    )
    names = [part.split(":")[0].strip() for part in text.split(",")]
    made = []
    for name, device_request in zip(names, device_requests):
        written = [one for one in written_aliases if str(one.get("name")).strip() == name]
        spec = [
            {**dict(one), **{key: first[key] for key in ("capability_type",) if key in first}}
            for one, first in zip(device_request.specs, written)
        ]
        made.append(
            objects.InstancePCIRequest(
                count=device_request.count,
                spec=spec,
                alias_name=name,
                numa_policy=device_request.policy,
                request_id=uuid.uuid4().hex,
            )
        )
    return made


@translated
def translate_alias_to_requests(alias_spec, affinity_policy=None):
    return requests_of(alias_spec, affinity_policy)


@translated
def get_pci_requests_from_flavor(flavor, affinity_policy=None):
    text = (field(flavor, "extra_specs", {}) or {}).get("pci_passthrough:alias")
    return objects.InstancePCIRequests(requests=requests_of(text, affinity_policy) if text else [])


# --- hosts that a request names ---------------------------------------------


def get_filtered_hosts(self, hosts, spec_obj, index=0):
    """Apply the limits of the request, then the enabled filters, here the filters of the test."""
    ASKED["count"] += 1
    hosts = list(hosts)
    enabled = list(self.enabled_filters)

    class Theirs(components.HostFilter):
        name = "Theirs"

        def passes(self, states, spec):
            keep = np.zeros(states.size, dtype=bool)
            left = self.left
            rows = [row for row in range(states.size) if left[row]]
            passed = [hosts[order[row]] for row in rows]
            for each in enabled:
                passed = list(each.filter_all(passed, spec_obj))
            keep[[row for row in rows if hosts[order[row]] in passed]] = True
            return keep

    request_spec = adapter.request(spec_obj)
    columns = adapter.columns_of(hosts, spec_obj, ())
    # In Nova only Placement checks room; these tests give hosts none.
    for resource in columns["resources"].values():
        resource["total"] = [2**30] * len(hosts)
    places = {key: number for number, key in enumerate(zip(columns["host"], columns["node"]))}
    states = adapter.States(columns, list)
    order = [places[key] for key in zip(states.host, states.node)]
    theirs = Theirs()
    plan = filtering.Filtering(states, request_spec, adapter.policy().bare([theirs]))
    left = np.ones(states.size, dtype=bool)
    for _name, keep in plan.before:
        left &= keep
    theirs.left = left
    if not left.any():
        return []
    rows = plan.passed()
    return [hosts[number] for number in sorted(order[row] for row in rows.tolist())]


# --- traits of images --------------------------------------------------------


def image_filter(name, option):
    def add_traits(_ctxt, request_spec):
        ASKED["count"] += 1
        if field(request_spec, "is_bfv", False):
            request_spec.image = None
        value = getattr(CONF.scheduler, option)
        asked = adapter.request(request_spec)
        found = prefilters._traits(asked, {**prefilters.OPTIONS, option: value})
        mine = [each for each in found if each[0] == name]
        for _name, wanted, unwanted in mine:
            request_spec.root_required.update(wanted)
            request_spec.root_forbidden.update(unwanted)
        return bool(mine)

    return add_traits


# --- requests to Placement --------------------------------------------------


def from_request_spec(cls, request_spec, enable_pinning_translate=True):
    """Return a ResourceRequest of the amounts, groups and traits of our request. Groups of ports
    stay Nova's."""
    ASKED["count"] += 1
    if not enable_pinning_translate:
        raise NotApplicable("the second query for hosts of old releases")
    try:
        our_request = adapter.request(request_spec)
    except errors.RequestError as problem:
        cause = problem.__context__
        if isinstance(cause, drover_errors.InvalidSpecs) and cause.code == "Unsupported":
            raise NotApplicable(f"drover refuses it: {problem}") from problem
        raise
    resource_request = cls()
    resource_request._root_required, resource_request._root_forbidden = (
        request_spec.root_required,
        request_spec.root_forbidden,
    )
    resource_request._same_subtree = request_spec.same_subtree
    own = dict(our_request.resources)
    for group in our_request.groups:
        for name, amount in group.resources:
            own[name] -= amount
    more = {}
    for key, traits in (
        ("required_traits", prefilters.required_traits(our_request)),
        ("forbidden_traits", prefilters.forbidden_traits(our_request)),
    ):
        if traits:
            more[key] = set(traits)
    own = {name: amount for name, amount in own.items() if amount}
    if own or more:
        resource_request._rg_by_id[None] = objects.RequestGroup(
            use_same_provider=False, resources=own, **more
        )
    for group in our_request.groups:
        resource_request._rg_by_id[group.suffix] = objects.RequestGroup(
            requester_id=group.suffix,
            use_same_provider=True,
            resources=dict(group.resources),
            required_traits=set(group.required),
            forbidden_traits=set(group.forbidden),
        )
    specs_given = field(field(request_spec, "flavor"), "extra_specs", {})
    # Without a policy our policy is none, which Placement requires; Nova adds it later.
    resource_request._group_policy = (
        our_request.group_policy if "group_policy" in specs_given else None
    )
    resource_request.suffixed_groups_from_flavor = len(our_request.groups)
    resource_request.cpu_pinning_requested = "PCPU" in our_request.resources
    for group in field(request_spec, "requested_resources", ()):
        resource_request._add_request_group(group)
    return resource_request


def install():
    sched_utils.ResourceRequest.from_request_spec = classmethod(from_request_spec)
    for name, function in {
        "numa_get_constraints": numa_get_constraints,
        "get_cpu_policy_constraint": get_cpu_policy_constraint,
        "_get_numa_pagesize_constraint": get_numa_pagesize_constraint,
        "get_pci_numa_policy_constraint": get_pci_numa_policy_constraint,
        "get_cpu_topology_constraints": get_cpu_topology_constraints,
        "_get_desirable_cpu_topologies": get_desirable_cpu_topologies,
        "get_best_cpu_topology": get_best_cpu_topology,
        "parse_cpu_spec": parse_cpu_spec,
        "numa_fit_instance_to_host": numa_fit_instance_to_host,
        "_numa_fit_instance_cell": numa_fit_instance_cell,
        "_numa_cell_supports_pagesize_request": numa_cell_supports_pagesize_request,
        "numa_usage_from_instance_numa": numa_usage_from_instance_numa,
        "_numa_cells_support_network_metadata": numa_cells_support_network_metadata,
    }.items():
        assert hasattr(hardware, name), name
        setattr(hardware, name, function)
    nova_pci_stats.PciDeviceStats.support_requests = support_requests
    nova_pci_stats.PciDeviceStats.consume_requests = consume_requests
    nova_pci_request.get_alias_from_config = get_alias_from_config
    nova_pci_request._translate_alias_to_requests = translate_alias_to_requests
    nova_pci_request.get_pci_requests_from_flavor = get_pci_requests_from_flavor
    host_manager.HostManager.get_filtered_hosts = get_filtered_hosts
    request_filter.require_image_type_support = image_filter(
        "image_type", "query_placement_for_image_type_support"
    )
    request_filter.transform_image_metadata = image_filter(
        "image_traits", "image_metadata_prefilter"
    )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's own NUMA, pinning, huge page and PCI fit, over hosts and requests read as JSON.

    gen_numa_fleet.py 7 | numa_peer.py > answers.jsonl
    numa_peer.py --xml < document.json
    numa_peer.py --summary < document.json
    numa_peer.py --fresh < document.json

Needs an environment with nova (``pip install nova``; seen with 34.0.0 on Python 3.11).

Nova's own code: the instance topology (hardware.numa_get_constraints), the fit
(hardware.numa_fit_instance_to_host), the use (hardware.numa_usage_from_instance_numa), the
PCI pools and their filters (pci.stats.PciDeviceStats), aliases and device specs, the
translation into resource classes and traits (scheduler.utils.ResourceRequest) and, with
--xml, the guest's NUMA elements (LibvirtDriver._get_guest_numa_config and
_get_guest_memory_backing_config). Our code: reading, calling in the order of the
two host filters and then of the claim of the compute host, and printing.

Input, one JSON document on stdin:

  {"hosts": [{
     "name": "h1",
     "cells": [{"id": 0,
                "cpus":  [0, 1],          # CPUs of shared vCPUs (cpu_shared_set in this cell)
                "pcpus": [2, 3],          # CPUs of pinned vCPUs (cpu_dedicated_set in this cell);
                                          # equal to "cpus" is the legacy mode (vcpu_pin_set, or no
                                          set)
                "siblings": [[0, 1], [2, 3]],
                "memory_mb": 4096,
                "pages": [{"size_kb": 4, "total": 786432, "reserved": 0},
                          {"size_kb": 2048, "total": 512, "reserved": 0}],
                "socket": 0,              # or null: several sockets in one cell
                "physnets": [], "tunneled": false}],       # optional
     "cpu_allocation_ratio": 4.0, "ram_allocation_ratio": 1.0,             # optional
     "pci": [{"address": "0000:3b:00.0", "vendor_id": "10de", "product_id": "2204",
              "numa_node": 0, "dev_type": "type-PCI", "parent_addr": null}],
     "instances": [REQUEST, ...]}],       # placed first, in order
   "requests": [REQUEST, ...],
   "device_spec": [{...}], "alias": [{...}],       # [pci] options; device_spec default: every
   device "pack": false,          # [compute] packing_host_numa_cells_allocation_strategy
   "cpu_shared_set": "0-3" # only for --xml: where emulator threads go with the policy share
  }

  REQUEST: {"name": "r1",
            "flavor": {"vcpus": 4, "ram": 2048, "extra_specs": {}},
            "image": {...properties, or {"properties": {...}}},
            "pci_requests": [{"count": 1, "spec": [{"vendor_id": "10de", "product_id": "2204"}],
                              "numa_policy": "legacy"}],    # besides pci_passthrough:alias
            "network": {"physnets": ["p"], "tunneled": false}}

Output, one line of JSON for each request and host:

  {"request", "host", "fits", "why": null | "pci filter" | "thread policy" | "no host topology" |
  "numa fit" |
   "pci claim" | the exception of a request that is wrong in itself,
   "numa": whether the request has a NUMA topology,
   "cells": [{"guest": 0, "host": 1, "memory_mb", "page_kb": null | int, "shared": [vcpu], "pins":
   {vcpu: cpu},
              "reserved": [cpu of isolated emulator threads]}],
   "pci": [{"count", "policy", "devices": [{"address", "numa_node", "dev_type", "pool"}]}],
   "placement": {"resources", "required", "forbidden"}}

Each request sees the host with its instances only, not the other requests.

Nova's search over the host's cells changes the cells of the request as it goes (page size, pins,
id) and remembers by these ids which pairs fit, so that a later try may be wrong. --fresh keeps
Nova's order, its fit of one cell and its other checks, but tries each choice of cells with
unchanged ones: compare with that one, and look at the other to see where Nova itself would differ.
"""

import argparse
import copy
import itertools
import json
import logging
import os
import sys
import uuid
import warnings

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import nova.conf  # noqa: E402
from nova import (
    exception,  # noqa: E402
    objects,  # noqa: E402
)
from nova.pci import manager as pci_manager  # noqa: E402
from nova.pci import request as pci_request  # noqa: E402
from nova.pci import stats as pci_stats  # noqa: E402
from nova.pci import utils as pci_utils  # noqa: E402
from nova.pci import whitelist  # noqa: E402
from nova.scheduler import utils as sched_utils  # noqa: E402
from nova.scheduler.filters import numa_topology_filter as numa_filter  # noqa: E402
from nova.virt import hardware  # noqa: E402

CONF = nova.conf.CONF


def named(*parts):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, parts))))


# --- Nova's objects from JSON ----------------------------------------------


def flavor_object(request):
    flavor = request["flavor"]
    return objects.Flavor(
        id=1,
        flavorid="f",
        name=flavor.get("name", "f"),
        vcpus=flavor["vcpus"],
        memory_mb=flavor["ram"],
        root_gb=flavor.get("disk", 0),
        ephemeral_gb=0,
        swap=0,
        rxtx_factor=1.0,
        vcpu_weight=None,
        disabled=False,
        is_public=True,
        description=None,
        extra_specs={k: str(v) for k, v in (flavor.get("extra_specs") or {}).items()},
    )


def image_object(request):
    image = request.get("image") or {}
    properties = dict(image.get("properties", image))
    return objects.ImageMeta.from_dict(
        {"id": named("image"), "name": "image", "properties": properties}
    )


def network_object(data):
    data = data or {}
    return objects.NetworkMetadata(
        physnets=set(data.get("physnets") or ()), tunneled=bool(data.get("tunneled"))
    )


def host_topology(host):
    cells = host.get("cells")
    if not cells:
        return None
    return objects.NUMATopology(
        cells=[
            objects.NUMACell(
                id=cell["id"],
                socket=cell.get("socket"),
                cpuset=set(cell["cpus"]),
                pcpuset=set(cell["pcpus"]),
                memory=cell["memory_mb"],
                cpu_usage=0,
                memory_usage=0,
                pinned_cpus=set(),
                siblings=[set(each) for each in cell.get("siblings") or ()],
                mempages=[
                    objects.NUMAPagesTopology(
                        size_kb=page["size_kb"],
                        total=page["total"],
                        used=0,
                        reserved=page.get("reserved", 0),
                    )
                    for page in cell.get("pages") or ()
                ],
                network_metadata=network_object(cell),
            )
            for cell in cells
        ]
    )


def pci_devices(host):
    devices = [
        objects.PciDevice(
            id=number,
            uuid=named(host["name"], each["address"]),
            compute_node_id=1,
            address=each["address"],
            vendor_id=each["vendor_id"],
            product_id=each["product_id"],
            dev_type=each.get("dev_type", "type-PCI"),
            status="available",
            dev_id="pci_" + each["address"],
            label="label",
            instance_uuid=None,
            request_id=None,
            numa_node=each.get("numa_node"),
            parent_addr=each.get("parent_addr"),
            extra_info={},
        )
        for number, each in enumerate(host.get("pci") or (), start=1)
    ]
    pci_manager.PciDevTracker._build_device_tree(devices)
    return devices


class Request:
    """One request as the API makes it of flavor, image and ports."""

    def __init__(self, data, number):
        self.data = data
        self.name = data.get("name") or f"r{number}"
        self.flavor = flavor_object(data)
        self.error = None
        try:
            # The object refuses the values that the API's schema would have refused.
            self.image = image_object(data)
            self.topology = hardware.numa_get_constraints(self.flavor, self.image)
            # The other checks of the API before the scheduler.
            hardware.get_cpu_topology_constraints(self.flavor, self.image)
            policy = hardware.get_pci_numa_policy_constraint(self.flavor, self.image)
            pci_requests = pci_request.get_pci_requests_from_flavor(
                self.flavor, affinity_policy=policy
            )
            for entry in data.get("pci_requests") or ():
                pci_requests.requests.append(
                    objects.InstancePCIRequest(
                        count=entry.get("count", 1),
                        spec=entry["spec"],
                        alias_name=None,
                        numa_policy=policy or entry.get("numa_policy"),
                        request_id=named("request", self.name, len(pci_requests.requests)),
                    )
                )
            self.pci = pci_requests
        except (exception.NovaException, ValueError) as exc:
            self.error = f"{type(exc).__name__}: {exc}"

    def placement(self):
        spec = objects.RequestSpec(
            flavor=self.flavor,
            image=self.image,
            is_bfv=True,
            requested_resources=[],
            request_level_params=objects.RequestLevelParams(
                root_required=set(), root_forbidden=set(), same_subtree=[]
            ),
            numa_topology=None,
            pci_requests=self.pci,
        )
        resource_request = sched_utils.ResourceRequest.from_request_spec(spec)
        group = resource_request.get_request_group(None)
        return {
            "resources": dict(resource_request.merged_resources()),
            "required": sorted(group.required_traits),
            "forbidden": sorted(group.forbidden_traits),
        }


class Host:
    """A host with the resources of its instances."""

    def __init__(self, data, fresh=False):
        self.name = data["name"]
        self.data = data
        self.search = fresh_fit if fresh else hardware.numa_fit_instance_to_host
        self.topology = host_topology(data)
        self.limits = {
            "cpu_allocation_ratio": float(data.get("cpu_allocation_ratio") or 4.0),
            "ram_allocation_ratio": float(data.get("ram_allocation_ratio") or 1.0),
        }
        self.stats = pci_stats.PciDeviceStats(
            self.topology, dev_filter=whitelist.Whitelist(CONF.pci.device_spec)
        )
        for device in pci_devices(data):
            self.stats.add_device(device)
        self.unplaced = []
        for number, each in enumerate(data.get("instances") or ()):
            request = Request(each, number)
            if request.error is not None or not self.answer(request, keep=True)["fits"]:
                self.unplaced.append(request.name)

    def scheduler_stats(self):
        """The pools as the scheduler has them: without devices."""
        return pci_stats.PciDeviceStats(
            self.topology, stats=self.stats.to_device_pools_obj(), dev_filter=self.stats.dev_filter
        )

    def fit(self, request, stats):
        """The cells as Nova picks them; the requested ones are changed, so they are copied."""
        limits = objects.NUMATopologyLimits(**self.limits)
        if request.data.get("network"):
            limits.network_metadata = network_object(request.data["network"])
        return self.search(
            self.topology,
            copy.deepcopy(request.topology),
            provider_mapping=None,
            limits=limits,
            pci_requests=request.pci.requests,
            pci_stats=stats,
        )

    def answer(self, request, keep=False):
        """The answer of both host filters and then of the claim."""
        answer = {
            "fits": False,
            "why": None,
            "numa": request.topology is not None,
            "cells": [],
            "pci": [],
        }
        pci_requests = request.pci.requests
        # PciPassthroughFilter does not look at cells.
        if pci_requests and not self.scheduler_stats().support_requests(
            pci_requests, provider_mapping=None
        ):
            return dict(answer, why="pci filter")
        fitted = None
        if request.topology is not None:
            if self.topology is None:
                return dict(answer, why="no host topology")
            state = type("State", (), {"numa_topology": self.topology})()
            properties = {
                key: request.image.properties.get(key)
                for key in ("hw_cpu_policy", "hw_cpu_thread_policy")
            }
            if not numa_filter.NUMATopologyFilter._satisfies_cpu_policy(
                None, state, request.flavor.extra_specs, properties
            ):
                return dict(answer, why="thread policy")
            fitted = self.fit(request, self.scheduler_stats())
            if fitted is None:
                return dict(answer, why="numa fit")
            # The compute host fits again, with the devices at hand.
            fitted = self.fit(request, self.stats)
            if fitted is None:
                return dict(answer, why="numa fit")
        topology = self.topology
        if keep and fitted is not None:
            try:
                topology = hardware.numa_usage_from_instance_numa(topology, fitted)
            except IndexError:
                # Nova's fit takes cells without figures of pages, its count of use does not.
                return dict(answer, why="no page figures")
        stats = self.stats if keep else copy_of(self.stats)
        cells = fitted.cells if fitted is not None else None
        pools = {
            id(device): pool.get("address") for pool in stats.pools for device in pool["devices"]
        }
        try:
            devices = stats.consume_requests(pci_requests, cells) if pci_requests else []
        except exception.PciDeviceRequestFailed:
            return dict(answer, why="pci claim")
        self.topology = self.stats.numa_topology = topology
        self.fitted = fitted
        answer.update(
            fits=True, cells=[cell_json(number, cell) for number, cell in enumerate(cells or ())]
        )
        for device_request in pci_requests:
            mine = [device for device in devices if device.request_id == device_request.request_id]
            answer["pci"].append(
                {
                    "count": device_request.count,
                    "policy": device_request.numa_policy or "legacy",
                    "devices": [
                        {
                            "address": device.address,
                            "numa_node": device.numa_node,
                            "dev_type": device.dev_type,
                            "pool": pools.get(id(device)),
                        }
                        for device in mine
                    ],
                }
            )
        return answer


def in_order(topology, wanted, asked, stats):
    """The host's cells in the order of Nova's search: the last key of a sort counts most."""
    cells = list(topology.cells)
    if len(cells) == len(wanted):
        return cells
    pack = CONF.compute.packing_host_numa_cells_allocation_strategy
    cells.sort(key=lambda cell: cell.avail_memory, reverse=not pack)
    if wanted[0].cpu_policy in (None, "shared"):
        cells.sort(key=lambda cell: cell.cpu_usage, reverse=pack)
    else:
        cells.sort(key=lambda cell: len(cell.free_pcpus), reverse=not pack)
    devices = {}
    for pool in stats.pools:
        devices[pool["numa_node"]] = devices.get(pool["numa_node"], 0) + pool["count"]
    cells.sort(key=lambda cell: devices.get(cell.id, 0), reverse=bool(asked))
    return cells


def fresh_fit(topology, wanted, provider_mapping, limits, pci_requests, pci_stats):
    """Nova's search with fresh cells for each choice."""
    if topology is None or len(topology.cells) < len(wanted.cells):
        return None
    network = limits.network_metadata if "network_metadata" in limits else None
    order = in_order(topology, wanted.cells, pci_requests, pci_stats)
    for choice in itertools.permutations(order, len(wanted.cells)):
        chosen = []
        for number, (cell, guest) in enumerate(zip(choice, copy.deepcopy(wanted.cells))):
            extra = 1 if wanted.emulator_threads_isolated and number == 0 else 0
            try:
                fitted = hardware._numa_fit_instance_cell(cell, guest, limits, extra)
            except exception.MemoryPageSizeNotSupported:
                fitted = None
            if fitted is None:
                break
            chosen.append(fitted)
        if len(chosen) < len(choice):
            continue
        if pci_requests and not pci_stats.support_requests(pci_requests, provider_mapping, chosen):
            continue
        if network and not hardware._numa_cells_support_network_metadata(
            topology, list(choice), network
        ):
            continue
        return objects.InstanceNUMATopology(
            cells=chosen, emulator_threads_policy=wanted.emulator_threads_policy
        )
    return None


def copy_of(stats):
    """Pools that may be consumed; a copied device forgets its PF and VFs, so these are found
    again.
    """
    found = copy.deepcopy(stats)
    pci_manager.PciDevTracker._build_device_tree(found.get_free_devs())
    return found


def cell_json(number, cell):
    page = cell.pagesize if "pagesize" in cell else None
    return {
        "guest": number,
        "host": cell.id,
        "memory_mb": cell.memory,
        "page_kb": page or None,
        "shared": sorted(cell.cpuset),
        "pins": {str(k): v for k, v in sorted((cell.cpu_pinning or {}).items())},
        "reserved": sorted(cell.cpuset_reserved or ()),
    }


# --- the guest's XML --------------------------------------------------------


def xml_of(host, request):
    """The elements that the libvirt driver writes for the cells found last."""
    from nova.virt.libvirt import driver as libvirt_driver

    driver = libvirt_driver.LibvirtDriver.__new__(libvirt_driver.LibvirtDriver)
    driver._has_numa_support = lambda: True
    driver._get_host_numa_topology = lambda: host.topology
    every = {cpu for cell in host.data["cells"] for cpu in cell["cpus"] + cell["pcpus"]}
    driver._host = type("Fake", (), {"get_online_cpus": lambda self: every})()
    config = driver._get_guest_numa_config(host.fitted, request.flavor, request.image)
    backing = driver._get_guest_memory_backing_config(
        host.fitted, config.numatune, request.flavor, request.image
    )
    topology = hardware.get_best_cpu_topology(request.flavor, request.image)
    parts = [
        part.to_xml(pretty_print=False)
        for part in (config.cputune, config.numatune, config.numaconfig, backing)
        if part is not None
    ]
    if config.cpuset:
        parts.append(f"<vcpu cpuset='{hardware.format_cpu_spec(config.cpuset)}'/>")
    parts.append(
        f"<topology sockets='{topology.sockets}' cores='{topology.cores}'"
        f" threads='{topology.threads}'/>"
    )
    return parts


# --- the program ------------------------------------------------------------


def configure(document):
    CONF([], project="nova", version="0", default_config_files=[])
    objects.register_all()
    CONF.set_override(
        "packing_host_numa_cells_allocation_strategy", bool(document.get("pack")), "compute"
    )
    specs = document.get("device_spec")
    CONF.set_override(
        "device_spec", [json.dumps(each) for each in ([{}] if specs is None else specs)], "pci"
    )
    CONF.set_override("alias", [json.dumps(each) for each in document.get("alias") or ()], "pci")
    if document.get("cpu_shared_set"):
        CONF.set_override("cpu_shared_set", document["cpu_shared_set"], "compute")
    if document.get("pci_in_placement"):
        CONF.set_override("pci_in_placement", True, "filter_scheduler")
    pci_request.get_alias_from_config.cache_clear()
    # Nova reads in this machine's sysfs if an address in a device spec is a PF: read the document.
    functions = {
        each["address"]
        for host in document["hosts"]
        for each in host.get("pci") or ()
        if each.get("dev_type") == "type-PF"
    }
    pci_utils.is_physical_function = lambda *parts: "{}:{}:{}.{}".format(*parts) in functions


def answers(document, with_xml=False, fresh=False):
    configure(document)
    requests = [Request(each, number) for number, each in enumerate(document["requests"])]
    hosts = [Host(each, fresh) for each in document["hosts"]]
    for request in requests:
        placement = request.placement() if request.error is None else None
        for host in hosts:
            if request.error is not None:
                answer = {"fits": False, "why": request.error, "numa": None, "cells": [], "pci": []}
            else:
                answer = host.answer(request)
            answer = dict(
                {"request": request.name, "host": host.name}, **answer, placement=placement
            )
            if host.unplaced:
                answer["unplaced"] = host.unplaced
            if with_xml and answer["fits"] and host.topology is not None:
                try:
                    answer["xml"] = xml_of(host, request)
                except exception.NovaException as exc:
                    answer["xml"] = [f"{type(exc).__name__}: {exc}"]
            yield answer


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--xml", action="store_true", help="add the libvirt driver's elements for what fits"
    )
    parser.add_argument("--summary", action="store_true", help="print counts only")
    parser.add_argument(
        "--fresh", action="store_true", help="try each choice of cells with fresh ones"
    )
    options = parser.parse_args()
    document = json.load(sys.stdin)
    counts = {}
    for answer in answers(document, options.xml, options.fresh):
        if options.summary:
            why = "fits" if answer["fits"] else answer["why"].split(":")[0]
            counts[why] = counts.get(why, 0) + 1
        else:
            print(json.dumps(answer, sort_keys=True))
    if options.summary:
        print(json.dumps(counts, sort_keys=True))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # The reader has closed the pipe; without this Python reports that again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

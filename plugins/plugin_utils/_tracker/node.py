# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a hypervisor and the options of its operator in the form of a compute node (N6).

Data in, data out: no database, no libvirt, no Ansible. Its traits have the standard names of
os-traits. CPU sets have the form of Nova and the kernel: 0-3,8,^2.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

try:
    import os_traits
except ImportError:
    os_traits = None

from ansible_collections.drover.compute.plugins.module_utils._libvirt import drivers
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import format_cpu_set

from .._common import labels, resource_classes, validation
from .._common.errors import DroverError, require, some
from .._numa import pinning
from .._numa.cpu_sets import parse_cpu_set
from .._placement.node_providers import NodeInventory
from .._records.hosts import MdevType, ReportedMdev, ReportedPciDevice
from .._records.node_fields import NODE_FIELDS, fact_at
from .._records.numa import HostCell
from . import (
    domain,
    host_cells,
    host_devices,
    nested_providers,
    sharing_facts,
    storage_pools,
)
from .facts import Entry, HostFacts
from .node_options import Options

NODE_FACTS = (
    "pools",
    "mounts",
    "block_devices",
    "images",
    "addresses",
    "networks",
    "pci_devices",
    "mdev_types",
    "mdev_devices",
    "storage",
    "libvirt_version",
    "host_uuid",
    "system_uuid",
    "firmware_uuid",
    "machine_id",
    "boot_id",
    "reboot_sign",
    "missing_drivers",
    "missing_pool_types",
    "cpu",
)


class CpuSets(NamedTuple):
    """The CPUs of a host by their use.

    - shared: the CPUs of VCPU.
    - pinned: the CPUs of pinned vCPUs.
    - dedicated: the CPUs of pinned vCPUs alone.

    Without such a set, ``shared`` and ``pinned`` are equal, as in Nova's legacy mode. Then pinned
    vCPUs are VCPU too, and ``dedicated`` is empty.
    """

    shared: frozenset[int]
    pinned: frozenset[int]
    dedicated: frozenset[int]


class NodeReport(TypedDict):
    """A compute node for the record of the tracker; ``warnings`` are sentences for people."""

    hypervisor_hostname: str
    #: The columns of the table compute_nodes.
    columns: dict[str, Any]
    #: The inventories by resource class.
    inventories: dict[str, NodeInventory]
    traits: set[str]
    domains: list[domain.DomainReport]
    #: The columns of the tables pci_devices, mdev_types and mdevs, without the node.
    pci_devices: list[ReportedPciDevice]
    mdev_types: list[MdevType]
    mdevs: list[ReportedMdev]
    #: The providers below the provider of the node.
    nested: list[nested_providers.NestedProvider]
    #: The pools that are not the storage of the instances.
    storage_pools: list[storage_pools.StoragePool]
    availability_zone: str | None
    #: The labels of its host.
    labels: dict[str, str]
    #: The ratio of the storage pool that it shares with others.
    shared_disk_ratio: float | None
    warnings: list[str]


#: The trait of a host with several threads per core.
HYPERTHREADING = "HW_CPU_HYPERTHREADING"

#: The compute nodes of a discovery, and their rows before it, by (host, hypervisor_hostname).
NodeKey = tuple[str, str]
Nodes = Mapping[NodeKey, NodeReport]
NodeRows = Mapping[NodeKey, Any]


def _refuse_wrong_addresses(options: Options, name: str) -> None:
    for option, why_not in (
        ("migration_uri", validation.why_no_uri),
        ("migration_address", validation.why_no_address),
    ):
        address = options.get(option)
        reason = why_not(address) if address else None
        if reason is not None:
            raise DroverError(
                f"Compute node {name}: drover_{option} is {validation.shown(address)}: {reason}."
                " Correct it; nothing was recorded."
            )


def describe(facts: HostFacts, options: Options) -> NodeReport:
    """Return one compute node in the form of the store.

    :param options: the options of node_options by name, with the name of the host in the inventory
        as host.
    :raises DroverError: an option contradicts the facts, or a domain is impossible.
    """
    where = f"Compute node {facts.name}"
    _refuse_wrong_addresses(options, facts.name)
    if "," in (options.get("availability_zone") or ""):
        raise DroverError(
            f"{where}: availability_zone {options['availability_zone']!r} names several zones; a"
            " host is in one."
        )
    migration_uri, warnings = _migration_uri(facts, options)
    domains = [domain.describe(each) for each in facts.domains]
    warnings += _of_domains(facts.name, domains)
    sets = _cpu_sets(facts, options)
    cells = _cells(facts, sets, options, where)
    devices = _devices(facts, cells, options, where)
    pools = _pools(facts, options, where)
    traits = _traits(facts, options)
    columns = {
        "uri": facts.uri,
        "cell": options.get("cell"),
        "migration_uri": migration_uri,
        "migration_address": options.get("migration_address"),
        "reported": True,
        **_fields(facts.reported, options),
        "numa_cells": cells or None,
        "shared_cpus": pinning.shared_cpus(cells),
        # The traits are kept with the facts, so that the next discovery can remove them. Other
        # traits belong to the operator.
        "facts": {
            **{
                key: facts.reported[key]
                for key in NODE_FACTS
                if facts.reported.get(key) is not None
            },
            **pools.facts,
            "traits": sorted(traits),
            "nested_providers": {
                **{each["key"]: sorted(each["traits"]) for each in devices.nested},
                **{
                    storage_pools.key_of(each["name"]): each["traits"]
                    for each in pools.further
                    if not each["shared_id"]
                },
            },
        },
    }
    host = options.get("host") or facts.name
    return {
        "hypervisor_hostname": facts.name,
        "columns": columns,
        "inventories": _inventories(facts, sets, options),
        "traits": traits,
        "domains": domains,
        "pci_devices": devices.pci,
        "mdev_types": devices.mdev_types,
        "mdevs": [_mdev(each) for each in facts.mdev_devices],
        "nested": devices.nested,
        "storage_pools": pools.further,
        "availability_zone": options.get("availability_zone"),
        "labels": labels.checked(options.get("labels"), f"Host {host} (drover_labels)"),
        "shared_disk_ratio": options.get("disk_allocation_ratio"),
        "warnings": [*warnings, *devices.warnings, *pools.warnings],
    }


def _migration_uri(facts: HostFacts, options: Options) -> tuple[str | None, list[str]]:
    """Return the URI for migrations to a node, and a warning if it has none."""
    host, uri = options.get("host"), options.get("migration_uri")
    if uri or not host or not (facts.uri or "").startswith("qemu"):
        return uri, []
    uri = validation.default_migration_uri(host)
    if uri is not None:
        return uri, []
    return None, [
        f"Host {host} cannot be reached by its name in the inventory, which is no host name, so"
        " nothing is moved to it. Set its drover_migration_uri, such as"
        " qemu+ssh://root@kvm1.example.com/system."
    ]


def _of_domains(name: str, domains: Sequence[domain.DomainReport]) -> list[str]:
    """Return the warnings about the domains of a node."""
    warnings = []
    transient = sorted(
        each["columns"]["name"] for each in domains if not each["columns"]["persistent"]
    )
    if transient:
        warnings.append(
            f"{some(transient)} on {name} {'is' if len(transient) == 1 else 'are'} transient:"
            " libvirt has no definition, and loses the guest when it is off. Define it there:"
            " virsh dumpxml --security-info NAME > NAME.xml, then virsh define NAME.xml."
        )
    return warnings + [sentence for each in domains for sentence in each["warnings"]]


def _traits(facts: HostFacts, options: Options) -> set[str]:
    return {
        "COMPUTE_NODE",
        *cpu_traits(facts.cpu.get("arch"), facts.cpu.get("features") or []),
        *(options.get("traits") or []),
        *hardware_traits(facts.guest_hardware),
        *([HYPERTHREADING] if host_cells.has_threads(facts.numa_cells) else []),
    }


class _Devices(NamedTuple):
    """The devices of a node that domains may get, and the providers below its provider."""

    pci: list[ReportedPciDevice]
    mdev_types: list[MdevType]
    nested: list[nested_providers.NestedProvider]
    warnings: list[str]


def _devices(facts: HostFacts, cells: Sequence[HostCell], options: Options, where: str) -> _Devices:
    specs, in_placement = options.get("pci_device_specs"), options.get("pci_report_in_placement")
    pci = host_devices.pci_devices(facts.pci_devices, specs, where)
    kinds, warnings = host_devices.mdev_types(
        facts.mdev_types, facts.mdev_devices, options.get("mdev_types"), where
    )
    nested = nested_providers.of_mdev_types(kinds, facts.pci_devices)
    nested_providers.refuse_one_time_use(pci, where, bool(in_placement))
    if in_placement:
        nested += nested_providers.of_pci_devices(pci, specs or [], where)
    if options.get("numa_report_in_placement"):
        nested = nested_providers.with_cells(nested, cells)
    return _Devices(pci, kinds, nested, warnings)


class _Pools(NamedTuple):
    """The storage of a node: the facts that it shares, and the pools that are not the storage of
    its instances.
    """

    facts: dict[str, object]
    further: list[storage_pools.StoragePool]
    warnings: list[str]


def _pools(facts: HostFacts, options: Options, where: str) -> _Pools:
    names = sharing_facts.declared(options.get("shared_pools"), where)
    pools = sharing_facts.mark(facts.pools, names)
    path = facts.storage.get("instances_path") or options.get("instances_path")
    shared = sharing_facts.of_instances(facts.storage, pools, path)
    shares: dict[str, object] = {
        "pools": pools,
        "shared_storage": shared,
        "ip_pools": sharing_facts.describe_ip_pools(options.get("ip_pools"), where),
        "shared_block_devices": _patterns(options.get("shared_block_devices"), where),
    }
    shares = {key: value for key, value in shares.items() if value}
    named = storage_pools.read(options.get("storage_pools"), where)
    further, missing = storage_pools.of_node(
        named,
        pools,
        {
            "paths": [each for each in (path, facts.storage.get("real_path")) if each],
            "shared_id": shared["id"] if shared else None,
            "folder_id": facts.storage.get("folder_id"),
        },
        where,
        drivers.pool_remedy(facts.missing_drivers, facts.missing_pool_types),
    )
    lacking = sorted({each["name"] for each in named}.difference(each["name"] for each in further))
    shares |= {"storage_pools": storage_pools.facts_of(further)} if further else {}
    shares |= {"lacking_pools": lacking} if lacking else {}
    return _Pools(shares, further, [*sharing_facts.unknown(pools, names, facts.name), *missing])


def _mdev(facts: Entry) -> ReportedMdev:
    """Return the columns of the table mdevs."""
    uuid = str(facts["uuid"]).lower()
    return {
        "uuid": uuid,
        "parent": str(facts.get("parent")),
        "type": facts["type"],
        "active": bool(facts.get("active", True)),
    }


def _cells(facts: HostFacts, sets: CpuSets, options: Options, where: str) -> list[HostCell]:
    """Return the NUMA cells of the node in the form of the store."""
    online = _online(facts)
    reserved = host_cells.read_reserved_pages(
        options.get("reserved_huge_pages"), facts.numa_cells, where
    )
    cells = host_cells.host_cells(facts.numa_cells, online, sets.shared, sets.pinned, reserved)
    pages = host_cells.with_foreign_pages(reserved, facts.numa_cells, facts.domains, cells)
    return (
        host_cells.host_cells(facts.numa_cells, online, sets.shared, sets.pinned, pages)
        if pages != reserved
        else cells
    )


def _fields(reported: Mapping[str, object], options: Options) -> dict[str, object]:
    """Return the NODE_FIELDS of a node.

    The store keeps its value of a field without fact and option.
    """
    columns = {}
    for field in NODE_FIELDS:
        value = options.get(field.name) if field.given else None
        if field.fact and value in (None, [], {}):
            columns[field.name] = fact_at(reported, field.fact)
        elif value is not None:
            columns[field.name] = value
    return columns


def _patterns(value: Any, where: str) -> list[str]:
    """Return the paths of devices that the operator declares as shared.

    :raises DroverError: one of them is not a path of a device.
    """
    for pattern in value or []:
        if (
            not isinstance(pattern, str)
            or not pattern.startswith("/dev/")
            or pattern.rstrip("*") in ("/dev/", "/dev/mapper/")
        ):
            raise DroverError(
                f"{where}: shared_block_devices (drover_shared_block_devices) has {pattern!r}. Give"
                " paths below /dev that mean shared devices alone, such as /dev/mapper/san-*."
            )
    return list(value or [])


def distinct_names(hypervisors: Iterable[HostFacts]) -> list[HostFacts]:
    """Give the hypervisors of one host different names.

    Several URIs of one machine report one host name. The first hypervisor keeps it, and the others
    add their URI.

    :param hypervisors: in the order of the option uris.
    """
    taken, named = set(), []
    for facts in hypervisors:
        name = facts.name if facts.name not in taken else f"{facts.name} ({facts.uri})"
        taken.add(name)
        named.append(dataclasses.replace(facts, name=name))
    return named


def flat_facts(node: Entry) -> dict[str, object]:
    """Return facts in the form of hypervisor_info, from the few figures of a node given as data."""
    return {
        "uri": node.get("uri"),
        "hypervisor_hostname": node.get("hypervisor_hostname") or node["host"],
        "hypervisor_type": node.get("hypervisor_type"),
        "hypervisor_version": node.get("hypervisor_version"),
        "cpu": {"count": node.get("vcpus") or 0, "online": _of_cells(node.get("numa_cells"))},
        "memory_mb": node.get("memory_mb") or 0,
        "storage": {
            "total_gb": node.get("local_gb") or 0,
            "disk_available_least_gb": node.get("disk_available_least_gb"),
        },
        **{
            key: node.get(key)
            for key in ("pools", "mounts", "addresses", "numa_cells", "pci_devices", "domains")
        },
    }


def _of_cells(cells: Sequence[Entry] | None) -> list[int] | None:
    """Return the CPUs of NUMA cells; None without cells."""
    return sorted(cpu["id"] for cell in cells for cpu in cell["cpus"]) if cells else None


def _online(facts: HostFacts) -> set[int]:
    online = facts.cpu.get("online")
    return set(online) if online is not None else set(range(facts.cpu.get("count") or 0))


def _inventories(facts: HostFacts, sets: CpuSets, options: Options) -> dict[str, NodeInventory]:
    name = facts.name
    cpus = {"VCPU": len(sets.shared), "PCPU": len(sets.dedicated)}
    inventories: dict[str, NodeInventory] = {}
    for resource, source in resource_classes.DISCOVERED.items():
        total = fact_at(facts.reported, source.total) if source.total else cpus[resource]
        if not total:
            continue
        reserved = math.ceil((options.get(source.reserved) or 0) / source.reserved_unit)
        ratio = options.get(source.ratio) if source.ratio else source.initial_ratio
        if not 0 <= reserved <= total:
            raise DroverError(
                f"Compute node {name}: {reserved} of {resource} cannot be reserved of the {total}"
                " it has. Change the drover_reserved_host_* variables of this host."
            )
        if ratio is not None and ratio <= 0:
            raise DroverError(
                f"Compute node {name}: the allocation ratio of {resource} is {ratio:g}; it must be"
                " above 0."
            )
        inventories[resource] = {
            "total": total,
            "reserved": reserved,
            "min_unit": 1,
            "max_unit": total,
            "step_size": 1,
            "allocation_ratio": float(ratio) if ratio else None,
        }
    return inventories


def _cpu_sets(facts: HostFacts, options: Options) -> CpuSets:
    """Divide the CPUs of a host by the options (N6).

    :raises DroverError: options that contradict each other, or a CPU that is not online.
    """
    name, online = facts.name, _online(facts)
    sets: dict[str, set[int]] = {}
    for option in ("cpu_shared_set", "cpu_dedicated_set", "vcpu_pin_set"):
        if options.get(option) in (None, ""):
            continue
        where = f"Compute node {name}: {option} (drover_{option})"
        sets[option] = chosen = parse_cpu_set(options[option], where)
        missing = sorted(chosen - online)
        if missing:
            raise DroverError(
                f"{where} has CPUs that are not online: {', '.join(map(str, missing))}. Online are"
                f" {format_cpu_set(online) or 'none'}. Correct the variable of this host, or bring"
                " the CPUs online."
            )
    both = sorted(sets.get("cpu_shared_set", set()) & sets.get("cpu_dedicated_set", set()))
    if both:
        raise DroverError(
            f"Compute node {name}: CPUs {', '.join(map(str, both))} are in drover_cpu_shared_set"
            " and in drover_cpu_dedicated_set. Take them out of one."
        )
    if "vcpu_pin_set" in sets and len(sets) > 1:
        other = next(each for each in sets if each != "vcpu_pin_set")
        raise DroverError(
            f"Compute node {name}: vcpu_pin_set (drover_vcpu_pin_set) is the former option for"
            f" cpu_shared_set and cpu_dedicated_set, and does not go with {other}. Remove it."
        )
    if "cpu_dedicated_set" in sets and options.get("reserved_host_cpus"):
        raise DroverError(
            f"Compute node {name}: reserved_host_cpus (drover_reserved_host_cpus) does not go with"
            " cpu_dedicated_set. Keep CPUs for the host by leaving them out of both sets."
        )
    if "cpu_dedicated_set" in sets:
        dedicated = frozenset(sets["cpu_dedicated_set"])
        return CpuSets(frozenset(sets.get("cpu_shared_set", ())), dedicated, dedicated)
    if "cpu_shared_set" in sets:
        return CpuSets(frozenset(sets["cpu_shared_set"]), frozenset(), frozenset())
    every = frozenset(sets.get("vcpu_pin_set", online))
    return CpuSets(every, every, frozenset())


# libvirt's feature names with another spelling in os-traits; the rest follow the rule in
# cpu_traits().
_ALIASES = {
    "pni": "SSE3",
    "aes": "AESNI",
    "sse4.1": "SSE41",
    "sse4.2": "SSE42",
    "pclmuldq": "CLMUL",
    "sha-ni": "SHA",
    "tbm": "TBM",
    "mpx": "MPX",
    "sgx": "SGX",
}


def cpu_traits(arch: str | None, features: Iterable[str]) -> set[str]:
    """Return the HW_CPU_X86_* traits of libvirt's CPU features (N6.2).

    :param features: names as libvirt reports them; names without a standard trait are left out.
    """
    if arch not in ("x86_64", "i686"):
        return set()
    require("os-traits", os_traits)
    known_traits = set(os_traits.get_traits("HW_CPU_X86_"))
    names = {
        _ALIASES.get(feature, feature).upper().replace("-", "_").replace(".", "")
        for feature in features
    }
    return {f"HW_CPU_X86_{name}" for name in names} & known_traits


#: Keys of guest_hardware with the prefix of their traits; the trait is the prefix and the word.
_HARDWARE_TRAITS = {
    "tpm_models": "COMPUTE_SECURITY_",
    "tpm_versions": "COMPUTE_SECURITY_TPM_",
    "video_models": "COMPUTE_GRAPHICS_MODEL_",
    "disk_buses": "COMPUTE_STORAGE_BUS_",
}


def hardware_traits(hardware: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the standard traits of the hardware that guests of a host can have (N6.2).

    :param hardware: lists of libvirt's words, as hypervisor_info returns guest_hardware.
    """
    trait_names = {
        prefix + word.upper().replace("-", "_").replace(".", "_")
        for key, prefix in _HARDWARE_TRAITS.items()
        for word in hardware.get(key) or ()
    }
    if "yes" in (hardware.get("secure_boot") or ()) and "efi" in (hardware.get("firmware") or ()):
        trait_names.add("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    if not trait_names:
        return trait_names
    require("os-traits", os_traits)
    return trait_names & set(os_traits.get_traits("COMPUTE_"))

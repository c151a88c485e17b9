# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of a host that matter to the guests of other hosts, for the module ``_host_check``.

Private to the collection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from .._domain.definition import network_filters_of
from .._libvirt import host_addresses, missing_drivers
from .._libvirt.binding import libvirt
from .._libvirt.xml import parse, size_bytes
from .._storage import kinds, sources
from .._storage.kinds import Source, Usage
from . import cpus as _cpus
from . import kvm_probe
from .capabilities import parse_capabilities
from .storage import read_networks

_INTERFACES = "/sys/class/net"


def read(conn: Any, local: bool) -> dict[str, object]:
    """Return the facts of the hypervisor and the things that its guests use; plain JSON types only.

    :param local: True if the hypervisor is this machine, so that its network interfaces can be
        read.
    :raises libvirt.libvirtError: the connection breaks.
    """
    capabilities = parse(conn.getCapabilities())
    pools = [
        found
        for found in (_pool(pool) for pool in missing_drivers.listed(conn.listAllStoragePools, 0))
        if found
    ]
    return {
        "hostname": conn.getHostname(),
        "host_uuid": (capabilities.findtext("host/uuid") or "").strip() or None,
        "addresses": host_addresses.read() if local else None,
        "machines": sorted(
            {
                f"{arch.get('name')} {name}"
                for arch in capabilities.findall("guest/arch")
                for name in _machines(arch)
            }
        ),
        "security": sorted(
            {(model.text or "").strip() for model in capabilities.findall("host/secmodel/model")}
            - {"none", "dac", ""}
        ),
        "networks": [each["name"] for each in read_networks(conn) if each["active"]],
        "interfaces": sorted(os.listdir(_INTERFACES)) if local else None,
        "pools": sorted(each["name"] for each in pools if each["active"]),
        "pools_free_gib": {
            each["name"]: each["free_gib"]
            for each in pools
            if each["active"] and kinds.of_pool(each).usage is not Usage.NONE
        },
        "pools_stopped": sorted(
            each["name"] for each in pools if each["autostart"] and not each["active"]
        ),
        **_secrets(conn),
        **missing_drivers.read(conn, local),
        "pool_types": {each["name"]: each["type"] for each in pools},
        "nwfilters": _distinct(
            each.name() for each in missing_drivers.listed(conn.listAllNWFilters, 0)
        ),
        "guests": [
            found for found in (_guest(conn, domain) for domain in conn.listAllDomains(0)) if found
        ],
    }


def _secrets(conn: Any) -> dict[str, list[str]]:
    """Return the names of the secrets that have a value, or may have one; and the names of the
    secrets that libvirt does not describe. No value is kept.
    """
    secrets = [
        (sources.has_value(secret), (secret.UUIDString(), secret.usageID()))
        for secret in missing_drivers.listed(conn.listAllSecrets, 0)
    ]
    return {
        "secrets": _distinct(name for has, names in secrets for name in names if has is not False),
        "secrets_unknown": _distinct(
            name for has, names in secrets for name in names if has is None
        ),
    }


def _machines(arch: Element) -> set[str]:
    names = set()
    for machine in arch.iter("machine"):
        names |= {machine.text or "", machine.get("canonical") or ""}
    return names - {""}


def _pool(pool: Any) -> dict[str, Any] | None:
    """Return the facts of a pool, with its room at libvirt's last look; None if it was removed just
    now.
    """
    try:
        root = parse(pool.XMLDesc(0))
        return {
            "name": pool.name(),
            "type": root.get("type"),
            "active": bool(pool.isActive()),
            "autostart": bool(pool.autostart()),
            "free_gib": size_bytes(root.find("available")) / 1024**3,
        }
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_POOL:
            return None
        raise


def _guest(conn: Any, domain: Any) -> dict[str, object] | None:
    """Return the things that a guest uses; None if it ended just now."""
    try:
        text = domain.XMLDesc(0)
        return {**of_xml(text), "cpu": _cpus.wanted(conn, parse(text))}
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def why_no_kvm(conn: Any) -> str | None:
    """Start a tiny guest with KVM where libvirt offers it, and return why that fails; None if it
    does not fail.
    """
    found = parse_capabilities(conn.getCapabilities())
    answer = kvm_probe.probe(conn, found["cpu"]["arch"], found["supported_instances"])
    return answer["message"] if answer["works"] is False else None


def lacking(conn: Any, cpus: Sequence[Mapping[str, str | None]]) -> list[Mapping[str, str | None]]:
    """Return the CPUs of guests of other hosts that the hypervisor cannot run.

    :raises libvirt.libvirtError: the connection breaks, or libvirt cannot read a CPU.
    """
    return [each for each in cpus if not _cpus.runs(conn, each)]


def of_xml(text: str) -> dict[str, object]:
    """Return the things that a guest uses, by its domain XML."""
    root = parse(text)
    kind = root.find("os/type")
    machine = kind.get("machine") if kind is not None else None
    nics = [nic.find("source") for nic in root.findall("devices/interface")]
    disks = root.findall("devices/disk")
    secrets = [
        each.get("uuid") or each.get("usage") for disk in disks for each in disk.iter("secret")
    ]
    return {
        "name": root.findtext("name") or "",
        # The memory of a running guest; a guest that is off has none to move.
        "memory_mib": size_bytes(root.find("memory")) // 1024**2 if root.get("id") else None,
        "machine": f"{kind.get('arch')} {machine}" if kind is not None and machine else None,
        "networks": _distinct(nic.get("network") for nic in nics if nic is not None),
        # A running NIC in a network of libvirt shows the bridge of the network.
        "interfaces": _distinct(
            nic.get("bridge") or nic.get("dev")
            for nic in nics
            if nic is not None and not nic.get("network")
        ),
        "pools": _distinct(
            each.get("pool")
            for disk in disks
            for each in disk.findall("source")
            if kinds.of_disk(disk).source is Source.VOLUME
        ),
        "secrets": _distinct(secrets),
        "nwfilters": network_filters_of(text),
    }


def _distinct(values: Any) -> list[str]:
    return sorted({value for value in values if value})

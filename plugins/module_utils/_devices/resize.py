# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another size for a domain that is defined: its XML with other vCPUs and memory, and larger disks.

Private to the collection. Nothing is ever made smaller than its disks are.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from .._domain.definition import METADATA_NAMESPACE, parse_metadata
from .._domain.facts import DomainDisk, NumaBinding
from .._domain.numa_xml import with_numa
from .._host.facts import HostDomain
from .._images import images
from .._images.images import GIB
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import child_of, child_text, integer, keep_prefixes, parse, size_bytes
from .._storage import kinds


def resized(
    text: str,
    vcpus: int | None = None,
    memory_mb: int | None = None,
    flavor: str | None = None,
    numa: NumaBinding | None = None,
) -> str | None:
    """Return the XML of a domain with another size, None if the domain has that size already.

    :param flavor: the name to put into its metadata; None leaves that as it is, an empty text takes
        it out.
    :param numa: the pins, NUMA cells and huge pages of that size; None leaves them unchanged, an
        empty one removes them.
    :raises LibvirtProblem: the XML says more of its CPUs or memory than can be changed by numbers.
    """
    if numa is None:
        return _resize_domain(text, vcpus, memory_mb, flavor)
    root = parse(text)
    same = vcpus in (None, *_same(_vcpus(root))) and memory_mb in (None, *_same(_memory(root)))
    # Cells of another size would say how many vCPUs and how much memory it has.
    before = text if same else with_numa(text, {})
    found = with_numa(_resize_domain(before, vcpus, memory_mb, flavor) or before, numa)
    return None if found is text else found


def _same(most_and_first: tuple[int, int]) -> tuple[int, ...]:
    """Return the one size that a domain has; nothing if it may grow."""
    return most_and_first[:1] if most_and_first[0] == most_and_first[1] else ()


def _resize_domain(
    text: str, vcpus: int | None, memory_mb: int | None, flavor: str | None
) -> str | None:
    root = parse(text)
    changed = False
    if vcpus is not None and _vcpus(root) != (vcpus, vcpus):
        _set_vcpus(root, vcpus)
        changed = True
    if memory_mb is not None and _memory(root) != (memory_mb, memory_mb):
        _set_memory(root, memory_mb)
        changed = True
    if flavor is not None and parse_metadata(root).get("flavor", "") != flavor:
        _set_flavor(root, flavor)
        changed = True
    if not changed:
        return None
    keep_prefixes(text)
    ET.register_namespace("drover", METADATA_NAMESPACE)
    return ET.tostring(root, encoding="unicode")


def _vcpus(root: Element) -> tuple[int, int]:
    """Return (the most vCPUs it can have, the number that it starts with)."""
    element = root.find("vcpu")
    most = integer(child_text(root, "vcpu", "1"), 1)
    return most, integer(element.get("current"), most) if element is not None else most


def _memory(root: Element) -> tuple[int, int]:
    """Return (the most memory it can have, the amount that it starts with), in MiB."""
    most = size_bytes(root.find("memory")) // 2**20
    current = root.find("currentMemory")
    return most, size_bytes(current) // 2**20 if current is not None else most


def _set_vcpus(root: Element, vcpus: int) -> None:
    name = child_text(root, "name")
    if root.find("cpu/numa") is not None:
        raise _by_hand(name, "its vCPUs are spread over NUMA cells")
    element = child_of(root, "vcpu")
    element.text = str(vcpus)
    element.attrib.pop("current", None)
    for each in root.findall("vcpus"):
        root.remove(each)
    topology = root.find("cpu/topology")
    if topology is not None:
        per_socket = math.prod(
            integer(topology.get(key), 1) for key in ("dies", "clusters", "cores", "threads")
        )
        if vcpus % per_socket:
            raise _by_hand(
                name,
                f"its topology has {per_socket} vCPUs in each socket, and {vcpus} is no multiple of"
                " that",
            )
        topology.set("sockets", str(vcpus // per_socket))
    tuning = root.find("cputune")
    if tuning is not None:
        for pin in tuning.findall("vcpupin"):
            if integer(pin.get("vcpu")) >= vcpus:
                tuning.remove(pin)


def _set_memory(root: Element, memory_mb: int) -> None:
    name = child_text(root, "name")
    if root.find("cpu/numa") is not None:
        raise _by_hand(name, "its memory is spread over NUMA cells")
    if root.findall("devices/memory"):
        raise _by_hand(name, "part of its memory is in memory devices")
    most = root.find("maxMemory")
    if most is not None and size_bytes(most) < memory_mb * 2**20:
        raise _by_hand(name, f"its maxMemory is less than {memory_mb} MiB")
    for each in root.findall("currentMemory"):
        root.remove(each)
    element = child_of(root, "memory")
    element.set("unit", "MiB")
    element.text = str(memory_mb)


def _by_hand(name: str | None, why: str) -> LibvirtProblem:
    return LibvirtProblem(
        f"The size of {name} on {host_name()} cannot be changed: {why}. Change that with virsh edit"
        " first; nothing was changed."
    )


def _set_flavor(root: Element, flavor: str) -> None:
    tag = f"{{{METADATA_NAMESPACE}}}"
    instance = child_of(child_of(root, "metadata"), f"{tag}instance")
    for each in instance.findall(f"{tag}flavor"):
        instance.remove(each)
    if flavor:
        ET.SubElement(instance, f"{tag}flavor").text = flavor


def growth(facts: HostDomain, disk_gb: int) -> tuple[DomainDisk, int] | None:
    """Return the growth of the first disk after which the writable disks have so many GiB in all.

    :param facts: the domain as hypervisor_info describes it.
    :returns: (the disk of the facts, its new size in bytes), or None when they have that much
        already.
    :raises LibvirtProblem: they have more, or their sizes are not known, or it is not a file.
    """
    name = facts["name"]
    disks = [
        disk
        for disk in facts["disks"]
        if disk["device"] == "disk" and not disk["readonly"] and disk["source"]
    ]
    sizes = [disk["capacity_bytes"] for disk in disks if disk["capacity_bytes"] is not None]
    if len(sizes) < len(disks):
        raise LibvirtProblem(
            f"libvirt did not give the sizes of the disks of {name} on {host_name()}, so none is"
            " made larger."
        )
    have = sum(sizes)
    if math.ceil(have / GIB) > disk_gb:
        raise LibvirtProblem(
            f"The disks of {name} on {host_name()} have {math.ceil(have / GIB)} GiB, and {disk_gb}"
            " GiB are requested: a disk is never made smaller."
        )
    if math.ceil(have / GIB) == disk_gb:
        return None
    if not disks or kinds.of_disk(disks[0]).source is not kinds.Source.FILE:
        what = "is no image file" if disks else "does not exist"
        raise LibvirtProblem(
            f"The first disk of {name} on {host_name()} {what}: make it larger yourself, then run"
            " this again."
        )
    reason = why_split(disks[0])
    if reason:
        raise LibvirtProblem(
            f"The disk {disks[0]['target']} of {name} on {host_name()} is not made larger:"
            f" {reason}."
        )
    return disks[0], sizes[0] + disk_gb * GIB - have


def why_split(disk: DomainDisk) -> str | None:
    """Return the reason why the size of a disk does not describe the running guest, which has
    another file; None if it has the same file.

    :param disk: a disk from the facts of its domain. A size below the size of the other file would
        cut off that file's end.
    """
    if not disk.get("only"):
        return None
    return (
        f"{disk['source']} is in its definition, and the running guest has another file there, or"
        " none: shut it off and start it, then run this again"
    )


def grow(module: AnsibleModule, domain: Any, disk: DomainDisk, size: int) -> None:
    """Make an image file larger, below a running guest too."""
    if domain.isActive():
        domain.blockResize(disk["target"], size, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
    else:
        images.grow(module, disk["source"] or "", disk["format"] or "raw", size)

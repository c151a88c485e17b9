# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks, interfaces and CD-ROM drives of a domain, compared with its definition.

No device is removed here: a device that the definition lacks is only named. A device that the
domain lacks is added if the module instance_disk, instance_interface or instance_cdrom can add it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from .._records.domains import InterfaceFacts, ReportedDomain
from .._records.instances import Disk
from . import disk_files, disk_sources, hardware, hardware_there
from .definition import DefinedDisk, DefinedNetwork, Resolved
from .hardware import Hardware

GIB = 2**30
#: The kinds of changes. The first four are kinds of _conductor.instance_devices.DeviceRequest, with
#: the options of their modules.
DISK, INTERFACE, CDROM, GROWTH, SETTINGS, RESIZE = (
    "disk",
    "interface",
    "cdrom",
    "growth",
    "settings",
    "resize",
)


class InstanceChange(NamedTuple):
    """A change that brings an instance into line with its definition. kind: one of the kinds above.
    given: its options.
    """

    kind: str
    given: Mapping[str, Any]


class Difference(NamedTuple):
    """A difference between an instance and its definition.

    key: the key that differs. there, wanted: in words. change: the change that is made on demand;
    None if there is none. way: the change that a person can make instead.
    """

    key: str
    there: str
    wanted: str
    change: InstanceChange | None = None
    way: str = ""


def disks(
    definition: Resolved, facts: ReportedDomain, root: Element, folder: str
) -> list[Difference]:
    """Compare disks.

    :param definition: a result of identity.resolve().
    :param facts: the facts of the domain, as the module hypervisor_info returns them.
    :param root: its XML.
    :param folder: for new disks without a path, on its host.
    """
    disks_there = [disk for disk in facts["disks"] if disk.get("device", "disk") == "disk"]
    wished = disk_files.targets(definition["disks"])
    files = [_file_of(definition, target, disk, folder) for target, disk in wished]
    pairs = _pairs(wished, files, disks_there)
    differences: list[Difference] = []
    for number, ((_target, disk), path) in enumerate(zip(wished, files), 1):
        have = pairs.get(number)
        if have is None:
            differences.append(_missing_disk(definition, number, disk, path))
        else:
            differences += _differing_disk(number, disk, have, root)
    matched = [id(each) for each in pairs.values()]
    differences += [
        Difference(
            f"disk {each['target']}",
            str(each.get("path") or each["source"]),
            "none",
            way=(
                "detach it with drover.compute.instance_disk, or add it to the definition with"
                f" path: {each.get('path') or each['source']}"
            ),
        )
        for each in disks_there
        if id(each) not in matched
    ]
    return differences


def _file_of(definition: Resolved, target: str, disk: DefinedDisk, folder: str) -> str:
    if disk.get("source"):
        return disk_sources.text_of(disk)
    base = posixpath.join(folder, disk_files.base(definition["name"], definition["uuid"]))
    return (
        disk_files.normal(disk["path"]) if disk.get("path") else disk_files.by_default(base, target)
    )


def _pairs(
    wished: Sequence[tuple[str, DefinedDisk]],
    files: Sequence[str],
    there: Sequence[Disk],
) -> dict[int, Disk]:
    """Return the disk of the domain for each number of a disk of the definition that has one.

    A disk with a path is matched by its file. A disk without a path is matched by its file name in
    any folder, because the instance may have been built elsewhere; or else it gets the first disk
    that is left, because the instance may not have been built from this definition.
    """
    unmatched, pairs = list(there), {}

    def take(number: int, matching: list[Disk]) -> None:
        if matching and number not in pairs:
            pairs[number] = matching[0]
            unmatched[:] = [each for each in unmatched if each is not matching[0]]

    for number, ((_target, disk), path) in enumerate(zip(wished, files), 1):
        names = [
            {each.get("path"), each.get("real_path"), each.get("source")} for each in unmatched
        ]
        if disk.get("path") or disk.get("source"):
            take(number, [each for each, known in zip(unmatched, names) if path in known])
        else:
            own = posixpath.basename(path)
            take(
                number,
                [
                    each
                    for each, known in zip(unmatched, names)
                    if own in {posixpath.basename(name) for name in known if name}
                ],
            )
    for number, (_target, disk) in enumerate(wished, 1):
        if not disk.get("path") and not disk.get("source"):
            take(number, unmatched[:1])
    return pairs


def _missing_disk(definition: Resolved, number: int, disk: DefinedDisk, path: str) -> Difference:
    # The module attaches only a disk with the defaults of place.
    odd = [key for key, plain in _PLAIN_DISK.items() if disk.get(key) and disk.get(key) != plain]
    if disk.get("image") or disk.get("pool") or disk.get("source"):
        odd = [key for key in ("image", "pool", "source") if disk.get(key)]
    change = None
    way = (
        f"drover.compute.instance_disk attaches none with {' and '.join(odd)}; attach it by hand,"
        " or build the instance anew"
    )
    if not odd:
        # The disk may be the first one of a bus.
        bus = disk.get("bus") or _asked(definition)["disk_bus"]
        change, way = (
            InstanceChange(
                DISK,
                {
                    "path": path,
                    "size_gb": disk["size_gb"],
                    "format": "qcow2",
                    "bus": bus,
                    "readonly": False,
                },
            ),
            "",
        )
    wanted = path if disk.get("source") else f"{path}, {disk['size_gb']} GiB"
    return Difference(f"disk {number}", "none", wanted, change, way)


#: The settings of each disk that the module instance_disk attaches; it can set no others.
_PLAIN_DISK = {"cache": "none", "discard": "unmap", "io": None, "serial": None, "iotune": None}


def _differing_disk(number: int, disk: DefinedDisk, have: Disk, root: Element) -> list[Difference]:
    differences, key = [], f"disk {number}"
    capacity = have.get("capacity_bytes")
    if capacity is not None and capacity != disk["size_gb"] * GIB and not disk.get("source"):
        change, way = None, "a disk is never made smaller; correct the definition"
        if capacity < disk["size_gb"] * GIB:
            change, way = (
                InstanceChange(GROWTH, {"target": have["target"], "size_gb": disk["size_gb"]}),
                "",
            )
        differences.append(
            Difference(f"{key} size", _gib(capacity), f"{disk['size_gb']} GiB", change, way)
        )
    chain, image = have.get("chain"), disk.get("image") or ""
    if (
        image.startswith("/")
        and chain is not None
        and image not in {name for each in chain for name in (each["path"], each["real_path"])}
    ):
        backing = chain[0]["path"] if chain else "none"
        differences.append(Difference(f"{key} image", backing, image, way=ONLY_WHEN_BUILT))
    shown = hardware_there.of_disk(root, have.get("target"))
    for name in ("bus", "cache", "io", "discard", "serial"):
        if disk.get(name) and shown.get(name) != disk[name]:
            differences.append(
                Difference(
                    f"{key} {name}", shown.get(name, "none"), str(disk[name]), way=ONLY_WHEN_BUILT
                )
            )
    return differences


def _gib(size: int) -> str:
    return f"{size // GIB} GiB" if size % GIB == 0 else f"{size / GIB:.2f} GiB"


#: The way out for the keys of a definition that place reads only when it builds an instance.
ONLY_WHEN_BUILT = (
    "only a new instance gets it: change the domain with virsh edit, or remove the instance and"
    " place it again"
)


def networks(definition: Resolved, facts: ReportedDomain, root: Element) -> list[Difference]:
    """Compare interfaces; for the parameters see disks()."""
    unmatched = list(facts["interfaces"])
    wished = hardware.networks(_asked(definition), definition["networks"], definition["name"])
    pairs: dict[int, InterfaceFacts] = {}
    for by_mac in (True, False):
        for number, interface in enumerate(wished):
            if number in pairs or bool(interface.get("mac")) != by_mac:
                continue
            for nic in unmatched:
                same = _mac(nic) == interface["mac"].lower() if by_mac else _is_in(nic, interface)
                if same:
                    pairs[number] = nic
                    unmatched.remove(nic)
                    break
    differences: list[Difference] = []
    for number, (interface, written) in enumerate(zip(wished, definition["networks"])):
        if number in pairs:
            differences += _differing_interface(number + 1, interface, written, pairs[number], root)
        else:
            others = [nic for nic in facts["interfaces"] if _is_in(nic, interface)]
            first = not any(
                _source(other) == _source(interface) and not other.get("mac")
                for other in wished[:number]
            )
            differences.append(_missing_interface(number + 1, interface, not others and first))
    differences += [
        Difference(
            f"network {_mac(nic)}",
            f"{nic['type']} {nic['source']}",
            "none",
            way="detach it with drover.compute.instance_interface, or add it to the definition",
        )
        for nic in unmatched
    ]
    return differences


def _mac(nic: InterfaceFacts) -> str:
    return (nic.get("mac") or "").lower()


def _source(wanted: DefinedNetwork) -> tuple[str, str]:
    return ("bridge", wanted["bridge"]) if wanted.get("bridge") else ("network", wanted["network"])


def _is_in(nic: InterfaceFacts, wanted: DefinedNetwork) -> bool:
    return (nic["type"], nic["source"]) == _source(wanted)


def _missing_interface(number: int, wanted: DefinedNetwork, alone: bool) -> Difference:
    """:param alone: True if the instance has none there, so that the module creates a new one
    without a MAC address.
    """
    kind, source = _source(wanted)
    odd = [
        key
        for key in ("queues", "mtu", "openvswitch", "vlan")
        if wanted.get(key) not in (None, False)
    ]
    change, way = None, ""
    if odd:
        way = (
            f"drover.compute.instance_interface attaches none with {' and '.join(odd)}; attach it"
            " by hand, or build the instance anew"
        )
    elif not wanted.get("mac") and not alone:
        way = f"it would be a further one in the {kind} {source}: give it a mac in the definition"
    else:
        change = InstanceChange(
            INTERFACE, {kind: source, "mac": wanted.get("mac"), "model": wanted["model"]}
        )
    return Difference(f"network {number}", "none", f"{kind} {source}", change, way)


def _differing_interface(
    number: int,
    wanted: DefinedNetwork,
    written: DefinedNetwork,
    nic: InterfaceFacts,
    root: Element,
) -> list[Difference]:
    differences, key, (kind, source) = [], f"network {number}", _source(wanted)
    if not _is_in(nic, wanted):
        way = "detach it with drover.compute.instance_interface, and place attaches it again"
        differences.append(
            Difference(key, f"{nic['type']} {nic['source']}", f"{kind} {source}", way=way)
        )
    shown = hardware_there.of_interface(root, nic.get("mac"))
    vlan = " ".join(str(tag["id"]) for tag in (wanted.get("vlan") or {}).get("tags", ()))
    values = {
        "model": wanted["model"] if written.get("model") else None,
        "mtu": wanted.get("mtu"),
        "queues": written.get("queues"),
        "vlan": vlan,
    }
    for name, value in values.items():
        text = "" if value is None or (name == "queues" and value == 1) else str(value)
        if text and shown.get(name) != text:
            differences.append(
                Difference(f"{key} {name}", shown.get(name, "none"), text, way=ONLY_WHEN_BUILT)
            )
    return differences


def cdroms(definition: Resolved, facts: ReportedDomain) -> list[Difference]:
    """Compare the CD-ROM drives; the first one may have the seed of cloud-init; for the parameters
    see disks().
    """
    drives = [disk for disk in facts["disks"] if disk.get("device") == "cdrom"]
    seed = disk_files.base(definition["name"], definition["uuid"]) + disk_files.SEED
    drives = [each for each in drives if posixpath.basename(each.get("source") or "") != seed]
    differences = []
    wished = definition.get("cdroms") or []
    pairs = _pairs_of_drives(
        [each.get("bus") or _asked(definition)["cdrom_bus"] for each in wished], drives
    )
    for number, wanted in enumerate(wished, 1):
        given = wanted.get("path")
        path = disk_files.normal(given) if given else None
        drive = pairs.get(number)
        if drive is None:
            way = (
                "a running guest gets no drive: change the domain with virsh edit, or remove the"
                " instance and place it again"
            )
            differences.append(
                Difference(f"cdrom {number}", "no drive", path or "an empty drive", way=way)
            )
            continue
        names = {drive.get("source"), drive.get("path"), drive.get("real_path")} - {None}
        if path in names or (path is None and not names):
            continue
        change: InstanceChange | None = InstanceChange(
            CDROM, {"path": path, "target": drive["target"]}
        )
        way = ""
        if path is None:
            change, way = (
                None,
                f"eject it with drover.compute.instance_cdrom, target {drive['target']}",
            )
        differences.append(
            Difference(
                f"cdrom {number}", drive.get("source") or "empty", path or "empty", change, way
            )
        )
    matched = [id(each) for each in pairs.values()]
    for unmatched in drives:
        source = unmatched.get("source")
        if id(unmatched) not in matched and source:
            way = (
                f"eject it with drover.compute.instance_cdrom, target {unmatched['target']}, or add"
                " it to the definition"
            )
            differences.append(Difference(f"cdrom {unmatched['target']}", source, "none", way=way))
    return differences


def _pairs_of_drives(buses: Sequence[str], drives: Sequence[Disk]) -> dict[int, Disk]:
    """Return the drive of the domain for each number of a drive of the definition that has one.

    A drive is matched by its bus, because libvirt sorts devices by their buses and keeps the order
    on each bus; or else it gets the first drive that is left, because the instance may not have
    been built from this definition.

    :param buses: the buses of the drives of the definition, in order.
    """
    unmatched, pairs = list(drives), {}
    for by_bus in (True, False):
        for number, bus in enumerate(buses, 1):
            place = next(
                (
                    place
                    for place, each in enumerate(unmatched)
                    if not by_bus or each.get("bus") == bus
                ),
                None,
            )
            if number not in pairs and place is not None:
                pairs[number] = unmatched.pop(place)
    return pairs


def _asked(definition: Resolved) -> Hardware:
    """Return the result of hardware() for a definition."""
    guest = definition.get("guest") or {}
    given = (definition, guest.get("extra_specs"), guest.get("image_properties"))
    return hardware.hardware(*given, where=definition["name"], vcpus=definition["vcpus"])

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mediated devices of a hypervisor, such as virtual GPUs: made before a domain is defined, and
removed with it.

Private to the collection. libvirt makes them by mdevctl. Source:
https://libvirt.org/formatnode.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from .._domain.definition import parse_hostdevs
from .._domain.texts import texts_of
from .._host.devices import parse_devices
from .._host.facts import MdevDevice
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import parse
from .._ownership import mdev_uuids, ownership
from .._ownership.move_record import Mdev
from .._ownership.needs import is_gone

#: The options of a module for one device.
SPEC = {key: {"type": "str", "required": True} for key in ("uuid", "parent", "type")}

#: libvirt's number of 7.3.0, which defines mediated devices, with their uuid.
DEFINES = 7003000


class _Device(NamedTuple):
    """A mediated device that exists, or is only defined: libvirt's handle, and the facts that
    _host/devices.py reads.
    """

    handle: Any
    facts: MdevDevice


def of_texts(texts: Iterable[str]) -> list[str]:
    """Return the uuids of the mediated devices in the XML of a domain, each once.

    :param texts: all its XML, see texts.texts_of().
    """
    addresses = [
        each["address"]
        for text in texts
        for each in parse_hostdevs(parse(text))
        if each["type"] == "mdev" and each["address"]
    ]
    return list(dict.fromkeys(addresses))


def check(
    conn: Any,
    wanted: Sequence[Mdev],
    domain_uuid: str | None,
    where: str | None = None,
) -> None:
    """Refuse mediated devices that this hypervisor cannot give to a domain.

    :param wanted: each with uuid, parent (libvirt's name) and type.
    :param where: the name of the hypervisor; None if it is this machine.
    :raises LibvirtProblem: a device is another one, or is used, or cannot be made.
    """
    if not wanted:
        return
    where = where or host_name()
    devices = _read_devices(conn)
    users = _users(conn, domain_uuid)
    missing: list[Mdev] = []
    for mdev in wanted:
        device = devices.get(mdev["uuid"])
        if mdev["uuid"] in users:
            raise LibvirtProblem(
                f"The mediated device {mdev['uuid']} is in use by {users[mdev['uuid']]} on {where}."
                f" {_ADVICE}"
            )
        if device is None:
            missing.append(mdev)
        elif (device.facts["parent"], device.facts["type"]) != (mdev["parent"], mdev["type"]):
            raise LibvirtProblem(
                f"The mediated device {mdev['uuid']} on {where} is a {device.facts['type']} of"
                f" {device.facts['parent']}, not a {mdev['type']} of {mdev['parent']}. {_ADVICE}"
            )
    if missing and conn.getLibVersion() < DEFINES:
        raise LibvirtProblem(
            f"libvirt of {where} cannot make mediated devices, which came with libvirt 7.3. Make"
            " them by hand, or update it."
        )
    for parent in sorted({each["parent"] for each in missing}):
        _check_parent(
            conn, parent, [each["type"] for each in missing if each["parent"] == parent], where
        )


_ADVICE = "Run drover.compute.discover, and then place again."


def _check_parent(conn: Any, parent: str, kinds: Sequence[str], where: str) -> None:
    """Refuse to make mediated devices of a parent that is not there or does not make so many of a
    type.
    """
    try:
        text = conn.nodeDeviceLookupByName(parent).XMLDesc(0)
    except libvirt.libvirtError as exc:
        raise LibvirtProblem(
            f"The device {parent}, of which a mediated device is to be made, is not there on"
            f" {where} ({binding.text_of(exc)}). {_ADVICE}"
        ) from exc
    available = {
        each["type"]: each["available_instances"]
        for each in parse_devices([(text, True)])["mdev_types"]
    }
    for kind in sorted(set(kinds)):
        if available.get(kind, 0) < kinds.count(kind):
            has = (
                ", ".join(
                    f"{number} of {name}" for name, number in sorted(available.items()) if number
                )
                or "none"
            )
            raise LibvirtProblem(
                f"The device {parent} on {where} cannot make {kinds.count(kind)} more of the type"
                f" {kind}; it can make: {has}. {_ADVICE}"
            )


def make(conn: Any, each: Mdev) -> bool:
    """Make sure that a mediated device exists, now and after the next boot of its host; return
    whether anything changed.

    :param each: uuid, parent and type, which check() passed.
    :raises libvirt.libvirtError: libvirt or the driver of the parent refuses; then nothing is left
    of it.
    """
    device = _read_devices(conn).get(each["uuid"])
    if device is not None:
        if device.facts["active"]:
            return False
        if mdev_uuids.is_ours(each["uuid"]):
            # A run that made it may have been ended in between.
            device.handle.setAutostart(1)
        device.handle.create(0)
        return True
    text = (
        f"<device><parent>{escape(each['parent'])}</parent><capability type='mdev'><type"
        f" id={quoteattr(each['type'])}/><uuid>{escape(each['uuid'])}</uuid></capability></device>"
    )
    made = conn.nodeDeviceDefineXML(text, 0)
    try:
        made.setAutostart(1)
        made.create(0)
    except libvirt.libvirtError:
        remove(conn, [each["uuid"]])
        raise
    return True


def remove(conn: Any, uuids: Iterable[str], domain_uuid: str | None = None) -> list[dict[str, str]]:
    """Remove mediated devices that the collection made and no other domain names.

    :param domain_uuid: the domain that may name them.
    :returns: the devices that are left though the collection made them, each with uuid and reason.
    """
    ours = [each for each in uuids if mdev_uuids.is_ours(each)]
    if not ours:
        return []
    kept = []
    try:
        devices = _read_devices(conn)
    except libvirt.libvirtError as exc:
        return [
            {"uuid": each, "reason": f"the devices cannot be read: {binding.text_of(exc)}"}
            for each in ours
        ]
    try:
        users = _users(conn, domain_uuid)
    except libvirt.libvirtError as exc:
        return [
            {"uuid": each, "reason": f"the domains cannot be read: {binding.text_of(exc)}"}
            for each in ours
            if each in devices
        ]
    for uuid in ours:
        if uuid not in devices:
            continue
        if uuid in users:
            kept.append({"uuid": uuid, "reason": f"{users[uuid]} names it"})
            continue
        try:
            ownership.remove_mdev(devices[uuid].handle, uuid, devices[uuid].facts["active"])
        except libvirt.libvirtError as exc:
            kept.append({"uuid": uuid, "reason": binding.text_of(exc)})
    return kept


def _read_devices(conn: Any) -> dict[str, _Device]:
    """Return the mediated devices of the hypervisor, by uuid."""
    flags = 0
    for name in ("CAP_MDEV", "ACTIVE", "INACTIVE"):
        flags |= getattr(libvirt, f"VIR_CONNECT_LIST_NODE_DEVICES_{name}", 0)
    if conn.getLibVersion() < DEFINES:
        flags = getattr(libvirt, "VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV", 0)
    by_uuid = {}
    for handle in conn.listAllDevices(flags):
        try:
            text = handle.XMLDesc(0)
            active = bool(handle.isActive()) if hasattr(handle, "isActive") else True
        except libvirt.libvirtError:
            # The device went away after the list was made.
            continue
        for facts in parse_devices([(text, active)])["mdev_devices"]:
            by_uuid[str(facts["uuid"])] = _Device(handle, facts)
    return by_uuid


def _users(conn: Any, domain_uuid: str | None) -> dict[str, str]:
    """Return the name of a domain that names each mediated device, in any of its XML, but for one
    domain.
    """
    names = {}
    for domain in conn.listAllDomains(0):
        try:
            if domain.UUIDString() != domain_uuid:
                names.update({each: domain.name() for each in of_texts(texts_of(domain))})
        except libvirt.libvirtError as exc:
            if not is_gone(exc):
                raise
    return names

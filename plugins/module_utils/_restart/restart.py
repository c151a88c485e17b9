# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Defining and starting a domain that another host had, and forgetting it where it is stale.

Private to the collection. No file that a domain uses is made, changed or removed.
"""

from __future__ import annotations

import os
import secrets
import xml.etree.ElementTree as ET
from typing import Any, Literal, TypedDict

from .._bindings import reading, table
from .._bindings.there import reasons_here
from .._devices import mdevs
from .._domain import power
from .._domain.definition import VNC_PASSWORD, is_locked_out, with_password
from .._domain.facts import PowerState
from .._files import access
from .._host import distribution
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import child_text, parse
from .._orders import orders
from .._orders.records import Records
from .._ownership import ownership
from .restart_images import Restart, Surroundings, newest, reasons

#: Seconds to wait for another call that works on the same domain.
PATIENCE = 120


class Restarted(TypedDict):
    """The result of a restart."""

    uuid: str
    name: str
    #: there: it was so already. failed: nothing of it is left here. uncertain: its state is
    #: unknown.
    status: Literal["restarted", "there", "failed", "uncertain"]
    state: PowerState | None
    message: str


class Forgotten(TypedDict):
    """The result of the removal of a stale definition. A running domain is never touched."""

    uuid: str
    status: Literal["forgotten", "absent", "running", "failed"]
    message: str


def restart(
    conn: Any,
    records: Records,
    order: Restart,
    timeout: float,
    check_mode: bool,
    surroundings: Surroundings,
) -> Restarted:
    """Bring one domain to the state that it is to have here."""
    answer: Restarted = {
        "uuid": order["uuid"],
        "name": order["name"],
        "status": "uncertain",
        "state": None,
        "message": "",
    }
    try:
        with orders.alone(records, order["uuid"], order["name"], PATIENCE, order.get("order")):
            _restart_alone(conn, order, timeout, check_mode, surroundings, answer)
    except (LibvirtProblem, OSError) as exc:
        answer["message"] = str(exc)
    return answer


def _restart_alone(
    conn: Any,
    order: Restart,
    timeout: float,
    check_mode: bool,
    surroundings: Surroundings,
    answer: Restarted,
) -> None:
    try:
        changed, answer["state"] = _start_domain(
            conn, order, timeout, check_mode, surroundings, answer
        )
        answer["status"] = "restarted" if changed else "there"
    except (LibvirtProblem, libvirt.libvirtError, OSError) as exc:
        answer["message"] = (
            binding.text_of(exc) if isinstance(exc, libvirt.libvirtError) else str(exc)
        )
        answer["status"] = "failed" if _is_absent(conn, order["uuid"]) else "uncertain"


def _start_domain(
    conn: Any,
    order: Restart,
    timeout: float,
    check_mode: bool,
    surroundings: Surroundings,
    answer: Restarted,
) -> tuple[bool, PowerState]:
    domain = power.find(conn, uuid=order["uuid"])
    if domain is not None and domain.isActive():
        return False, power.state_of(domain)
    if order["snapshotting"]:
        order, images = newest(order)
        answer["message"] = (
            f", from {', '.join(images)}, made for a snapshot when its host died" if images else ""
        )
    if domain is not None:
        return _bring_over(conn, domain, order, timeout, check_mode, answer)
    _refuse_host(conn, order, surroundings)
    if check_mode:
        return True, "running" if order["running"] else "shutoff"
    try:
        for each in order["mdevs"]:
            mdevs.make(conn, each)
        domain = _define(conn, order)
        return True, _as_ordered(domain, order, timeout)
    except (LibvirtProblem, libvirt.libvirtError):
        _take_back(conn, domain, order)
        raise


def _bring_over(
    conn: Any,
    domain: Any,
    order: Restart,
    timeout: float,
    check_mode: bool,
    answer: Restarted,
) -> tuple[bool, PowerState]:
    """Start a domain that has a definition here already: of a call that was cut off, or of the time
    before an earlier evacuation.

    The store knows the newer one. The disks of an old definition may be below the present disks,
    and its start would destroy them.
    """
    if domain.hasManagedSaveImage(0):
        raise LibvirtProblem(
            "an old definition of it is here whose memory was saved, and would go on with that"
            f" over the disks of today: drop it with virsh managedsave-remove {order['uuid']}"
        )
    others = Surroundings(conn, order["uuid"])
    if check_mode:
        _refuse_host(conn, order, others)
        there = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        return order["running"] or not _is_same(there, _xml_for_host(conn, order)), (
            "running" if order["running"] else "shutoff"
        )
    before, secret = (
        domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE),
        libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE,
    )
    old, is_ours = domain.XMLDesc(secret), False
    try:
        domain = _define(conn, order)
        is_ours = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) == before
        _refuse_host(conn, order, others)
        for each in order["mdevs"]:
            mdevs.make(conn, each)
        answer["message"] += "" if is_ours else ", in place of an old definition of it"
        return order["running"] or not is_ours, _as_ordered(domain, order, timeout)
    except (LibvirtProblem, libvirt.libvirtError, OSError):
        if is_ours:
            _take_back(conn, domain, order)
        else:
            if domain.isActive():
                domain.destroy()
            power.define(conn, old)
        raise


def _define(conn: Any, order: Restart) -> Any:
    return power.define(conn, _set_random_password(_xml_for_host(conn, order)))


def _xml_for_host(conn: Any, order: Restart) -> str:
    return distribution.for_host(conn, order["xml"])


def _is_same(one: str, other: str) -> bool:
    """Return True if two definitions say the same. Passwords are left out, because libvirt shows
    none.
    """
    roots = [parse(text) for text in (one, other)]
    for root in roots:
        for console in root.findall("devices/graphics"):
            console.attrib.pop("passwd", None)
    one, other = (
        ET.canonicalize(ET.tostring(root, encoding="unicode"), strip_text=True) for root in roots
    )
    return one == other


def _as_ordered(domain: Any, order: Restart, timeout: float) -> PowerState:
    """Start a domain that was defined, if it is to run: its state."""
    if bool(domain.autostart()) != bool(order["autostart"]):
        domain.setAutostart(bool(order["autostart"]))
    if order["running"]:
        power.start(domain, timeout)
    return power.state_of(domain)


def _take_back(conn: Any, domain: Any, order: Restart) -> None:
    """Remove the objects that this evacuation has made here. The room was claimed for this domain
    alone.
    """
    if domain is not None:
        if domain.isActive():
            domain.destroy()
        ownership.undefine(domain)
    mdevs.remove(conn, [each["uuid"] for each in order["mdevs"]], order["uuid"])


def _refuse_host(conn: Any, order: Restart, surroundings: Surroundings) -> None:
    """Raise LibvirtProblem if this host cannot have the domain, before anything is done."""
    where, name = host_name(), order["name"]
    root = parse(order["xml"])
    if (child_text(root, "uuid"), child_text(root, "name")) != (order["uuid"], name):
        raise LibvirtProblem(
            f"the XML recorded of {name} is that of {child_text(root, 'name')}"
            f" ({child_text(root, 'uuid')}): start it by hand from what you trust"
        )
    twin = power.find(conn, name=name)
    if twin is not None and twin.UUIDString() != order["uuid"]:
        raise LibvirtProblem(
            f"another domain named {name} ({twin.UUIDString()}) exists on {where}: rename or"
            " remove it"
        )
    try:
        missing = [path for path in order["files"] if not access.call(os.path.exists, path)]
    except access.Unresponsive as exc:
        raise LibvirtProblem(str(exc)) from exc
    if missing:
        raise LibvirtProblem(
            f"{where} does not have {', '.join(missing)}: mount that storage there"
        )
    others = reasons(conn, order, surroundings, where)
    if others:
        raise LibvirtProblem("; ".join(others))
    mdevs.check(conn, order["mdevs"], order["uuid"])
    bindings = reading.read(
        order["xml"], but={*order["pci_devices"], *(each["uuid"] for each in order["mdevs"])}
    )
    obstacles = [
        each.what
        for each in bindings
        if each.evacuation == table.LOST and each.move != table.LOOKED_UP
    ]
    if obstacles:
        raise LibvirtProblem(f"{'; '.join(obstacles)}: take it out of the XML and start it by hand")
    lacking = reasons_here(conn, bindings, where, order["uuid"])
    if lacking:
        raise LibvirtProblem("; ".join(lacking))


def _set_random_password(text: str) -> str:
    """Return the XML with a random password, where the console had a password: no store has the
    password, and without one everyone can see the console.
    """
    return (
        with_password(text, secrets.token_hex(VNC_PASSWORD // 2)) if is_locked_out(text) else text
    )


def _is_absent(conn: Any, uuid: str) -> bool:
    try:
        return power.find(conn, uuid=uuid) is None
    except (LibvirtProblem, libvirt.libvirtError):
        return False


def forget(conn: Any, records: Records, uuid: str, check_mode: bool) -> Forgotten:
    """Remove a stale definition: one of a domain that was started elsewhere while this host was
    dead.
    """
    answer: Forgotten = {"uuid": uuid, "status": "failed", "message": ""}
    try:
        with orders.alone(records, uuid, uuid, PATIENCE):
            answer["status"], answer["message"] = _forget_alone(conn, uuid, check_mode)
    except (LibvirtProblem, libvirt.libvirtError, OSError) as exc:
        answer["message"] = (
            binding.text_of(exc) if isinstance(exc, libvirt.libvirtError) else str(exc)
        )
    return answer


def _forget_alone(
    conn: Any, uuid: str, check_mode: bool
) -> tuple[Literal["forgotten", "absent", "running"], str]:
    """Return the status, and the words for the records that only libvirt has of the domain and that
    are lost with its definition.
    """
    domain = power.find(conn, uuid=uuid)
    if domain is None:
        return "absent", ""
    if domain.isActive():
        return "running", ""
    lost = _lost_with(domain)
    if not check_mode:
        if domain.autostart():
            domain.setAutostart(False)
        ownership.undefine(domain)
    return "forgotten", lost


def _lost_with(domain: Any) -> str:
    parts = []
    snapshots = (
        sorted(each.getName() for each in domain.listAllSnapshots(0))
        if domain.snapshotNum(0)
        else []
    )
    if snapshots:
        parts.append(
            f"libvirt's records of its snapshots ({', '.join(snapshots)}) go with it, and the"
            " snapshots stay in its disks: qemu-img snapshot -l DISK lists those inside an image"
        )
    if domain.hasManagedSaveImage(0):
        parts.append("the memory that libvirt had saved of it goes with it")
    return "; ".join(parts)

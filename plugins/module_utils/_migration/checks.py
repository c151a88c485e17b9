# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The conditions for a move of an instance; each reason is a sentence of its own.

Private to the collection. The order and the rules follow Nova's live-migration checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._bindings import reading
from .._bindings.reading import Binding
from .._domain.definition import boot_files, networks_of
from .._host import cpus
from .._host.capabilities import parse_capabilities
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.versions import dotted
from .._libvirt.xml import child_text, parse
from .._ownership.move_record import Move
from .._ownership.sameness import Sameness
from .state import DomainState


def is_live(move: Move, seen: DomainState) -> bool:
    """Return True if the move is live, as requested, or by the instance's state."""
    return seen["active"] if move.get("live") is None else bool(move["live"])


def state_reasons(domain: Any, move: Move, seen: DomainState) -> list[str]:
    """Return the reasons in the instance's own state."""
    name = seen["name"]
    if move.get("name") and move["name"] != name:
        return [f"the domain {move['uuid']} is named {name!r} here, not {move['name']!r}"]
    live = is_live(move, seen)
    reasons = []
    if live and seen["state"] not in ("running", "blocked", "paused"):
        reasons.append(
            f"it is {seen['state']}, and only a running or paused instance can be moved live: run"
            " drover.compute.discover if it went off just now, or ask for a cold move"
        )
    if not live and seen["active"] and not move.get("will_stop"):
        reasons.append(
            f"it is {seen['state']}, and a cold move wants it shut off: shut it down, or ask for a"
            " live move"
        )
    if not live and seen["active"] and not seen["persistent"]:
        reasons.append(
            "it is transient, so that libvirt forgets it once it is shut off: define it first"
            " (virsh define), or move it live"
        )
    if not seen["active"] and not live and domain.hasManagedSaveImage(0):
        reasons.append(
            "it has a managed save image, which cannot be moved: start it, or remove the image"
            " (virsh managedsave-remove)"
        )
    return reasons


def device_reasons(bindings: Sequence[Binding], live: bool) -> list[str]:
    """Return the reasons in the bindings of the instance to its host."""
    return [
        ": ".join(each for each in (found.words, found.way_out) if each)
        for found in reading.in_the_way(bindings, live)
    ]


def host_reasons(source: Any, destination: Any, move: Move) -> list[str]:
    """Return the reasons in the pair of hosts."""
    source_uuid = parse_capabilities(source.getCapabilities())["host_uuid"]
    destination_uuid = parse_capabilities(destination.getCapabilities())["host_uuid"]
    reasons = []
    # Cloned machines may share a uuid; libvirt itself refuses to migrate between them.
    if source_uuid is not None and source_uuid == destination_uuid:
        if source.getHostname() == destination.getHostname():
            reasons.append(f"the destination {move['destination']} is the host it is on")
        else:
            reasons.append(
                f"libvirt of {source.getHostname()} and of {destination.getHostname()} have the"
                f" same host uuid {source_uuid}: give each its own host_uuid in libvirtd.conf"
            )
    elif source.getHostname() == destination.getHostname():
        reasons.append(
            f"the destination {move['destination']} has the host name of the source,"
            f" {source.getHostname()}"
        )
    if source.getType() != destination.getType():
        reasons.append(
            f"the destination's hypervisor is {destination.getType()}, the source's"
            f" {source.getType()}"
        )
    else:
        for what, here, there in (
            ("hypervisor", source.getVersion(), destination.getVersion()),
            ("libvirt", source.getLibVersion(), destination.getLibVersion()),
        ):
            if here > there:
                reasons.append(
                    f"the destination's {what} is older ({dotted(there)}) than the source's"
                    f" ({dotted(here)}): upgrade the destination first"
                )
    return reasons


def cpu_reasons(source: Any, destination: Any, text: str) -> list[str]:
    """Return a reason if the destination's CPU cannot run the guest's; guests of plain QEMU bring
    their own.
    """
    try:
        wanted = cpus.wanted(source, parse(text))
        if wanted is None or cpus.runs(destination, wanted):
            return []
    except libvirt.libvirtError as exc:
        return [
            f"the destination cannot compare its CPU with the instance's: {binding.text_of(exc)}"
        ]
    return [
        "the destination's CPU lacks features that the instance uses: choose a host with the same"
        " or a newer CPU"
    ]


def memory_reasons(destination: Any, domain: Any, where: str) -> list[str]:
    """Return a reason if the destination has less free memory now than the guest takes at the
    source now, regardless of claims.

    Unknown numbers prove nothing: only a shortage that is seen counts.
    """
    try:
        taken = domain.memoryStats().get("rss")
        stats = destination.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS, 0)
    except libvirt.libvirtError:
        return []
    if not taken or "free" not in stats:
        return []
    # KiB; the host gives its cached memory up for a guest.
    free = sum(stats.get(name) or 0 for name in ("free", "buffers", "cached"))
    if taken <= free:
        return []
    return [
        f"{where} has {free >> 10} MiB of memory free now, and it takes {taken >> 10} MiB: free"
        " some there, or choose another host"
    ]


def boot_reasons(same: Sameness, text: str) -> list[str]:
    """Return the reasons in a guest's boot files, which are not moved: the destination must have
    them, with the same content.
    """
    reasons = []
    for path, is_firmware in boot_files(text):
        try:
            comparison = (
                same.content(path)
                if not is_firmware
                else "same"
                if same.exists(path)
                else "missing"
            )
        except LibvirtProblem as exc:
            reasons.append(
                f"whether {same.where} has the {path} that it is started from cannot be found out:"
                f" {exc}"
            )
            continue
        if comparison != "same":
            what = "does not exist" if comparison == "missing" else "is another one"
            reasons.append(
                f"{path}, which it is started from, {what} on {same.where}: copy it there"
            )
    return reasons


def _inactive(
    names: Iterable[str],
    kind: str,
    lookup: Callable[[str], Any],
    unknown: int,
    command: str,
    where: str,
) -> list[str]:
    """Return the reasons of inactive()."""
    return list(inactive(names, kind, lookup, unknown, command, where).values())


def inactive(
    names: Iterable[str],
    kind: str,
    lookup: Callable[[str], Any],
    unknown: int,
    command: str,
    where: str,
) -> dict[str, str]:
    """Return the reasons in the objects that must be running at the destination, by their names.

    :param lookup: finds one in the libvirt there; :param unknown: the code of its error where there
        is none.
    :param command: the command that starts one.
    """
    reasons = {}
    for name in names:
        try:
            if not lookup(name).isActive():
                reasons[name] = (
                    f"the {kind} {name} is not active on {where}: start it there ({command} {name})"
                )
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) == unknown:
                reasons[name] = f"the {kind} {name} does not exist on {where}: define it there"
            else:
                reasons[name] = (
                    f"libvirt of {where} does not tell about the {kind} {name}:"
                    f" {binding.text_of(exc)}"
                )
    return reasons


def network_reasons(destination: Any, text: str, where: str) -> list[str]:
    """Return the reasons in missing networks, bridges and devices of its interfaces at the
    destination.
    """
    needs = networks_of(text)
    return list(
        lacking_plugs(destination, needs["network"], needs["bridge"] + needs["dev"], where).values()
    )


def lacking_plugs(
    conn: Any, networks: Iterable[str], devices: Sequence[str], where: str
) -> dict[str, str]:
    """Return the reason why no interface can plug into networks, bridges or devices of a host, by
    "network NAME" or "bridge NAME".
    """
    inactive_networks = inactive(
        networks,
        "network",
        conn.networkLookupByName,
        libvirt.VIR_ERR_NO_NETWORK,
        "virsh net-start",
        where,
    )
    reasons = {f"network {name}": why for name, why in inactive_networks.items()}
    present = _host_devices(conn) if devices else set()
    if present:
        reasons.update(
            {
                f"bridge {name}": (
                    f"the bridge or device {name} does not exist on {where}: make it there"
                )
                for name in devices
                if name not in present
            }
        )
    return reasons


def _host_devices(conn: Any) -> set[str]:
    """Return the names of the host's network devices; empty if libvirt cannot list them (then the
    start of QEMU will show a missing one).
    """
    names: set[str] = set()
    try:
        names.update(interface.name() for interface in conn.listAllInterfaces(0))
    except libvirt.libvirtError:
        # If there is no interface driver, the node devices may lack bridges.
        return set()
    if not names:
        # Each host has an interface: this driver sees none, as the one of libvirt 7 without udev.
        return set()
    try:
        for device in conn.listAllDevices(libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET):
            name = child_text(parse(device.XMLDesc(0)), "capability/interface")
            if name:
                names.add(name)
    except libvirt.libvirtError:
        # The interface driver leaves out devices that are part of a bridge.
        return set()
    # If there is no udev, libvirt lists the loopback at most, which proves nothing about the rest.
    return names if names - {"lo"} else set()


def twin_reasons(destination: Any, move: Move, seen: DomainState, where: str) -> list[str]:
    """Return a reason if another domain at the destination has the same name."""
    reasons = []
    try:
        twin = destination.lookupByName(seen["name"])
        if twin.UUIDString() != move["uuid"]:
            reasons.append(
                f"another domain named {seen['name']!r} ({twin.UUIDString()}) exists on {where}:"
                " rename or remove it"
            )
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) != libvirt.VIR_ERR_NO_DOMAIN:
            raise
    return reasons

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that another host has the things that bind a guest: for a move through its libvirt, for
a start on the machine itself.

Private to the collection. This check sees only the open ports of libvirt's own guests on another
host. A start tries the port itself.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from .._files import access
from .._libvirt import binding as _libvirt
from .._libvirt import host_addresses
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import integer, parse
from .._ownership.folder import Folder
from .._ownership.sameness import Sameness
from .._storage.sources import is_here
from . import reading
from .reading import Binding

#: Kinds that only a running guest needs.
_OF_RUNNING = (reading.PORT, reading.CID, reading.PAGES)


class ExclusiveResources:
    """The ports, sockets and CIDs that the running guests of a host have and that only one guest
    can have.

    :param conn: libvirt of that host.
    :param but: the uuid of the domain that does not count.
    """

    def __init__(self, conn: Any, but: str) -> None:
        self._ports: dict[tuple[str, int], list[tuple[str, str]]] = {}
        self._others: dict[tuple[str, Any], str] = {}
        for domain in conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            try:
                if domain.UUIDString() != but:
                    self._add_numbers(domain.name(), domain.XMLDesc(0))
            except libvirt.libvirtError as exc:
                if _libvirt.code_of(exc) != libvirt.VIR_ERR_NO_DOMAIN:
                    raise

    def _add_numbers(self, name: str, text: str) -> None:
        for console in parse(text).findall("devices/graphics"):
            for key in ("port", "tlsPort", "websocket"):
                if integer(console.get(key), 0) > 0:
                    self._ports.setdefault((reading.TCP, integer(console.get(key), 0)), []).append(
                        (console.get("listen") or "", name)
                    )
        for binding in reading.read(text):
            if binding.kind == reading.PORT:
                address, number, protocol = binding.value
                self._ports.setdefault((protocol, number), []).append((address, name))
            elif binding.kind in (reading.UNIX, reading.CID):
                self._others[binding.kind, binding.value[0]] = name

    def user(self, binding: Binding) -> str | None:
        """Return the name of the guest that has the thing a binding needs; None if no guest has
        it.
        """
        if binding.kind == reading.PORT:
            address, number, protocol = binding.value
            return next(
                (
                    name
                    for other, name in self._ports.get((protocol, number), ())
                    if _overlap(address, other)
                ),
                None,
            )
        return self._others.get((binding.kind, binding.value[0])) if binding.value else None


def _overlap(one: str, other: str) -> bool:
    """Return True if one port on two addresses conflicts; a local address counts as all of them."""
    return one == other or is_here(one or "localhost") or is_here(other or "localhost")


def reasons(
    destination: Any,
    bindings: Sequence[Binding],
    same: Sameness,
    addresses: Collection[str],
    live: bool,
    but: str,
) -> list[str]:
    """Return the reasons in the things that a guest needs at a destination, before it moves there.

    :param addresses: the addresses of the destination; empty if they are not known.
    :param live: True if it moves while it runs.
    :param but: its uuid.
    """
    needs = [
        each
        for each in bindings
        if each.kind
        and (each.kind not in _OF_RUNNING or (live and each.only != reading.NEXT_START))
    ]
    taken = (
        ExclusiveResources(destination, but)
        if any(each.kind in (reading.PORT, reading.UNIX, reading.CID) for each in needs)
        else None
    )
    sentences = []
    for binding in needs:
        try:
            lack = _lack_there(destination, binding, same, addresses) or _of_taken(
                taken, binding, same.where
            )
        except LibvirtProblem as exc:
            lack = f"whether {same.where} has that cannot be found out ({exc})"
        if lack:
            sentences.append(f"{binding.words}, and {lack}: {binding.way_out}")
    return sentences


def _of_taken(taken: ExclusiveResources | None, binding: Binding, where: str) -> str | None:
    user = taken.user(binding) if taken is not None else None
    return f"{user} has that on {where}" if user else None


def _lack_there(
    destination: Any, binding: Binding, same: Sameness, addresses: Collection[str]
) -> str | None:
    """Return the things that a destination lacks, in words."""
    kind, value, where = binding.kind, binding.value, same.where
    if kind == reading.ADDRESS and addresses and value[0] not in addresses:
        return f"{where} does not have it"
    if kind in (reading.FOLDER, reading.UNIX):
        folder = value[0] if kind == reading.FOLDER else os.path.dirname(value[0])
        return (
            None
            if Folder(destination, folder).is_seen()
            else f"the folder {folder} does not exist on {where}"
        )
    if kind == reading.FILE and not same.exists(value[0]):
        return f"it does not exist on {where}"
    if kind == reading.SAME_FILE and not same.file(value[0]):
        return f"{where} does not see that file"
    return _lack_of_libvirt(destination, binding, where)


def _lack_of_libvirt(conn: Any, binding: Binding, where: str) -> str | None:
    try:
        if binding.kind == reading.FILTER:
            conn.nwfilterLookupByName(binding.value[0])
        if binding.kind == reading.PAGES:
            capabilities = parse(conn.getCapabilities())
            every = sorted(
                {integer(each.get("size"), 0) for each in capabilities.findall("host/cpu/pages")}
            )
            if not binding.value[0] and not every:
                # libvirt does not report it.
                return None
            # The smallest size is not a huge page.
            sizes = [binding.value[0]] if binding.value[0] else every[1:]
            free = (
                conn.getFreePages(
                    sizes, 0, len(capabilities.findall("host/topology/cells/cell")) or 1
                )
                if sizes
                else {}
            )
            if not any(count for cell in free.values() for count in cell.values()):
                return f"none is free on {where}"
    except libvirt.libvirtError as exc:
        if _libvirt.code_of(exc) == libvirt.VIR_ERR_NO_NWFILTER:
            return f"that does not exist on {where}"
        # A hypervisor without the driver of filters starts no guest that has one; other
        # connections, such as test:///, have none.
        if _libvirt.code_of(exc) != libvirt.VIR_ERR_NO_SUPPORT or (
            binding.kind == reading.FILTER and conn.getType() == "QEMU"
        ):
            return f"libvirt of {where} does not have it ({_libvirt.text_of(exc)})"
    return None


def reasons_here(conn: Any, bindings: Iterable[Binding], where: str, but: str) -> list[str]:
    """Return the reasons in the things that a guest needs on this machine, before it is started
    here.

    :param conn: libvirt of this host; :param where: its name; :param but: the uuid of the guest.
    """
    needs = [each for each in bindings if each.kind and each.kind != reading.DEVICE]
    taken = ExclusiveResources(conn, but) if needs else None
    sentences = []
    for binding in needs:
        lack = (
            _lack_here(binding, where)
            or _lack_of_libvirt(conn, binding, where)
            or _of_taken(taken, binding, where)
        )
        if lack:
            sentences.append(f"{binding.what}, and {lack}: {binding.way_out}")
    return sentences


def _lack_here(binding: Binding, where: str) -> str | None:
    kind, value = binding.kind, binding.value
    if kind == reading.ADDRESS and value[0] not in host_addresses.read():
        return f"{where} does not have it"
    if kind == reading.PORT:
        address, port, protocol = value
        return _port_here(address, port, protocol, where)
    path = os.path.dirname(value[0]) if kind == reading.UNIX else value[0]
    if kind in (reading.FOLDER, reading.UNIX, reading.FILE):
        try:
            return (
                None if access.call(os.path.exists, path) else f"{path} does not exist on {where}"
            )
        except access.Unresponsive as exc:
            return str(exc)
    return None


def _port_here(address: str, port: int, protocol: str, where: str) -> str | None:
    """Try a port of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(
            family, socket.SOCK_DGRAM if protocol == reading.UDP else socket.SOCK_STREAM
        ) as tried:
            if protocol != reading.UDP:
                # A connection of before does not count; of UDP two programs would share the port.
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((address, port))
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            return f"that is taken on {where}"
    return None

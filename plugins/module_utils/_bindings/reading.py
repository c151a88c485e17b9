# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bindings of a guest to its host, read from the XML of its domain.

Private to the collection. A domain has two definitions: of the running guest, and of its next
start. Each binds it. The table has the verdicts; this module finds the names of the things, and the
facts to look up at another host.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from .._domain.definition import parse_hostdev, parse_interface, source_of
from .._domain.facts import BindingFacts
from .._libvirt.xml import integer, parse, pci_address, size_bytes
from .._storage.sources import is_here, server_here
from . import table
from .table import HARMLESS, LIVE, LOOKED_UP, LOST, NEVER, OFF, STARTS, BindingVerdict, ElementTypes

#: Kinds of facts to look up at another host: an address that it has; a TCP or UDP port that is free
#: there; a folder or a file that is there; a socket with a folder that is there and without a guest
#: there that has it; a file that is the same one; a packet filter; a CID of vsock; free pages.
ADDRESS, PORT, FOLDER, FILE, SAME_FILE, UNIX, FILTER, CID, PAGES = (
    *("address", "port", "folder", "file", "same_file", "socket", "filter", "cid", "pages"),
)

TCP, UDP = "tcp", "udp"

#: The definitions of a guest that runs.
RUNNING, NEXT_START = "running", "next_start"

#: The kind of a device of the host: a claim can give one at the destination too, and the facts have
#: them as hostdevs.
DEVICE = "device"
#: The kind of a job, which ends.
JOB = "job"

#: Folders of sockets with names that libvirt chooses.
_OF_LIBVIRT = ("/var/lib/libvirt/qemu/", "/run/libvirt/qemu/", "/var/run/libvirt/qemu/")
#: Most ports of one range that are looked up.
_PORTS = 64

_TAGS = frozenset(
    {
        *table.HARMLESS_DEVICES,
        *(each.path.split("/")[1] for each in table.KINDS if each.path.startswith("devices/")),
    }
)
_WORDS = {
    "tpm": "TPM",
    "rng": "random number generator",
    "shmem": "shared memory",
    "redirdev": "redirected device",
    "memory": "memory device",
    "audio": "sound",
    "input": "input device",
    "vsock": "socket device",
}


class Binding(NamedTuple):
    """A thing that binds a guest to its host.

    move, evacuation: as in the table. what: a clause, such as "its disk vda is an NVMe device of
    the host". way_out: a remedy for a person. way_out: what a person can do. only: the definition
    that has it, where it is not both. kind, value: the fact to look up if move is LOOKED_UP.
    """

    move: str
    evacuation: str
    what: str
    way_out: str = ""
    only: str = ""
    kind: str = ""
    value: tuple[Any, ...] = ()

    @property
    def words(self) -> str:
        """The clause, with the definition that it is about."""
        return f"as it starts next time, {self.what}" if self.only == NEXT_START else self.what


def read(next_start: str, running: str | None = None, but: Collection[str] = ()) -> list[Binding]:
    """Return the bindings of a domain to its host, by both of its definitions; each binding once.

    :param next_start: the definition of the next start.
    :param running: the definition of the running guest; None for a guest that is off.
    :param but: PCI addresses, and uuids of mediated devices, that others take the place of at the
        destination.
    """
    later = dict.fromkeys(_read_bindings(parse(next_start), but))
    if running is None:
        return list(later)
    now = dict.fromkeys(_read_bindings(parse(running), but))
    return [each if each in later else each._replace(only=RUNNING) for each in now] + [
        each._replace(only=NEXT_START) for each in later if each not in now
    ]


def in_the_way(bindings: Sequence[Binding], live: bool) -> list[Binding]:
    """Return the bindings that keep a guest from moving.

    :param live: True if it would move while it runs.
    """
    return [each for each in bindings if each.move == NEVER or each.move == (OFF if live else LIVE)]


def as_facts(bindings: Sequence[Binding]) -> list[BindingFacts]:
    """Return the bindings as a fact of a domain: what can be judged far from its host."""
    return [
        {
            "what": each.words,
            "way_out": each.way_out,
            "move": each.move,
            "evacuation": each.evacuation,
            "only": each.only,
            "address": each.value[0] if each.kind == ADDRESS else None,
            "keep_running": each.kind == JOB,
        }
        for each in bindings
        if each.kind == ADDRESS or (each.move != LOOKED_UP and each.kind != DEVICE)
    ]


def _read_bindings(root: Element, but: Collection[str]) -> Iterator[Binding]:
    for device in root.findall("devices/*"):
        if isinstance(device.tag, str) and device.tag not in _TAGS:
            yield _binding_of(
                device,
                device,
                BindingVerdict(
                    NEVER,
                    LOST,
                    "is a device of a kind that drover.compute does not know",
                    table.BY_HAND,
                ),
            )
    yield from _host_devices(root, but)
    for kind in table.KINDS:
        for device, element in _elements(root, kind):
            yield from _of_kind(kind, device, element)
    for disk in root.findall("devices/disk"):
        server = server_here(disk)
        if server:
            what = (
                f"comes from a server of its host itself ({server}), which is another one, or none,"
                " at the destination"
            )
            yield _binding_of(
                disk,
                disk,
                BindingVerdict(
                    NEVER, LOST, what, "name the server by an address that all hosts reach"
                ),
            )
    for console in root.findall("devices/graphics"):
        yield from _console(console)
    for generator in root.findall("devices/rng"):
        yield from _random(generator)
    for forward in root.findall("devices/interface/portForward"):
        yield from _forwards(forward)
    yield from _bindings_by_path(root, "")
    yield from _arguments(root)
    yield from _numbers(root)
    yield from _jobs(root)


def _elements(root: Element, kind: ElementTypes) -> Iterator[tuple[Element, Element]]:
    """Yield the device and the element of each element of a kind. An element outside the devices
    stands for both.
    """
    parts = kind.path.split("/")
    if parts[0] != "devices":
        yield from ((each, each) for each in root.findall(kind.path))
        return
    rest = "/".join(parts[2:])
    for device in root.findall("/".join(parts[:2])):
        if (
            device.tag == "console"
            and device.find("target[@type='serial']") is not None
            and root.find("devices/serial") is not None
        ):
            # libvirt shows the first serial device as a console, too.
            continue
        yield from ((device, each) for each in (device.findall(f"./{rest}") if rest else [device]))


def _of_kind(kind: ElementTypes, device: Element, element: Element) -> Iterator[Binding]:
    value = element.get(kind.attribute) or kind.default
    if value is None:
        return
    verdict = kind.values.get(value) or table.unknown(value)
    if verdict is table.SOCKET:
        yield from _sockets(device, element, value)
    elif verdict.move not in (HARMLESS, LOOKED_UP):
        yield _binding_of(device, element, verdict)


def _binding_of(device: Element, element: Element, verdict: BindingVerdict) -> Binding:
    what = verdict.what.format(source=_source(element))
    if not what.startswith(("its ", "the ", "a ")):
        what = f"{_name_of_device(device)} {what}"
    return Binding(verdict.move, verdict.evacuation, what, verdict.way_out)


def _name_of_device(device: Element) -> str:
    """Return the name of a device in a sentence."""
    tag, target = str(device.tag), device.find("target")
    if tag == "interface":
        return f"its interface {parse_interface(device)['mac']}"
    name = (
        (target.get("dev") or target.get("name") or target.get("port"))
        if target is not None
        else None
    )
    name = name or device.get("name") or (device.get("type") if tag == "graphics" else None)
    return " ".join(each for each in ("its", _WORDS.get(tag, tag), name) if each)


def _source(element: Element) -> str:
    """Return the name in the source of a device."""
    if element.tag in ("disk", "backingStore", "mirror", "dataStore"):
        return (source_of(element) or "").partition(":")[2] or source_of(element) or "unknown"
    for place in (
        element.find("source"),
        element.find("device"),
        element.find("backend/source"),
        element.find("path"),
        element,
    ):
        if place is None:
            continue
        for key in ("path", "dev", "file", "dir", "evdev", "socket", "name", "display"):
            if place.get(key):
                return str(place.get(key))
        if place.get("host") or place.get("service"):
            return f"{place.get('host') or 'localhost'}:{place.get('service')}"
        for text in (place.findtext("path"), place.text):
            if text and text.strip():
                return text.strip()
    return "of a name that is not known"


def _host_devices(root: Element, but: Collection[str]) -> Iterator[Binding]:
    """Yield the devices of the host that a claim can give."""
    for device in root.findall("devices/hostdev"):
        device_facts = parse_hostdev(device)
        if device_facts["type"] not in ("pci", "mdev") or device_facts["address"] not in but:
            yield Binding(
                NEVER,
                LOST,
                f"the host's {device_facts['type']} device {device_facts['address']} is passed"
                " through to it",
                table.BY_HAND,
                kind=DEVICE,
            )
    for nic in root.findall("devices/interface"):
        address = nic.find("source/address")
        is_free = (
            nic.get("type") == "hostdev" and address is not None and pci_address(address) in but
        )
        if nic.get("type") in ("hostdev", "vdpa") and not is_free:
            what = (
                f"its interface {parse_interface(nic)['mac']} is a device of the host"
                f" ({nic.get('type')})"
            )
            yield Binding(NEVER, LOST, what, table.BY_HAND, kind=DEVICE)


# -- sockets, addresses and ports ----------------------------------------------------------------


def _looked_up(
    device: Element, kind: str, *value: Any, what: str = "", way_out: str = ""
) -> Binding:
    return Binding(
        LOOKED_UP, STARTS, f"{_name_of_device(device)} {what}", way_out, kind=kind, value=value
    )


def _sockets(device: Element, element: Element, kind: str) -> Iterator[Binding]:
    if device.tag == "interface":
        place = element.find(table.NET_LISTENS.get(kind, "source"))
        if place is not None and kind in table.NET_LISTENS:
            yield from _listens(
                device, place.get("address"), place.get("port"), UDP if kind == UDP else TCP
            )
        elif place is not None and is_here(place.get("address") or "localhost"):
            yield _binding_of(
                device,
                element,
                BindingVerdict(
                    NEVER, LOST, "goes to a program of its host by a local address", table.BY_HAND
                ),
            )
        return
    for source in element.findall("source"):
        if kind == "unix":
            yield from _unix(device, source)
        elif source.get("mode") == "bind":
            yield from _listens(
                device, source.get("host"), source.get("service"), UDP if kind == UDP else TCP
            )
        elif is_here(source.get("host") or "localhost"):
            yield _binding_of(
                device,
                element,
                BindingVerdict(
                    NEVER, LOST, "talks to a program of its host ({source})", table.BY_HAND
                ),
            )


def _unix(device: Element, source: Element) -> Iterator[Binding]:
    path = source.get("path")
    if not path or path.startswith(_OF_LIBVIRT):
        return
    if source.get("mode") == "bind":
        yield _looked_up(
            device, UNIX, path, what=f"has the socket {path}", way_out="make that folder there"
        )
    else:
        yield _binding_of(
            device,
            device,
            BindingVerdict(NEVER, LOST, "talks to a program of its host ({source})", table.BY_HAND),
        )


def _listens(
    device: Element, address: str | None, port: str | None, protocol: str = TCP
) -> Iterator[Binding]:
    """Yield the listening address and port of a device."""
    if address and not is_here(address):
        yield _looked_up(
            device,
            ADDRESS,
            address,
            what=f"listens on {address}, an address of its host",
            way_out="let it listen on 0.0.0.0, or by the name of a network",
        )
    number = integer(port, 0)
    if number > 0:
        word = "port" if protocol == TCP else "UDP port"
        yield _looked_up(
            device,
            PORT,
            address or "",
            number,
            protocol,
            what=f"has the fixed {word} {number}",
            way_out="give it another port, or autoport='yes'",
        )


def _console(console: Element) -> Iterator[Binding]:
    is_auto = console.get("autoport") == "yes"
    listens = console.findall("listen")
    addresses = [each.get("address") for each in listens if each.get("type") == "address"]
    if not listens:
        addresses = [console.get("listen")]
    for address in addresses:
        yield from _listens(console, address, None)
    for path in dict.fromkeys(
        [
            console.get("socket"),
            *(each.get("socket") for each in listens if each.get("type") == "socket"),
        ]
    ):
        if path and not path.startswith(_OF_LIBVIRT):
            yield _looked_up(
                console, UNIX, path, what=f"has the socket {path}", way_out="make that folder there"
            )
    if any(each.get("type") in ("socket", "none") for each in listens):
        return
    for key in ("port", "tlsPort", "websocket"):
        if not is_auto:
            yield from _listens(console, None, console.get(key))


def _random(generator: Element) -> Iterator[Binding]:
    backend = generator.find("backend")
    path = (backend.text or "").strip() if backend is not None else ""
    if (
        backend is not None
        and backend.get("model") == "random"
        and path
        and path not in table.RANDOM
    ):
        yield _binding_of(
            generator,
            generator,
            BindingVerdict(
                NEVER,
                LOST,
                f"is a device of its host ({path})",
                "let it have /dev/urandom, or move the instance by hand",
            ),
        )


def _forwards(forward: Element) -> Iterator[Binding]:
    address = forward.get("address")
    if address and not is_here(address):
        what = f"its forwarded ports are of {address}, an address of its host"
        yield Binding(
            LOOKED_UP,
            STARTS,
            what,
            "forward them from all addresses",
            kind=ADDRESS,
            value=(address,),
        )
    for ports in forward.findall("range"):
        if ports.get("exclude") == "yes":
            continue
        start = integer(ports.get("start"), 0)
        for number in range(start, min(integer(ports.get("end"), start), start + _PORTS - 1) + 1):
            if number > 0:
                what = f"the port {number} of its host is forwarded to it"
                yield Binding(
                    LOOKED_UP,
                    STARTS,
                    what,
                    "forward another port",
                    kind=PORT,
                    value=(address or "", number, forward.get("proto") or TCP),
                )


# -- names ---------------------------------------------------------------------------------------


def _bindings_by_path(
    element: Element, place: str, device: Element | None = None
) -> Iterator[Binding]:
    """Yield the bindings of the domain by a path, in an element or below."""
    for child in element:
        if not isinstance(child.tag, str):
            continue
        tag = child.tag.rpartition("}")[2]
        below = f"{place}/{tag}" if place else tag
        if below in ("metadata", "title", "description", "commandline", "name"):
            continue
        of = child if place == "devices" else device
        for key, value in [*child.attrib.items(), ("", (child.text or "").strip())]:
            if value.startswith("/"):
                yield from _path(f"{below}@{key}" if key else below, value, of)
            elif key and (below.endswith(("/backenddomain", "/filterref")) or key == "fdgroup"):
                yield from _word(f"{below}@{key}", value, of)
        yield from _bindings_by_path(child, below, of)


def _path(place: str, path: str, device: Element | None) -> Iterator[Binding]:
    row = table.name_of(place)
    subject = (
        _name_of_device(device)
        if device is not None
        else f"its {place.partition('/')[0].partition('@')[0]}"
    )
    if row is None:
        what = (
            f"{subject} names {path} of its host ({place}), and it is not known that another host"
            " has the same"
        )
        yield Binding(NEVER, LOST, what, table.BY_HAND)
    elif row.move == OFF:
        yield Binding(OFF, STARTS, f"{subject} has {row.why} ({path})", "shut it down")
    elif row.move == NEVER and row.why != table.BY_TYPE:
        if path not in table.SAME_EVERYWHERE.get(place, ()):
            yield Binding(NEVER, LOST, f"{subject} names {row.why} ({path})", table.BY_HAND)
    elif row.move == LOOKED_UP:
        yield from _path_there(place, path, subject)


def _path_there(place: str, path: str, subject: str) -> Iterator[Binding]:
    """Yield the bindings that no other check of a move looks up: disks, boot files and networks
    have separate checks.
    """
    if place.endswith(("/log@file", "@logFile")):
        folder = path.rpartition("/")[0] or "/"
        yield Binding(
            LOOKED_UP,
            STARTS,
            f"{subject} has a log in {folder}",
            "make that folder there",
            kind=FOLDER,
            value=(folder,),
        )
    elif place == "devices/lease/target@path":
        yield Binding(
            LOOKED_UP,
            LOST,
            f"{subject} is in {path}",
            "move the lease to shared storage",
            kind=SAME_FILE,
            value=(path,),
        )
    elif place.endswith(
        ("/rom@file", "script@path", "/source/config@file", "/knownHosts@path", "/identity@keyfile")
    ):
        yield Binding(
            LOOKED_UP, STARTS, f"{subject} names {path}", "copy it there", kind=FILE, value=(path,)
        )


def _word(place: str, value: str, device: Element | None) -> Iterator[Binding]:
    """Yield the bindings of the domain by a name that is not a path."""
    subject = _name_of_device(device) if device is not None else ""
    if place.endswith("filterref@filter"):
        way_out = f"define it there (virsh nwfilter-define {shlex.quote(value)})"
        yield Binding(
            LOOKED_UP,
            STARTS,
            f"{subject} has the packet filter {value}",
            way_out,
            kind=FILTER,
            value=(value,),
        )
        return
    row = table.name_of(place)
    if row is not None and row.move == NEVER and row.why != table.BY_TYPE:
        yield Binding(NEVER, LOST, f"{subject} names {row.why} ({value})", table.BY_HAND)


def _arguments(root: Element) -> Iterator[Binding]:
    """Yield arguments for QEMU itself: libvirt does not look into them, and they may name
    anything.
    """
    values = [
        each.get("value") or ""
        for each in root.iter()
        if isinstance(each.tag, str) and each.tag.endswith("}arg")
    ]
    values += [
        f"{each.get('name')}={each.get('value')}"
        for each in root.iter()
        if isinstance(each.tag, str) and each.tag.endswith("}env")
    ]
    option = ""
    for value in values:
        if value.startswith("-"):
            option = value
        if option not in table.HARMLESS_ARGUMENTS or "/" in value:
            what = (
                f"it has an argument for QEMU itself ({value[:60]}), which may name something of"
                " its host"
            )
            yield Binding(
                NEVER,
                LOST,
                what,
                "take it out of the definition (qemu:commandline), or move the instance by hand",
            )


def _numbers(root: Element) -> Iterator[Binding]:
    for device in root.findall("devices/vsock"):
        cid = device.find("cid")
        if cid is not None and cid.get("auto") != "yes" and integer(cid.get("address"), 0) > 2:
            number = integer(cid.get("address"), 0)
            yield _looked_up(
                device,
                CID,
                number,
                what=f"has the fixed CID {number}",
                way_out="give it another one, or auto='yes'",
            )
    for page in root.findall("memoryBacking/hugepages/page"):
        size = size_bytes(_size_of_page(page)) >> 10
        if size:
            yield Binding(
                LOOKED_UP,
                STARTS,
                f"its memory is in pages of {size} KiB",
                "reserve such pages there",
                kind=PAGES,
                value=(size,),
            )
    pages = root.find("memoryBacking/hugepages")
    if pages is not None and pages.find("page") is None:
        # The size is the usual one of its host.
        yield Binding(
            LOOKED_UP,
            STARTS,
            "its memory is in huge pages",
            "reserve such pages there",
            kind=PAGES,
            value=(None,),
        )
    for device in root.findall("devices/memory"):
        size = size_bytes(device.find("source/pagesize")) >> 10
        if size:
            yield _looked_up(
                device,
                PAGES,
                size,
                what=f"is in pages of {size} KiB",
                way_out="reserve such pages there",
            )


def _jobs(root: Element) -> Iterator[Binding]:
    """Yield the jobs of libvirt that copy or commit a disk; a running guest alone has any."""
    for disk in root.findall("devices/disk"):
        target = disk.find("target")
        if disk.find("mirror") is not None and target is not None:
            way_out = (
                "wait for the end of the job (run drover.compute.instance_disk_move again, if that"
                " has begun it), or end it with virsh blockjob"
            )
            what = (
                f"a block job works on its disk {target.get('dev')}, with which libvirt migrates"
                " nothing"
            )
            yield Binding(NEVER, STARTS, what, way_out, kind=JOB)


def _size_of_page(page: Element) -> Element:
    found = Element("size", {"unit": page.get("unit", "KiB")})
    found.text = page.get("size")
    return found

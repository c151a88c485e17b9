# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of the things that can bind a guest to its host: each type of device, and each name in
the XML of a domain.

Private to the collection. Sources: https://libvirt.org/formatdomain.html and the schema that
libvirt installs (domaincommon.rng); tests/unit/module_utils/bindings/test_table.py compares the
table with the schema.

A thing that the table calls harmless is harmless. All else binds the guest, also the additions of a
later libvirt.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from .._storage import kinds

#: The treatment of a thing by a move: it goes along or exists everywhere; a check at the
#: destination finds it; the guest moves only while it is off; only while it runs; not at all.
HARMLESS, LOOKED_UP, OFF, LIVE, NEVER = "harmless", "looked_up", "off", "live", "never"
#: The treatment of a thing by an evacuation: another host starts the guest, with a check there
#: before; the guest is lost with its host.
STARTS, LOST = "starts", "lost"


class BindingVerdict(NamedTuple):
    """A row of the table.

    move, evacuation: as above. what: the words after the name of the device, as in "its disk vda
    ...". way_out: what a person can do.
    """

    move: str
    evacuation: str
    what: str = ""
    way_out: str = ""


class ElementTypes(NamedTuple):
    """The types of one element.

    path: of the element, below domain. attribute: the name of the attribute with the type; empty if
    the element alone determines it. default: the type if the attribute is missing; None if such an
    element has no meaning. values: the verdict on each type; all other types bind the guest.
    """

    path: str
    attribute: str
    default: str | None
    values: dict[str, BindingVerdict]


GOES = BindingVerdict(HARMLESS, STARTS)
CHECKED = BindingVerdict(LOOKED_UP, STARTS)
#: A socket: its source says who listens, see reading.py.
SOCKET = BindingVerdict(LOOKED_UP, STARTS)
#: Devices of the host that a claim can give at the destination too; the facts have them as
#: hostdevs.
CLAIMED = BindingVerdict(LOOKED_UP, STARTS)

#: The usual remedy for a person.
BY_HAND = "take it away or move the instance by hand"
#: Why of a name about which the type of its element says all.
BY_TYPE = "by its type"


def _never(what: str, way_out: str = BY_HAND) -> BindingVerdict:
    return BindingVerdict(NEVER, LOST, what, way_out)


def unknown(value: str) -> BindingVerdict:
    """Return the verdict on a type that the table does not have."""
    return _never(
        f"is of the type {value or 'none'}, of which it is not known that another host has the same"
    )


#: Types of the other end of a character device.
CHARACTER = {
    **dict.fromkeys(
        ("pty", "null", "vc", "stdio", "spicevmc", "spiceport", "qemu-vdagent", "dbus"), GOES
    ),
    **dict.fromkeys(("tcp", "udp", "unix"), SOCKET),
    "dev": _never("is a device of the host ({source})"),
    "file": _never(
        "writes into a file of the host ({source}), and what is in it does not go along",
        "give it the type pty with a <log file=...>, whose name has the uuid of the domain, or move"
        " the instance by hand",
    ),
    "pipe": _never("is a pipe of the host ({source})"),
    "nmdm": _never("is a null modem of the host ({source})"),
}
_CHARACTER_DEVICES = ("serial", "parallel", "console", "channel", "redirdev", "smartcard")

_LAYER = {each.name: _never(each.binds) if each.stays else CHECKED for each in kinds.DISKS}

#: Device elements with known types only; the elements of the tables below are not here.
HARMLESS_DEVICES = (
    *(
        "emulator",
        "controller",
        "watchdog",
        "memballoon",
        "panic",
        "iommu",
        "hub",
        "sound",
        "redirfilter",
        "nvram",
        "vsock",
        "video",
    ),
    *("tpm", "rng", "graphics", "crypto"),
)

KINDS = (
    ElementTypes("devices/disk", "type", "file", _LAYER),
    ElementTypes("devices/disk//backingStore", "type", None, _LAYER),
    ElementTypes("devices/disk//mirror", "type", None, _LAYER),
    ElementTypes("devices/disk//dataStore", "type", None, _LAYER),
    ElementTypes("os/nvram", "type", None, _LAYER),
    ElementTypes(
        "devices/disk//reservations",
        "managed",
        None,
        {
            "yes": GOES,
            "no": _never(
                "uses a helper of the host for persistent reservations",
                "let libvirt start the helper (managed='yes')",
            ),
        },
    ),
    *(
        ElementTypes(f"devices/{each}", "type", None if each == "smartcard" else "pty", CHARACTER)
        for each in _CHARACTER_DEVICES
        if each != "redirdev"
    ),
    ElementTypes(
        "devices/redirdev",
        "type",
        "spicevmc",
        {
            **CHARACTER,
            "tcp": _never("redirects a USB device by TCP ({source})"),
            "unix": _never("redirects a USB device by the socket {source}"),
        },
    ),
    ElementTypes(
        "devices/smartcard",
        "mode",
        None,
        {
            "passthrough": GOES,
            "host": _never("is the smartcard of the host"),
            "host-certificates": _never("is made of certificates of the host"),
        },
    ),
    ElementTypes(
        "devices/filesystem",
        "type",
        "mount",
        {
            each: _never("a folder of the host is shared with it ({source})")
            for each in ("mount", "template", "file", "block", "ram", "bind", "volume")
        },
    ),
    ElementTypes(
        "devices/memory",
        "model",
        None,
        {
            "dimm": GOES,
            "virtio-mem": GOES,
            "nvdimm": _never("keeps its content in a file of the host ({source})"),
            "virtio-pmem": _never("keeps its content in a file of the host ({source})"),
            "sgx-epc": _never("is memory of the processor of the host (SGX)"),
        },
    ),
    ElementTypes(
        "devices/interface",
        "type",
        None,
        {
            **dict.fromkeys(("network", "bridge", "direct"), CHECKED),
            **dict.fromkeys(("user", "ethernet", "mcast", "null"), GOES),
            **dict.fromkeys(("server", "client", "udp"), SOCKET),
            **dict.fromkeys(("hostdev", "vdpa"), CLAIMED),
            "vhostuser": _never("goes to a program of the host by the socket {source} (vhostuser)"),
            "internal": _never("is in a network of this host alone (internal)"),
            "vds": _never("is in a distributed switch of its host (vds)"),
        },
    ),
    ElementTypes(
        "devices/interface/target",
        "managed",
        None,
        {
            "yes": GOES,
            "no": _never(
                "has a network device that a person made on the host (managed='no')",
                "let libvirt make the device",
            ),
        },
    ),
    ElementTypes("devices/interface/backend", "type", None, {"default": GOES, "passt": GOES}),
    ElementTypes(
        "devices/hostdev", "mode", "subsystem", {"subsystem": CLAIMED, "capabilities": CLAIMED}
    ),
    ElementTypes(
        "devices/hostdev",
        "type",
        None,
        dict.fromkeys(
            ("pci", "mdev", "usb", "scsi", "scsi_host", "storage", "misc", "net"), CLAIMED
        ),
    ),
    ElementTypes(
        "devices/input",
        "type",
        None,
        {
            **dict.fromkeys(("mouse", "tablet", "keyboard"), GOES),
            "evdev": _never("is an input device of the host ({source})"),
            "passthrough": _never("is an input device of the host ({source})"),
        },
    ),
    ElementTypes(
        "devices/tpm/backend",
        "type",
        None,
        {
            "passthrough": _never("the host's TPM is passed through to it"),
            "external": _never("is a TPM that a program of the host emulates ({source})"),
            "emulator": BindingVerdict(
                LIVE,
                LOST,
                "its emulated TPM keeps its state in a folder of this host, which a cold move does"
                " not take along",
                "move it live",
            ),
        },
    ),
    ElementTypes(
        "devices/rng/backend",
        "model",
        None,
        {
            "random": GOES,
            "builtin": GOES,
            "egd": _never("gets random numbers from a program by a socket ({source})"),
        },
    ),
    ElementTypes(
        "devices/graphics",
        "type",
        None,
        {
            **dict.fromkeys(("vnc", "spice", "rdp", "dbus"), CHECKED),
            "egl-headless": BindingVerdict(
                OFF, STARTS, "draws with the graphics card of the host", "shut it down"
            ),
            "sdl": _never("is shown on the screen of the host ({source})"),
            "desktop": _never("is shown on the screen of the host"),
        },
    ),
    ElementTypes(
        "devices/graphics/listen",
        "type",
        None,
        dict.fromkeys(("address", "network", "socket", "none"), CHECKED),
    ),
    ElementTypes(
        "devices/video/model/acceleration",
        "accel3d",
        "no",
        {
            "no": GOES,
            "yes": BindingVerdict(
                OFF, STARTS, "draws with the graphics card of the host (accel3d)", "shut it down"
            ),
        },
    ),
    ElementTypes(
        "devices/video/driver",
        "name",
        "qemu",
        {
            "qemu": GOES,
            "vhostuser": BindingVerdict(
                OFF, STARTS, "is drawn by a program of the host (vhostuser)", "shut it down"
            ),
        },
    ),
    ElementTypes(
        "devices/audio",
        "type",
        None,
        {
            **dict.fromkeys(("none", "spice", "dbus"), GOES),
            **{
                each: _never(
                    f"plays on the host ({each})",
                    "give it the type none or spice, or move the instance by hand",
                )
                for each in (
                    "alsa",
                    "coreaudio",
                    "jack",
                    "oss",
                    "pipewire",
                    "pulseaudio",
                    "sdl",
                    "file",
                )
            },
        },
    ),
    ElementTypes("devices/crypto/backend", "model", None, {"builtin": GOES, "lkcf": GOES}),
    ElementTypes(
        "devices/pstore",
        "backend",
        "",
        {"acpi-erst": _never("keeps its content in a file of the host ({source})")},
    ),
    ElementTypes(
        "devices/shmem",
        "",
        "",
        {"": _never("is memory that it shares with other guests or programs of its host")},
    ),
    ElementTypes("devices/lease", "", "", {"": CHECKED}),
    ElementTypes(
        "launchSecurity",
        "type",
        "",
        {
            each: _never(
                f"its memory is encrypted with a key of the processor of its host ({each})",
                "move the instance by hand",
            )
            for each in ("sev", "sev-snp", "tdx", "s390-pv", "cca")
        },
    ),
)

#: The place of the address of an interface's socket, by the type of the interface.
NET_LISTENS = {"server": "source", "udp": "source/local"}

#: Random devices that each Linux has.
RANDOM = ("/dev/random", "/dev/urandom")

#: Arguments for QEMU itself with a value that names no object of a host.
HARMLESS_ARGUMENTS = (
    "-cpu",
    "-machine",
    "-global",
    "-set",
    "-smbios",
    "-rtc",
    "-boot",
    "-overcommit",
    "-msg",
    "-name",
    "-no-hpet",
    "-no-acpi",
)


class Name(NamedTuple):
    """Names in the XML. place: a pattern of their places, such as ``devices/*/source@file``, where
    ``*`` is one step and ``**`` any.
    """

    place: str
    move: str
    why: str


def _names_at(move: str, why: str, *places: str) -> tuple[Name, ...]:
    return tuple(Name(place, move, why) for place in places)


#: Places that the schema of libvirt 9.0 does not have: places of a later libvirt, and places that
#: only a running guest shows.
NEWER = (
    *(
        "devices/pstore**",
        "**/dataStore/**",
        "**/knownHosts@path",
        "**/identity@keyfile",
        "**/identity@agentsock",
    ),
    *(
        "os/shim",
        "os/varstore@*",
        "devices/disk/mirror@file",
        "devices/disk/mirror/**",
        "throttlegroups**",
    ),
    *("devices/graphics@username", "devices/sound@streams", "devices/interface/driver@model"),
)

#: The verdict on each text of the schema that can name something of the host; the first row whose
#: pattern fits counts.
NAMES = (
    # Before the patterns that would take them too.
    *_names_at(LOOKED_UP, "leases of a lock manager", "devices/lease/**"),
    *_names_at(
        OFF,
        "a graphics card of the host",
        "devices/graphics/gl@rendernode",
        "devices/video/**@rendernode",
    ),
    *_names_at(LOOKED_UP, "boot files", "sysinfo/entry@file"),
    *_names_at(NEVER, "a descriptor that a program has opened", "**/source@fdgroup"),
    # Words for people and names of the guest itself.
    *_names_at(
        HARMLESS,
        "words",
        "name",
        "uuid",
        "title",
        "description",
        "metadata**",
        "genid",
        "sysinfo/**",
        "datacenterpath",
    ),
    *_names_at(
        HARMLESS,
        "where the guest sees a device",
        "**/address@*",
        "**/zpci@*",
        "**/target@*",
        "**/alias@name",
        "**/boot@*",
        "**/master@*",
    ),
    *_names_at(
        HARMLESS,
        "a unit or a number",
        "**@unit",
        "**@units",
        "devices/memory/uuid",
        "throttlegroups**",
    ),
    *_names_at(
        HARMLESS,
        "a property of the guest's hardware",
        *(
            "clock@*",
            "cpu/**",
            "features/**",
            "capabilities/**",
            "os/type@machine",
            "os/cmdline",
            "override/**",
        ),
        *(
            "devices/interface/mac@*",
            "devices/interface/model@type",
            "devices/interface/guest@*",
            "**/teaming@persistent",
        ),
        *(
            "devices/interface/ip@*",
            "devices/interface/route@*",
            "devices/redirfilter/usbdev@*",
            "devices/iommu/driver@*",
        ),
        *(
            "devices/sound/audio@id",
            "devices/graphics/audio@id",
            "devices/audio@id",
            "devices/graphics@keymap",
            "devices/graphics@passwd*",
        ),
        *("devices/graphics@username", "devices/sound@streams"),
        *("devices/hostdev/ip@*", "devices/hostdev/route@*"),
    ),
    *_names_at(
        HARMLESS,
        "libvirt makes a label or a control group of that name",
        "**/seclabel**",
        "resource/fibrechannel@appid",
    ),
    *_names_at(
        HARMLESS,
        "CPUs and cells, which the claim decides",
        "cputune/**",
        "numatune/**",
        "memoryBacking/**",
        "devices/memory/source/nodemask",
        "vcpu**",
    ),
    *_names_at(
        HARMLESS,
        "an image has the same parts everywhere",
        "**/encryption/**/cipher@*",
        "**/encryption/**/ivgen@*",
    ),
    # Places that a check at the destination looks up.
    *_names_at(LOOKED_UP, "secrets", "**/secret@*", "**/encryption@secret"),
    *_names_at(
        LOOKED_UP,
        "disks",
        *(
            "devices/disk/source@*",
            "devices/disk/source/**",
            "devices/disk/**/backingStore/**",
            "devices/disk/mirror/**",
            "devices/disk/mirror@file",
        ),
        *("**/dataStore/**", "os/nvram/source**", "os/nvram"),
    ),
    *_names_at(
        LOOKED_UP,
        "boot files",
        "os/loader",
        "os/kernel",
        "os/initrd",
        "os/dtb",
        "os/shim",
        "os/acpi/table",
        "os/nvram@template",
        "os/varstore@*",
    ),
    *_names_at(
        LOOKED_UP,
        "networks and bridges",
        "devices/interface/source@*",
        "devices/interface/virtualport/**",
        "devices/interface/source/**",
    ),
    *_names_at(LOOKED_UP, "packet filters", "devices/interface/filterref**"),
    *_names_at(
        LOOKED_UP,
        "files that have to exist",
        "devices/interface/script@path",
        "devices/interface/downscript@path",
        "**/rom@file",
    ),
    *_names_at(
        LOOKED_UP,
        "files that have to exist",
        "**/knownHosts@path",
        "**/identity@keyfile",
        "**/identity@agentsock",
    ),
    *_names_at(LOOKED_UP, "the emulator", "devices/emulator"),
    *_names_at(
        LOOKED_UP,
        "addresses, ports and sockets",
        *(
            "devices/graphics@listen",
            "devices/graphics@socket",
            "devices/graphics/listen@*",
            "devices/interface/portForward**",
        ),
    ),
    *_names_at(LOOKED_UP, "logs", "**/log@file", "devices/interface/backend@logFile"),
    *_names_at(
        LOOKED_UP,
        "the other end of a character device, by its type",
        *(f"devices/{each}/source@*" for each in _CHARACTER_DEVICES),
    ),
    *_names_at(LOOKED_UP, "where random numbers come from, by its type", "devices/rng/backend**"),
    *_names_at(HARMLESS, "the other end that libvirt chose", "devices/*@tty"),
    # Places with the verdict of the type of the element.
    *_names_at(
        NEVER,
        BY_TYPE,
        *(
            "devices/filesystem/**",
            "devices/hostdev/**",
            "devices/input/source@*",
            "devices/tpm/**",
            "devices/memory/source/path",
            "devices/shmem**",
        ),
        *(
            "devices/smartcard/**",
            "devices/audio**",
            "launchSecurity/**",
            "devices/graphics@display",
            "devices/graphics@xauth",
            "devices/pstore**",
        ),
        # A driver of the kernel for a device of the host, such as mlx5_vfio_pci.
        *("devices/graphics@address", "devices/interface/driver@model"),
    ),
    # Places that no check looks up.
    *_names_at(NEVER, "a device of the host whose use is limited", "blkiotune/device/path"),
    *_names_at(
        NEVER,
        "a device for network packets",
        "devices/interface/backend@tap",
        "devices/interface/backend@vhost",
    ),
    *_names_at(NEVER, "a driver domain", "devices/interface/backenddomain@name"),
    *_names_at(NEVER, "a control group of the host", "resource/partition"),
    *_names_at(NEVER, "arguments for the emulator", "commandline**"),
    *_names_at(
        NEVER,
        "what other hypervisors start a guest from",
        "bootloader**",
        "os/init**",
        "os/root",
        "namespace/**",
    ),
)

#: Values of names that are NEVER, and are the same on each host.
SAME_EVERYWHERE = {
    "devices/interface/backend@tap": ("/dev/net/tun",),
    "devices/interface/backend@vhost": ("/dev/vhost-net",),
    "resource/partition": ("/machine", "/machine.slice"),
}


@functools.lru_cache(maxsize=4096)
def name_of(place: str) -> Name | None:
    """Return the row of a place, such as ``devices/disk/source@file``; None if the table has
    none.
    """
    return next((each for each in NAMES if _pattern(each.place).fullmatch(place)), None)


@functools.lru_cache(maxsize=1024)
def _pattern(place: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/?|\*)", place)
    found = {"**/": r"(?:[^@]*/)?", "**": r".*", "*": r"[^/@]*"}
    return re.compile("".join(found.get(part, re.escape(part)) for part in parts))

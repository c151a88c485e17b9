# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between the domains of drover and of virt-install that are on purpose, each with
its reason. docs/hardware.md shows them."""

from __future__ import annotations

import fnmatch
import typing

#: The compared versions, as docs/hardware.md names them.
VIRT_INSTALL, LIBVIRT, QEMU = "4.1.0", "9.0", "7.2"


class Difference(typing.NamedTuple):
    """A difference of two domains.

    path: of an element, or of an attribute with @. ours, theirs: the value of drover and of
    virt-install, the element if only one of them has it; None for nothing.
    """

    path: str
    ours: str | None
    theirs: str | None


class Purpose(typing.NamedTuple):
    """Differences that are on purpose. An asterisk in a value stands for any text."""

    path: str
    ours: str | None
    theirs: str | None
    reason: str

    def covers(self, found: Difference) -> bool:
        return self.path == found.path and all(
            (pattern is None and value is None)
            or (pattern is not None and value is not None and fnmatch.fnmatchcase(value, pattern))
            for pattern, value in ((self.ours, found.ours), (self.theirs, found.theirs))
        )


PURPOSES = [
    Purpose(
        "metadata/instance",
        "<instance*",
        None,
        "drover keeps the project, the flavor and the labels of an instance there.",
    ),
    Purpose(
        "metadata/libosinfo",
        None,
        "<libosinfo>*",
        "drover takes no values from a table of operating systems, so it has no name of one.",
    ),
    Purpose(
        "features/apic",
        None,
        "<apic/>",
        "QEMU gives each PC an APIC, and this element changes nothing in its command line.",
    ),
    Purpose(
        "features/smm",
        '<smm state="on"/>',
        None,
        "Secure Boot needs it, so it does not depend on what libvirt adds at the start.",
    ),
    Purpose(
        "os/firmware",
        '<firmware><feature enabled="no" name="secure-boot"/></firmware>',
        None,
        "`uefi` is without Secure Boot on each host; without the element the files of the host"
        " decide.",
    ),
    Purpose(
        "devices/tpm",
        None,
        '<tpm model="tpm-crb">*',
        "An instance with an emulated TPM has no cold move and no evacuation, so only `tpm` adds"
        " one.",
    ),
    Purpose("devices/tpm/@model", "tpm-tis", "tpm-crb", "It is Nova's default."),
    Purpose(
        "devices/channel",
        None,
        '<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>',
        "As in Nova, only `guest_agent` adds it.",
    ),
    Purpose(
        "devices/controller[virtio-serial]",
        None,
        '<controller type="virtio-serial"/>',
        "It comes with the channel of the guest agent.",
    ),
    Purpose(
        "devices/controller[usb]/@ports",
        None,
        "15",
        "Only tablets, keyboards and disks are on USB, and libvirt adds a hub for more than four.",
    ),
    Purpose(
        "devices/controller[usb]/@model",
        "piix3-uhci",
        "qemu-xhci",
        "Old operating systems, which need the machine type `pc`, have no driver for USB 3.",
    ),
    Purpose(
        "devices/disk/driver/@cache",
        "none",
        None,
        "A live migration on shared storage needs it.",
    ),
    Purpose(
        "devices/disk/driver/@discard",
        "unmap",
        None,
        "Discarded blocks are given back on network storage too, not only in files.",
    ),
    Purpose(
        "devices/disk/alias",
        '<alias name="ua-drover-attached-source-*"/>',
        None,
        "It marks a disk that drover did not make, and never removes.",
    ),
    Purpose(
        "devices/graphics/listen/@address",
        "127.0.0.1",
        None,
        "The definition decides who reaches the console, not a setting of the host.",
    ),
    Purpose(
        "devices/graphics/image",
        None,
        '<image compression="off"/>',
        "Images without compression suit a viewer on the host itself only.",
    ),
    Purpose(
        "devices/redirdev",
        None,
        '<redirdev bus="usb" type="spicevmc"/>',
        "No viewer plugs its USB devices into a server.",
    ),
    Purpose("devices/sound", None, '<sound model="ich9"/>', "A server plays no sound."),
    Purpose(
        "devices/rng",
        '<rng model="virtio"><backend model="random">/dev/urandom</backend></rng>',
        None,
        "As in Nova, each guest has one; virt-install leaves it out for Windows.",
    ),
    Purpose(
        "devices/video/model/@type",
        "virtio",
        "vga",
        "As for all other guests. It is a VGA card too until Windows has its driver.",
    ),
    Purpose("devices/video/model/@vram", None, "16384", "Only the model `vga` has it."),
]

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The change of devices of a domain, in the running domain and in its definition.

Private to the collection. A new device is added to the definition first, and a removed device is
dropped from it last. So the definition has every disk that the running guest writes to; other hosts
and later runs read the definition. One call of libvirt for both forms has the wrong order: it drops
a disk from the definition before the guest has released it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Optional
from xml.etree.ElementTree import Element

from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, LibvirtSilent, host_name, libvirt
from .._libvirt.xml import parse
from .device_xml import Forms, text_of

#: The seconds between two looks at a domain.
POLL = 0.25

#: A guest that is booting ignores the request to release a device. This is the time in
#: seconds between two requests.
ASK_AGAIN = 10

#: A function that finds a device in one form of a domain.
Find = Callable[[Element], Optional[Element]]


class NotReleased(LibvirtProblem):
    """The error for a guest that has not released a device in time. The guest may still release it
    later.
    """


def forms_of(domain: Any) -> Forms:
    """Return the XML of the running domain (None if it is off), and its definition.

    :raises libvirt.libvirtError: the domain cannot be read.
    """
    live = parse(domain.XMLDesc(0)) if domain.isActive() else None
    return live, parse(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))


def attach(conn: Any, domain: Any, element: Element, find: Find, live: bool, config: bool) -> None:
    """Attach a device. If the running guest does not get it, restore the definition.

    :param find: a function that finds the device.
    :param live, config: True for each form of the domain without the device.
    :raises libvirt.libvirtError: the device is not attached, or its state is unknown.
    """
    text = text_of(element)
    before = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    if config:
        domain.attachDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    if live:
        try:
            domain.attachDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        except LibvirtSilent:
            raise
        except libvirt.libvirtError:
            shown = forms_of(domain)[0]
            if config and (shown is None or find(shown) is None):
                # Do not detach the device: libvirt may also have added a controller for it.
                conn.defineXML(before)
            raise


def detach(domain: Any, find: Find, timeout: float) -> None:
    """Detach a device from the running guest, and from the definition after the guest has released
    it.

    :param find: a function that finds the device.
    :param timeout: seconds for the guest to release the device.
    :raises NotReleased: the guest and the definition still have the device.
    """
    if domain.isActive():
        _unplug(domain, find, timeout)
    dummy, config = forms_of(domain)
    found = find(config)
    if found is not None:
        domain.detachDeviceFlags(text_of(found), libvirt.VIR_DOMAIN_AFFECT_CONFIG)


def _unplug(domain: Any, find: Find, timeout: float) -> None:
    deadline, again, refusal = time.monotonic() + timeout, 0.0, ""
    while True:
        live, dummy = forms_of(domain)
        device = find(live) if live is not None else None
        if device is None:
            return
        now = time.monotonic()
        if now >= again:
            again = now + ASK_AGAIN
            refusal = _ask_for(domain, text_of(device)) or refusal
            continue
        if now >= deadline:
            raise NotReleased(
                f"{domain.name()} on {host_name()} did not release the device within {timeout:g}"
                f" s{refusal}. It still has it and may release it later, so it is not detached. Run"
                " this again. A guest that is booting, or that has the device in use or no driver"
                " for hot unplug, does not release it: shut the guest off, then run this again."
            )
        time.sleep(POLL)


def _ask_for(domain: Any, text: str) -> str:
    """Request a device from the guest. Return libvirt's error if it may come from an earlier
    request, else "".
    """
    try:
        domain.detachDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    except LibvirtSilent:
        raise
    except libvirt.libvirtError as exc:
        # The device disappeared just now.
        if binding.code_of(exc) == libvirt.VIR_ERR_DEVICE_MISSING or not domain.isActive():
            return ""
        # QEMU has no code for a device that was already requested from the guest, and the domain of
        # QEMU's errors differs from that of libvirt's checks.
        if binding.code_of(exc) not in (
            libvirt.VIR_ERR_INTERNAL_ERROR,
            libvirt.VIR_ERR_OPERATION_FAILED,
        ):
            raise
        return f" ({binding.text_of(exc)})"
    return ""


#: The present drive, the wanted drive, and the form of the domain that it is in
#: (VIR_DOMAIN_AFFECT_*).
Medium = tuple[Element, Element, int]


def change_medium(domain: Any, steps: Sequence[Medium]) -> None:
    """Change the medium of a drive in one form of the domain after the other. After a failure
    restore the changed forms.

    :raises libvirt.libvirtError: the medium is unchanged, or its state is unknown.
    """
    for number, (_dummy, wanted, flag) in enumerate(steps):
        try:
            domain.updateDeviceFlags(text_of(wanted), flag)
        except LibvirtSilent:
            raise
        except libvirt.libvirtError:
            for old, _dummy2, done in steps[:number]:
                domain.updateDeviceFlags(text_of(old), done)
            raise

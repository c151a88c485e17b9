# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attaches devices to a domain and detaches them, from the domain as it runs and from its definition.

Private to the collection. The definition is changed first where a device comes, and last where it
goes. So the definition has everything that a running guest writes to, and other hosts and later
looks find it there. One call of libvirt for both would do it the other way round: it takes a disk
out of the definition although the guest has not released it.
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

#: Seconds between two looks at a domain.
POLL = 0.25

#: A guest that is booting ignores the request to release a device. So the request is repeated, with this many seconds between.
ASK_AGAIN = 10

#: Finds a device in one form of a domain.
Find = Callable[[Element], Optional[Element]]


class NotReleased(LibvirtProblem):
    """The guest did not release a device in time; it may still do so."""


def forms_of(domain: Any) -> Forms:
    """Return a domain as it runs and as it is defined.

    :raises libvirt.libvirtError: it cannot be read.
    """
    live = parse(domain.XMLDesc(0)) if domain.isActive() else None
    return live, parse(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))


def attach(conn: Any, domain: Any, element: Element, find: Find, live: bool, config: bool) -> None:
    """Attach a device; where the running guest does not get it, the definition is as it was before.

    :param find: finds the device.
    :param live, config: the forms of the domain without the device.
    :raises libvirt.libvirtError: it is attached nowhere, or its state is not known.
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
                # Not by detaching it: libvirt may have added a controller for it.
                conn.defineXML(before)
            raise


def detach(domain: Any, find: Find, timeout: float) -> None:
    """Detach a device: from the running guest, and once that has released it, from the definition.

    :param find: finds the device.
    :param timeout: seconds for the guest to release it.
    :raises NotReleased: the guest still has it, and the definition too.
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
        found = find(live) if live is not None else None
        if found is None:
            return
        now = time.monotonic()
        if now >= again:
            again = now + ASK_AGAIN
            refusal = _ask_for(domain, text_of(found)) or refusal
            continue
        if now >= deadline:
            raise NotReleased(
                f"{domain.name()} on {host_name()} did not release the device within {timeout:g} s{refusal}. It still has it and may release it later, "
                "so it is not detached. Run this again. A guest that is booting, or that has the device in use or no driver for "
                "hot unplug, does not release it: shut the guest off, then run this again."
            )
        time.sleep(POLL)


def _ask_for(domain: Any, text: str) -> str:
    """Request a device from the guest; return libvirt's error if it may mean an earlier request,
    else "".
    """
    try:
        domain.detachDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    except LibvirtSilent:
        raise
    except libvirt.libvirtError as exc:
        # It went just now.
        if binding.code_of(exc) == libvirt.VIR_ERR_DEVICE_MISSING or not domain.isActive():
            return ""
        # QEMU has no code for a device that was already requested from the guest, and the domain of
        # QEMU's errors differs from that of libvirt's checks.
        if binding.code_of(exc) not in (libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_ERR_OPERATION_FAILED):
            raise
        return f" ({binding.text_of(exc)})"
    return ""


#: The present drive, the wanted drive, and the form of the domain that it is in
#: (VIR_DOMAIN_AFFECT_*).
Medium = tuple[Element, Element, int]


def change_medium(domain: Any, steps: Sequence[Medium]) -> None:
    """Change the medium of a drive, one form of the domain after the other; if one fails, put the
    old medium back in the forms before it.

    :raises libvirt.libvirtError: it is changed nowhere, or its state is not known.
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

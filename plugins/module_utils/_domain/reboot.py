# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reboot of a domain, with verification.

Private to the collection.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from . import power


def reboot(conn: Any, domain: Any, timeout: float, hard: bool) -> None:
    """Reboot a domain.

    :param conn: the connection of the domain; the process must run libvirt's event loop.
    :param timeout: seconds for the guest to begin a soft reboot, or for libvirt to start the domain
        again.
    :param hard: True to cut the power and start the domain again from its definition, with new
        changes in the definition. This also works if the guest hangs, has crashed or is off.
    :raises LibvirtProblem: the domain was not rebooted.
    """
    if hard and domain.isPersistent():
        if domain.isActive():
            power.cut(domain)
        power.start(domain, timeout)
        return
    state = power.state_of(domain)
    if state not in ("running", "blocked") and not (hard and domain.isActive()):
        raise LibvirtProblem(
            f"{domain.name()} on {host_name()} is {state} and cannot be rebooted from inside: start"
            " it, or reboot it hard."
        )
    if not hard:
        power.refuse_opposite(domain, "reboot")
    seen = threading.Event()
    watch = _watch_reboot(conn, domain, seen)
    try:
        if hard:
            domain.reset(0)
        else:
            domain.reboot(0)
        if watch is not None and not _has_begun(domain, seen, timeout):
            raise LibvirtProblem(
                f"{domain.name()} on {host_name()} did not reboot within {timeout} s, because its"
                " guest ignored the request. Reboot it from inside, give it more time, or reboot it"
                " hard."
            )
    finally:
        if watch is not None:
            conn.domainEventDeregisterAny(watch)
    try:
        power.start(domain, timeout)
    except LibvirtProblem:
        # For a reboot libvirt shuts the guest down and then resets it. If the firmware resets the
        # guest in between, libvirt forgets its own reset, and the guest goes off.
        if domain.isActive():
            raise
        power.start(domain, timeout)


def _has_begun(domain: Any, seen: threading.Event, timeout: float) -> bool:
    """Return True if the guest was reset or went off within ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not seen.wait(power.POLL):
        if not domain.isActive():
            return True
        if time.monotonic() > deadline:
            return False
    return True


def _watch_reboot(conn: Any, domain: Any, seen: threading.Event) -> int | None:
    """Set ``seen`` when the domain reboots. Return the number of the callback; None if the driver
    has no such event.
    """
    try:
        return conn.domainEventRegisterAny(
            domain, libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, lambda *dummy: seen.set(), None
        )
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_SUPPORT:
            return None
        raise

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The start and the stop of one domain, with verification and a time limit.

Private to the collection.
"""

from __future__ import annotations

import shlex
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.versions import dotted
from .._libvirt.xml import child_text, keep_prefixes, parse
from .._storage import kinds
from .definition import state_name
from .facts import PowerState

#: The seconds between two looks at a domain.
POLL = 0.25

#: A booting guest ignores the power button. This is the time in seconds between two presses.
PRESS_AGAIN = 10


def state_of(domain: Any) -> PowerState:
    """Return the state of the domain as a word of STATES (_domain.definition)."""
    return state_name(domain.info()[0])


def find(conn: Any, uuid: str | None = None, name: str | None = None) -> Any:
    """Return the domain with a uuid or a name; None without such a domain."""
    try:
        return conn.lookupByUUIDString(uuid) if uuid else conn.lookupByName(name)
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def find_named(conn: Any, uuid: str, name: str | None) -> Any:
    """Return the domain with a uuid.

    :raises LibvirtProblem: it does not exist, or has another name than the given one.
    """
    domain = find(conn, uuid=uuid)
    if domain is None:
        raise LibvirtProblem(
            f"There is no domain {name or uuid} on {host_name()}. Run drover.compute.discover to"
            " find it."
        )
    if name not in (None, domain.name()):
        raise LibvirtProblem(
            f"The domain {uuid} is named {domain.name()!r} on {host_name()}, not {name!r}: correct"
            " the name."
        )
    return domain


def boot(domain: Any) -> None:
    """Start a domain that is off. libvirt first reads saved memory from the disk; the time for this
    grows with the memory.
    """
    if domain.hasManagedSaveImage(0):
        domain.create()
    else:
        domain.createWithFlags(0)


def start(domain: Any, timeout: float) -> None:
    """Bring the domain to the state ``running`` and verify that it stays in this state.

    :param timeout: seconds; they count after libvirt has started the domain.
    :raises LibvirtProblem: the domain does not run.
    """
    state = state_of(domain)
    if state == "paused":
        domain.resume()
    elif state == "pmsuspended":
        domain.pMWakeup(0)
    elif state == "crashed":
        raise LibvirtProblem(
            f"{domain.name()} on {host_name()} has crashed and was kept for inspection: look at it,"
            " then destroy it (state=shutoff, force=true) and start it again."
        )
    elif state not in ("running", "blocked"):
        boot(domain)
    deadline = time.monotonic() + timeout
    seen = 0
    while True:
        state = state_of(domain)
        seen = seen + 1 if state in ("running", "blocked") else 0
        # Require the state twice in a row: a QEMU that dies at once shows this state for a moment.
        if seen >= 2:
            return
        if state in ("shutoff", "crashed") or time.monotonic() > deadline:
            raise LibvirtProblem(
                f"{domain.name()} was started on {host_name()} but is {state} rather than running: "
                f"look at /var/log/libvirt/qemu/{domain.name()}.log there."
            )
        time.sleep(POLL)


def refuse_transient(domain: Any) -> None:
    """Refuse to shut down a transient domain, because libvirt forgets it as soon as it is off.

    :raises LibvirtProblem: the domain is transient."""
    if not domain.isPersistent():
        name = domain.name()
        text, file = shlex.quote(name), shlex.quote(f"{name}.xml")
        raise LibvirtProblem(
            f"{name} on {host_name()} is transient: libvirt forgets it once it is off, so it was"
            f" not shut down. Define it there first: virsh dumpxml --security-info {text} > {file},"
            f" then virsh define {file}."
        )


def refuse_opposite(domain: Any, event: str) -> None:
    """Refuse a request if the definition makes libvirt do the opposite.

    :param event: ``poweroff``: libvirt may start the domain again; ``reboot``: libvirt may leave
        the domain off.
    :raises LibvirtProblem: libvirt would do the opposite.
    """
    action = child_text(parse(domain.XMLDesc(0)), f"on_{event}")
    name, restarts = domain.name(), action in ("restart", "rename-restart")
    if action is None or restarts == (event == "reboot"):
        return
    what, done, remedy = (
        ("starts it again when it shuts down", "shut down", "destroy")
        if event == "poweroff"
        else ("does not start it again when it reboots", "rebooted", "restart")
    )
    raise LibvirtProblem(
        f"{name} on {host_name()} has on_{event} {action}: libvirt {what}, so it was not {done}."
        f" Set on_{event} to {remedy} (virsh set-lifecycle-action {shlex.quote(name)} {event}"
        f" {remedy} --live --config), or"
        f" {'cut its power' if event == 'poweroff' else 'reboot it hard'}."
    )


def stop(domain: Any, timeout: float, force: bool, keep: bool = True) -> None:
    """Shut the guest down and wait for ``timeout`` seconds. After that destroy the domain if
    ``force`` is True, else raise.

    :param keep: True if the domain must exist afterwards; a transient domain is then refused.
    :raises LibvirtProblem: the domain is not off.
    """
    if keep:
        refuse_transient(domain)
    if timeout > 0 and domain.isActive():
        refuse_opposite(domain, "poweroff")
    deadline = time.monotonic() + timeout
    press = 0.0
    while domain.isActive():
        now = time.monotonic()
        if now >= deadline or state_of(domain) in ("paused", "crashed", "pmsuspended"):
            if force:
                cut(domain)
                return
            reason = (
                f"did not shut down within {timeout} s"
                if now >= deadline
                else f"is {state_of(domain)} and cannot shut down"
            )
            raise LibvirtProblem(
                f"{domain.name()} on {host_name()} {reason}: shut it down from inside, give it more"
                " time (drover_instance_timeout, or the option timeout), or have its power cut"
                " (drover_instance_force=true, or the option force)."
            )
        if now >= press:
            _tolerate_off(domain, domain.shutdown)
            press = now + PRESS_AGAIN
        time.sleep(POLL)


def cut(domain: Any) -> None:
    """Cut the domain's power."""
    _tolerate_off(domain, domain.destroy)


def _tolerate_off(domain: Any, call: Callable[[], object]) -> None:
    """Call a function. Ignore its error if the domain is off."""
    try:
        call()
    except libvirt.libvirtError:
        if domain.isActive():
            raise


def define(conn: Any, text: str) -> Any:
    """Define the domain. libvirt checks the XML schema if the host has the schema files.

    :raises LibvirtProblem: the definition has something that this libvirt does not know, such as an
        element that a newer libvirt wrote.
    """
    try:
        return conn.defineXMLFlags(_for_schema(text), libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_INTERNAL_ERROR:
            # The host may have libvirt without its schema files: define as virsh does by default. A
            # refusal by the schema has another code.
            return conn.defineXML(text)
        if binding.code_of(exc) == libvirt.VIR_ERR_XML_INVALID_SCHEMA:
            raise LibvirtProblem(
                f"the definition of {child_text(parse(text), 'name')} has something that libvirt"
                f" {dotted(conn.getLibVersion())} of {host_name()} does not know ({binding.text_of(exc)}): choose a host"
                " with a newer libvirt, or take it out of the definition"
            ) from exc
        raise


def _for_schema(text: str) -> str:
    """Return domain XML with an identity in each source on NFS. libvirt's schema requires it, but
    libvirt itself omits it.
    """
    root = parse(text)
    sources = [
        each
        for each in root.iter("source")
        if kinds.protocol(each.get("protocol")).is_file and each.find("identity") is None
    ]
    for each in sources:
        ET.SubElement(each, "identity")
    keep_prefixes(text)
    return ET.tostring(root, encoding="unicode") if sources else text

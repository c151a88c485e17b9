# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain that is defined on this host: made, given its size, started or stopped."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .._devices import mdevs as _mdevs
from .._devices import resize
from .._domain import power
from .._domain.definition import files_of_start
from .._domain.facts import DomainDisk, PowerState
from .._host.domains import domain_from_xml, read_domain
from .._host.facts import HostDomain
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._ownership import ownership
from .._storage import volumes
from .domain_call import DomainCall
from .new_files import NewFiles
from .refusals import Refusals


class Presence:
    """The definition of a domain, its size, and its state that is running, stopped or present."""

    def __init__(self, call: DomainCall) -> None:
        self.call, self._refusals = call, Refusals(call)
        self._made: list[ownership.RemovalCandidate] = []
        self._defined_here = False

    def reach(self, domain: Any) -> tuple[bool, HostDomain]:
        """Bring the domain to its state. Return True if that changes anything, and its facts."""
        state = self.call.params["state"]
        if domain is None:
            self.call.xml = volumes.with_sources(self.call.conn, self.call.definition())
            self._refusals.refuse_used_disks()
            self._refusals.refuse_not_offered()
            self._refusals.refuse_old_variables()
            _mdevs.check(self.call.conn, self.call.params["mdevs"], self.call.uuid)
        to_make = NewFiles(self.call, self._refusals).to_make() if domain is None else []
        self._refusals.refuse_links()
        current: PowerState = power.state_of(domain) if domain is not None else "shutoff"
        reached = (
            state == "present"
            or (state == "running" and current in ("running", "blocked"))
            or (state == "stopped" and not (domain is not None and domain.isActive()))
        )
        if state == "stopped" and not reached:
            power.refuse_transient(domain)
            if self.call.params["timeout"] > 0:
                power.refuse_opposite(domain, "poweroff")
        autostart = self.call.params["autostart"]
        set_autostart = (
            autostart is not None and bool(domain is not None and domain.autostart()) != autostart
        )
        other_size, larger = self._other_size(domain), self._larger(domain)
        if other_size is not None and domain.isActive() and state != "stopped":
            raise LibvirtProblem(
                f"{domain.name()} on {host_name()} is {current}, and its vCPUs, memory and flavor"
                " are changed while it is shut off: shut it off first"
                " (drover.compute.instance_stop)."
            )
        changed = (
            domain is None
            or not reached
            or set_autostart
            or other_size is not None
            or larger is not None
        )
        if self.call.module.check_mode:
            self.call.made_files = [path for path, make in to_make]
            ends: dict[str, PowerState] = {"running": "running", "stopped": "shutoff"}
            final = current if reached else ends[state]
            if domain is None:
                return changed, domain_from_xml(self.call.definition(), final)
            foretold = self._foretold(domain, other_size, larger)
            foretold["state"] = final
            return changed, foretold
        if changed:
            domain = self._make_domain(domain, to_make, reached, set_autostart, other_size, larger)
        return changed, read_domain(domain, self.call.local)

    def _other_size(self, domain: Any) -> str | None:
        """Return the XML with the requested size, or None if the domain has it."""
        if domain is None or all(
            self.call.params[name] is None for name in ("vcpus", "memory_mb", "flavor", "numa")
        ):
            return None
        for name in ("vcpus", "memory_mb"):
            if self.call.params[name] is not None and self.call.params[name] < 1:
                raise LibvirtProblem(f"{name} is {self.call.params[name]}: give 1 or more.")
        text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        resized_text = resize.resized(
            text,
            self.call.params["vcpus"],
            self.call.params["memory_mb"],
            self.call.params["flavor"],
            self.call.params["numa"],
        )
        if resized_text is not None and not domain.isPersistent():
            raise LibvirtProblem(
                f"{domain.name()} on {host_name()} is transient, so nothing of it can be redefined:"
                " define it first."
            )
        if resized_text is not None and not domain.isActive() and _has_saved_memory(domain):
            raise LibvirtProblem(
                f"{domain.name()} on {host_name()} has its memory saved, and would start with the"
                " old size: start it, or drop the image with virsh managedsave-remove."
            )
        return resized_text

    def _larger(self, domain: Any) -> tuple[DomainDisk, int] | None:
        """Return the disk to enlarge and its new size in bytes, or None."""
        if domain is None or self.call.params["disk_gb"] is None:
            return None
        if not self.call.local:
            raise LibvirtProblem(
                f"disk_gb works on the hypervisor only, and {self.call.params['uri']} is another"
                " machine: run the module there."
            )
        return resize.growth(read_domain(domain, self.call.local), self.call.params["disk_gb"])

    def _foretold(
        self, domain: Any, other_size: str | None, larger: tuple[DomainDisk, int] | None
    ) -> HostDomain:
        facts = read_domain(domain, self.call.local)
        if other_size is not None:
            foreseen = domain_from_xml(other_size, facts["state"])
            facts["vcpus"], facts["memory_mb"] = foreseen["vcpus"], foreseen["memory_mb"]
            facts["numa"], facts["metadata"] = foreseen["numa"], foreseen["metadata"]
            facts["xml"] = foreseen["xml"]
        if larger is not None:
            for disk in facts["disks"]:
                if disk["target"] == larger[0]["target"]:
                    disk["capacity_bytes"] = larger[1]
        return facts

    def _make_domain(
        self,
        domain: Any,
        to_make: list[tuple[str, Callable[[], ownership.RemovalCandidate]]],
        reached: bool,
        set_autostart: bool,
        other_size: str | None = None,
        larger: tuple[DomainDisk, int] | None = None,
    ) -> Any:
        is_new, self.call.begun = domain is None, True
        try:
            for path, make in to_make:
                self._made.append(make())
                self.call.made_files.append(path)
            if domain is None:
                for each in self.call.params["mdevs"]:
                    _mdevs.make(self.call.conn, each)
                if self.call.unfinished is not None:
                    self.call.unfinished.define()
                domain = power.define(self.call.conn, self.call.definition())
                self._defined_here = True
                if self.call.unfinished is not None:
                    self.call.unfinished.end()
                self._note_files_of_start(domain)
            if set_autostart:
                domain.setAutostart(self.call.params["autostart"])
            if not reached and self.call.params["state"] == "stopped":
                power.stop(domain, self.call.params["timeout"], self.call.params["force"])
            if other_size is not None:
                domain = power.define(self.call.conn, other_size)
            if larger is not None:
                resize.grow(self.call.module, domain, *larger)
            if not reached and self.call.params["state"] == "running":
                power.start(domain, self.call.params["timeout"])
            return domain
        except BaseException as exc:
            leftovers = self._undo(domain, is_new)
            # A change of an existing domain is not undone completely.
            self.call.begun = bool(leftovers) or not is_new
            if isinstance(exc, libvirt.libvirtError):
                exc = LibvirtProblem(
                    f"{self.call.name or self.call.uuid} cannot be brought to"
                    f" {self.call.params['state']} on {host_name()}: {binding.text_of(exc)}."
                )
            if leftovers:
                raise LibvirtProblem(
                    f"{exc} Not everything that this call created could be removed:"
                    f" {'; '.join(leftovers)}."
                ) from exc
            raise exc

    def _note_files_of_start(self, domain: Any) -> None:
        """Record missing UEFI variables and logs of consoles as created by this call, because the
        first start creates them.
        """
        if not self.call.local:
            return
        text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        for path in files_of_start(text, binding.is_system(self.call.conn)):
            if not os.path.lexists(path):
                self._made.append(ownership.RemovalCandidate(path, by_use=True))

    def _undo(self, domain: Any, is_new: bool) -> list[str]:
        """Remove all objects that this call has created, the last first. Return descriptions of the
        rest.
        """
        if self._defined_here and domain is not None:
            try:
                if domain.isActive():
                    domain.destroy()
                ownership.undefine(domain, with_state=True)
            except libvirt.libvirtError as exc:
                # A domain that stays needs its files.
                return [f"the domain ({binding.text_of(exc)})"]
        try:
            mdevs = _mdevs.remove(
                self.call.conn,
                [each["uuid"] for each in self.call.params["mdevs"]] if is_new else (),
                self.call.uuid,
            )
        except libvirt.libvirtError as exc:
            return [f"its mediated devices ({binding.text_of(exc)})"]
        if mdevs:
            return [f"the mediated device {each['uuid']} ({each['reason']})" for each in mdevs]
        made = ownership.Ownership(self.call.conn, self.call.uuid, self.call.name, self._made[::-1])
        self.call.made_files, self._made = [], []
        try:
            made.sort_out()
            made.remove()
            if self.call.unfinished is not None and not made.kept:
                self.call.unfinished.end()
        except (OSError, libvirt.libvirtError) as exc:
            return [str(exc)]
        return [f"{each['path']} ({each['reason']})" for each in made.kept]


def _has_saved_memory(domain: Any) -> bool:
    try:
        return bool(domain.hasManagedSaveImage(0))
    except libvirt.libvirtError:
        return False

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain that leaves this host, with its files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .._devices import mdevs as _mdevs
from .._disk_move import record as disk_moves
from .._domain import power
from .._domain.texts import texts_of
from .._host.domains import read_domain
from .._host.facts import HostDomain
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._ownership import ownership
from .._ownership.move_record import KeptFile
from .._ownership.needs import is_gone
from .domain_call import DomainCall


class Removal:
    """The removal of a domain, with its own files."""

    def __init__(self, call: DomainCall) -> None:
        self.call = call

    def remove(self, domain: Any) -> tuple[bool, None]:
        """Remove the domain. Return True if that changes anything."""
        if domain is None:
            return False, None
        facts = read_domain(domain, self.call.local)
        self.call.name, self.call.uuid = facts["name"], facts["uuid"]
        copies = self._copies_left(domain)
        own, mdevs = self._own_files(domain), _mdevs.of_texts(texts_of(domain))
        if self.call.module.check_mode:
            self.call.removed_files = own.sort_out(locks=not domain.isActive())
            self.call.kept_files = own.kept + self._images_behind(facts, own.kept) + copies
            return True, None
        persistent = domain.isPersistent()
        try:
            if domain.isActive():
                # If it does not stop, its removal has not begun.
                power.stop(
                    domain, self.call.params["timeout"], self.call.params["force"], keep=False
                )
        except libvirt.libvirtError as exc:
            # A transient domain vanishes when it stops.
            if persistent or not is_gone(exc):
                raise
        self.call.begun = True
        own.sort_out()
        # Do this before the definition is removed, so that the next run after a killed run still
        # finds the domain.
        try:
            own.remove()
        except OSError as exc:
            raise LibvirtProblem(
                f"The image {exc.filename} of {self.call.name} on {host_name()} cannot be removed:"
                f" {exc.strerror}."
            ) from exc
        self.call.removed_files = own.removed
        self.call.kept_files = own.kept + self._images_behind(facts, own.kept) + copies
        for mdev in _mdevs.remove(self.call.conn, mdevs, self.call.uuid):
            # Discovery shows the device as free, and the next instance gets it.
            self.call.module.warn(
                f"The mediated device {mdev['uuid']} of {self.call.name} stays on {host_name()}:"
                f" {mdev['reason']}."
            )
        try:
            if persistent:
                ownership.undefine(domain, with_state=True)
        except libvirt.libvirtError as exc:
            if not is_no_domain(exc):
                raise
        return True, None

    def _copies_left(self, domain: Any) -> list[KeptFile]:
        """Return the copy that a move of a disk has made on another host. Only this domain still
        names the copy.

        :raises LibvirtProblem: the move was begun on this host and has not ended.
        """
        record = disk_moves.read(domain)
        if record is None:
            return []
        if record["host"] != host_name():
            return [
                {
                    "path": record["destination"],
                    "reason": (
                        f"a move of the disk {record['target']} that {record['host']} had begun has"
                        " made it"
                    ),
                }
            ]
        raise LibvirtProblem(
            f"The disk {record['target']} of {self.call.name} on {host_name()} is being moved to"
            f" {record['destination']}, so {self.call.name} was not removed: nothing would name the"
            " copy any more. End the move first: ansible-playbook"
            f" drover.compute.instance_disk_move -e drover_instance={self.call.uuid} -e"
            f" drover_disk={record['target']} -e drover_abort=true."
        )

    def _images_behind(self, facts: HostDomain, named: Iterable[KeptFile]) -> list[KeptFile]:
        """Return the backing files of the removed disks in the folders of these disks, for example
        after a snapshot.

        :param named: the files that the result already names.
        """
        reasons = {each["path"]: "" for each in named}
        for disk in facts["disks"]:
            path = disk.get("path")
            if path is None or path not in self.call.removed_files:
                continue
            for layer in disk["chain"] or ():
                if os.path.dirname(layer["path"]) == os.path.dirname(path):
                    reasons.setdefault(
                        layer["path"],
                        f"the disk {path} is backed by it, and other images may be too",
                    )
        return [{"path": path, "reason": reason} for path, reason in reasons.items() if reason]

    def _own_files(self, domain: Any) -> ownership.Ownership:
        """Return the files of the domain, or none if its disks are kept."""
        if not self.call.params["remove_disks"]:
            return ownership.Ownership(self.call.conn, self.call.uuid, self.call.name, [])
        if not self.call.local:
            raise LibvirtProblem(
                f"remove_disks works on the hypervisor only, and {self.call.params['uri']} is"
                " another machine: run the module there."
            )
        candidates = ownership.candidates_of(self.call.conn, texts_of(domain))
        return ownership.Ownership(
            self.call.conn,
            self.call.uuid,
            self.call.name,
            candidates,
            self.call.params["used_elsewhere"],
        )


def is_no_domain(error: Exception) -> bool:
    """Return True if libvirt says that the domain does not exist."""
    return binding.code_of(error) == libvirt.VIR_ERR_NO_DOMAIN

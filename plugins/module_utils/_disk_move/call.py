# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One call of the module _domain_disk_move: the next step of a move, or its abort."""

from __future__ import annotations

import copy
from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from .._domain import device_xml, hotplug, power
from .._domain.device_xml import Forms
from .._host.disk_facts import DiskFacts
from .._host.domains import read_domain
from .._host.facts import HostDomain
from .._libvirt.binding import LibvirtProblem, libvirt
from .._orders import orders
from .._orders.records import Records
from .._storage.shared_storage import read_mounts
from . import disk as disks
from . import move as moves
from . import record as records
from .place import DiskPlace

#: The seconds to wait for another call that works on the domain.
PATIENCE = 60


class DiskMoveCall:
    """The work of one run of the module."""

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self.module, self.conn, self.params = module, conn, module.params
        self.aborts = self.params["state"] == "aborted"
        self.domain: Any = None

    def run(self) -> dict[str, object]:
        """Make the next step and return the result of the module."""
        uuid, name = self.params["uuid"], self.params["name"]
        if self.module.check_mode:
            return self._run(self._find_domain())
        notes, word = Records(), moves.abort_word(self.params["target"])
        if self.aborts:
            # A call that copies the disk of a guest that is off has the lock until it reads this
            # file.
            notes.ask_abort(uuid, word)
        try:
            patience = max(min(self.params["timeout"], PATIENCE), orders.LEAST_PATIENCE)
            with orders.alone(notes, uuid, name or uuid, patience, self.params["order"]):
                return self._run(self._find_domain())
        finally:
            if self.aborts:
                notes.forget_abort(uuid)

    def _find_domain(self) -> Any:
        self.domain = power.find_named(self.conn, self.params["uuid"], self.params["name"])
        return self.domain

    def _run(self, domain: Any) -> dict[str, object]:
        before = hotplug.forms_of(domain)
        move = moves.DiskMoveSteps(self.module, self.conn, domain)
        step = move.abort() if self.aborts else move.move()
        foreseen = self.module.check_mode and step["status"] in (moves.MOVED, moves.COPYING)
        place = move.place if foreseen else None
        after = (
            hotplug.forms_of(domain)
            if place is None
            else _predicted(before, self.params["target"], place)
        )
        facts = read_domain(domain, local=True)
        if place is not None:
            _foretell_disk(facts, self.params["target"], place, self.conn)
        device = next(
            (each for each in facts["disks"] if each["target"] == self.params["target"]), None
        )
        result: dict[str, object] = {
            **step,
            "removed": move.removed,
            "kept": move.kept,
            "domain": facts,
            "device": device,
        }
        if self.module._diff:
            header, pictures = (
                domain.name(),
                (device_xml.lines(each, "disk") for each in (before, after)),
            )
            result["diff"] = {
                "before_header": header,
                "after_header": header,
                **dict(zip(("before", "after"), pictures)),
            }
        return result

    def certain(self) -> dict[str, object]:
        """Return the certain facts after a failure."""
        begun = self._is_open()
        return {} if begun is None else {"begun": begun}

    def _is_open(self) -> bool | None:
        """Return True if a move is unfinished; None if this is unknown."""
        try:
            # Another call may work on the domain.
            domain = self.domain or power.find(self.conn, uuid=self.params["uuid"])
            return domain is not None and records.read(domain) is not None
        except (LibvirtProblem, libvirt.libvirtError):
            return None


def _predicted(forms: Forms, target: str, place: DiskPlace) -> Forms:
    """Return the domain after the move."""
    live, config = copy.deepcopy(forms)
    return (None if live is None else _with(live, target, place)), _with(config, target, place)


def _with(root: Element, target: str, place: DiskPlace) -> Element:
    for devices in root.findall("devices"):
        found = disks.find(root, target)
        if found is not None:
            devices[list(devices).index(found)] = disks.moved(found, place)
    return root


def _foretell_disk(facts: HostDomain, target: str, place: DiskPlace, conn: Any) -> None:
    for number, each in enumerate(facts["disks"]):
        if each["target"] == target:
            disk = disks.facts_of_copy(each, place)
            DiskFacts(read_mounts("/"), [], conn).add([disk])
            facts["disks"][number] = disk

#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_disk_move
short_description: Move a disk of one libvirt domain to another storage of its host
author:
  - The drover.compute authors (@drover-compute)
description:
  - The step of the playbook C(drover.compute.instance_disk_move) on a hypervisor.
  - While the guest runs, libvirt copies the disk and switches over. Each call waits for O(wait)
    seconds at most, and returns with C(status=copying) if the copy is not complete. The copy goes
    on between the calls. If the guest is off, one call copies the disk.
  - The image behind a disk stays where it is, and is behind the copy too. If it is no file, or with O(whole), the copy has all data.
  - The metadata of the domain record each new file before it is made. A call that finds the record goes on.
  - In a storage pool of the type C(rbd), C(logical) or C(zfs) the copy is a raw volume with all
    data. Its name begins with the uuid of the domain. A disk comes into Ceph or out of it only
    while the guest runs.
  - No file or volume is overwritten. The old one is removed if it is the domain's and no one else needs it. Otherwise it stays, see C(kept).
options:
  uuid:
    description: The uuid of the domain.
    type: str
    required: true
  name:
    description: The name of the domain. The module fails if libvirt has the uuid under another name.
    type: str
  state:
    description: V(moved) moves the disk. V(aborted) gives up an unfinished move; the disk stays the old file.
    type: str
    choices: [moved, aborted]
    default: moved
  target:
    description: The disk, by its name in the domain, such as V(vda).
    type: str
    required: true
  pool:
    description: The storage pool, by its name, or the absolute path of a folder. Required for O(state=moved).
    type: str
  wait:
    description: Seconds that one call waits for the copy of a guest that runs.
    type: int
    default: 15
  timeout:
    description: Seconds that the copy of a guest that is off may take; also to wait for another call that works on the domain, of these 60 at most.
    type: int
    default: 3600
  bandwidth_mib:
    description: MiB per second to copy at most. By default there is no limit.
    type: int
  whole:
    description: The copy has all data, also of the images behind the disk, and has no image behind
      it itself.
    type: bool
    default: false
  hold:
    description:
      - Do not switch the running guest over to the copy; the C(status) is V(ready) once that could be done.
      - Until then the old file has all data, so this tells where they are if the host dies.
    type: bool
    default: false
  goes_on:
    description: The move was begun by an earlier call of this run. It is not begun again if another call has ended it.
    type: bool
    default: false
  looked_up:
    description: Paths that no domain of another hypervisor uses, as the caller has checked. With this option no other file is made.
    type: list
    elements: str
  used_elsewhere:
    description: Files that domains of other hypervisors use or may use, as in M(drover.compute.domain). They are kept.
    type: list
    elements: raw
    default: []
  order:
    description:
      - A name of this order, any text. M(drover.compute._domain_order) can withdraw the order by
        it. A withdrawn order does nothing and fails.
    type: str
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute._disk_move
"""

EXAMPLES = "# Only the roles and playbooks of this collection call this module."

import copy
from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.drover.compute.plugins.module_utils._disk_move import disk as disks
from ansible_collections.drover.compute.plugins.module_utils._disk_move import move as moves
from ansible_collections.drover.compute.plugins.module_utils._disk_move import record as records
from ansible_collections.drover.compute.plugins.module_utils._disk_move.place import Place
from ansible_collections.drover.compute.plugins.module_utils._domain import (
    device_xml,
    hotplug,
    power,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.device_xml import Forms
from ansible_collections.drover.compute.plugins.module_utils._host.disk_facts import DiskFacts
from ansible_collections.drover.compute.plugins.module_utils._host.domains import read_domain
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
    LibvirtProblem,
    host_name,
    libvirt,
)
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records
from ansible_collections.drover.compute.plugins.module_utils._storage.shared_storage import (
    read_mounts,
)

#: The seconds to wait for another call that works on the domain.
PATIENCE = 60


class Change:
    """The work of one run of the module."""

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self.module, self.conn, self.params = module, conn, module.params
        self.aborts = self.params["state"] == "aborted"
        self.domain: Any = None

    def run(self) -> dict[str, Any]:
        """Make the next step and return the result of the module."""
        uuid, name = self.params["uuid"], self.params["name"]
        if self.module.check_mode:
            return self._run(self._find())
        notes, word = Records(), moves.abort_word(self.params["target"])
        if self.aborts:
            # A call that copies the disk of a guest that is off has the lock until it reads this
            # file.
            notes.ask_abort(uuid, word)
        try:
            patience = max(min(self.params["timeout"], PATIENCE), orders.LEAST_PATIENCE)
            with orders.alone(notes, uuid, name or uuid, patience, self.params["order"]):
                return self._run(self._find())
        finally:
            if self.aborts:
                notes.forget_abort(uuid)

    def _find(self) -> Any:
        uuid, name = self.params["uuid"], self.params["name"]
        self.domain = power.find(self.conn, uuid=uuid)
        if self.domain is None:
            raise LibvirtProblem(
                f"There is no domain {name or uuid} on {host_name()}. Run drover.compute.discover to find it."
            )
        if name not in (None, self.domain.name()):
            raise LibvirtProblem(
                f"The domain {uuid} is named {self.domain.name()!r} on {host_name()}, not {name!r}: correct the name."
            )
        return self.domain

    def _run(self, domain: Any) -> dict[str, Any]:
        before = hotplug.forms_of(domain)
        move = moves.DiskMove(self.module, self.conn, domain)
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
            _foretell(facts, self.params["target"], place, self.conn)
        device = next(
            (each for each in facts["disks"] if each["target"] == self.params["target"]), None
        )
        result = {
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

    def is_open(self) -> bool | None:
        """Return True if a move is unfinished; None if this is unknown."""
        try:
            # Another call may work on the domain.
            domain = self.domain or power.find(self.conn, uuid=self.params["uuid"])
            return domain is not None and records.read(domain) is not None
        except (LibvirtProblem, libvirt.libvirtError):
            return None


def _predicted(forms: Forms, target: str, place: Place) -> Forms:
    """Return the domain after the move."""
    live, config = copy.deepcopy(forms)
    return (None if live is None else _with(live, target, place)), _with(config, target, place)


def _with(root: Element, target: str, place: Place) -> Element:
    for devices in root.findall("devices"):
        found = disks.find(root, target)
        if found is not None:
            devices[list(devices).index(found)] = disks.moved(found, place)
    return root


def _foretell(facts: dict[str, Any], target: str, place: Place, conn: Any) -> None:
    for number, each in enumerate(facts["disks"]):
        if each["target"] == target:
            disk = disks.facts_of_copy(each, place)
            DiskFacts(read_mounts("/"), [], conn).add([disk])
            facts["disks"][number] = disk


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "uuid": {"type": "str", "required": True},
            "name": {"type": "str"},
            "state": {"type": "str", "choices": ["moved", "aborted"], "default": "moved"},
            "target": {"type": "str", "required": True},
            "pool": {"type": "str"},
            "wait": {"type": "int", "default": 15},
            "timeout": {"type": "int", "default": 3600},
            "bandwidth_mib": {"type": "int"},
            "whole": {"type": "bool", "default": False},
            "hold": {"type": "bool", "default": False},
            "goes_on": {"type": "bool", "default": False},
            "looked_up": {"type": "list", "elements": "str"},
            "used_elsewhere": {"type": "list", "elements": "raw", "default": []},
            "order": {"type": "str"},
        },
        required_if=[("state", "moved", ["pool"])],
        supports_check_mode=True,
    )
    module.params["uuid"] = binding.domain_uuid(module, module.params["uuid"], "moved")
    for name, least in (("wait", 0), ("timeout", 0), ("bandwidth_mib", 1)):
        if module.params[name] is not None and module.params[name] < least:
            module.fail_json(
                msg=f"{name} is {module.params[name]}: give {least} or more.", begun=False
            )
    change = None
    with module.hypervisor(lambda: _certain(change), local=True) as conn:
        change = Change(module, conn)
        result = change.run()
    module.exit_json(**result)


def _certain(change: Change | None) -> dict[str, Any]:
    """Return the certain facts after a failure."""
    begun = change.is_open() if change else False
    return {} if begun is None else {"begun": begun}


if __name__ == "__main__":
    main()

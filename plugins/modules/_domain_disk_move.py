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
  - The image behind a disk stays where it is, and is behind the copy too. If it is not a file, or
    with O(whole), the copy has all data.
  - The metadata of the domain record each new file before it is made. A call that finds the record
    continues the move.
  - In a storage pool of the type C(rbd), C(logical) or C(zfs) the copy is a raw volume with all
    data. Its name begins with the uuid of the domain. A disk comes into Ceph or out of it only
    while the guest runs.
  - No file or volume is overwritten. The old one is removed if it is the domain's and no one else
    needs it. Otherwise it stays, see C(kept).
options:
  uuid:
    description: The uuid of the domain.
    type: str
    required: true
  name:
    description: The name of the domain. The module fails if libvirt has the uuid under another
      name.
    type: str
  state:
    description: V(moved) moves the disk. V(aborted) gives up an unfinished move; the disk stays the
      old file.
    type: str
    choices: [moved, aborted]
    default: moved
  target:
    description: The disk, by its name in the domain, such as V(vda).
    type: str
    required: true
  pool:
    description: The storage pool, by its name, or the absolute path of a folder. Required for
      O(state=moved).
    type: str
  wait:
    description: Seconds that one call waits for the copy of a guest that runs.
    type: int
    default: 15
  timeout:
    description: Seconds that the copy of a guest that is off may take; also to wait for another
      call that works on the domain, of these 60 at most.
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
      - Do not switch the running guest over to the copy; the C(status) is V(ready) once that could
        be done.
      - Until then the old file has all data. So it is known which file has the data if the host
        dies.
    type: bool
    default: false
  goes_on:
    description: The move was begun by an earlier call of this run. It is not begun again if another
      call has ended it.
    type: bool
    default: false
  looked_up:
    description: Paths that no domain of another hypervisor uses, as the caller has checked. With
      this option no other file is made.
    type: list
    elements: str
  used_elsewhere:
    description: Files that domains of other hypervisors use or may use, as in
      M(drover.compute.domain). They are kept.
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

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._disk_move.call import DiskMoveCall
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding


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
    module.carry_out(DiskMoveCall, local=True)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_snapshot
short_description: Make, delete, revert to and list snapshots of one libvirt domain
author:
  - The drover.compute authors (@drover-compute)
description:
  - The step of M(drover.compute.instance_snapshot) on a hypervisor.
  - A new snapshot is external and has no memory. The image of each disk that the guest writes to
    stays as it is, and the guest writes to a new image over it. The agent of the guest, if there is
    one, freezes the file systems during the snapshot.
  - To delete an external snapshot, the image over it is merged into it. libvirt does that while the
    guest runs, qemu-img while it is off. A merge that is cut off can be repeated, as the upper
    image has its content until the end.
  - To revert to an external snapshot, the domain gets new, empty images above the images of the
    snapshot. The images that it had are kept.
  - libvirt itself deletes internal snapshots and reverts to them.
  - A file is removed only if it was merged, or was discarded by O(discard), and if nothing else
    needs it.
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
    description: V(present) makes the snapshot, V(absent) deletes it, V(reverted) goes back to it.
      Without it, nothing is changed.
    type: str
    choices: [present, absent, reverted]
  snapshot:
    description: The name of the snapshot.
    type: str
  description:
    description: A text for a new snapshot.
    type: str
  discard:
    description: With V(reverted), remove the images that the guest has written to since the
      snapshot.
    type: bool
    default: false
  used_elsewhere:
    description: Files that domains of other hypervisors use or may use, as in
      M(drover.compute.domain). They are kept, and not written to.
    type: list
    elements: raw
    default: []
  timeout:
    description: Seconds to wait for a merge. The merge continues after that, and the next call
      waits for it.
    type: int
    default: 600
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
  - module: drover.compute.instance_snapshot
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._changes.snapshot import SnapshotChange
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "uuid": {"type": "str", "required": True},
            "name": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent", "reverted"]},
            "snapshot": {"type": "str"},
            "description": {"type": "str"},
            "discard": {"type": "bool", "default": False},
            "used_elsewhere": {"type": "list", "elements": "raw", "default": []},
            "timeout": {"type": "int", "default": 600},
            "order": {"type": "str"},
        },
        required_if=[("state", each, ["snapshot"]) for each in ("present", "absent", "reverted")],
        supports_check_mode=True,
    )
    params = module.params
    params["uuid"] = binding.domain_uuid(module, params["uuid"], "changed")
    if params["timeout"] < 0:
        module.fail_json(msg=f"timeout is {params['timeout']} s: give 0 or more.", begun=False)
    module.carry_out(SnapshotChange, local=True)


if __name__ == "__main__":
    main()

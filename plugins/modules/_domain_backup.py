#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_backup
short_description: Copy the disks of the running domains of a hypervisor
author:
  - The drover.compute authors (@drover-compute)
description:
  - Private to the role P(drover.compute.drain#role), whose tasks C(backup) call it.
  - Lets libvirt copy each disk that a running domain writes to, as it is at one moment, into a new
    qcow2 file. The guest continues to run. The copy is as after a loss of power.
  - A copy has the uuid of its domain, the target of the disk and the time in its name. No file is
    ever overwritten. A copy that is not complete is removed, at the latest by the next run.
  - Domains that are not running are left out and named.
options:
  uri:
    description: The libvirt URI on the hypervisor.
    type: str
    default: qemu:///system
  folder:
    description: An existing folder of the hypervisor, such as a mounted export of another machine.
    type: path
    required: true
  timeout:
    description: Seconds for the copy of one domain. After it the job is cancelled, and the task
      fails.
    type: int
    default: 3600
  incremental:
    description:
      - Copy only the data that the guest has written since the last copies with this option in the
        folder, and let libvirt note the data that it writes from now on. The copy before is the
        backing file of the new one.
      - If libvirt does not know them (the first time, after the domain was off, or after a snapshot
        of it), the module copies the whole disk. An image must be qcow2.
    type: bool
    default: false
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute.drain
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._snapshots import copies


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "folder": {"type": "path", "required": True},
            "timeout": {"type": "int", "default": 3600},
            "incremental": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    result: copies.Result = {"changed": False, "copies": [], "left_out": [], "lines": []}
    with module.hypervisor(lambda: result, local=True) as conn:
        copies.copy_all(module, conn, result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

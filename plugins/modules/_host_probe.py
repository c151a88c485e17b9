#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _host_probe
short_description: Probe a host from another hypervisor
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on a hypervisor and tests from there if another host answers, and if its disks on shared
    storage are in use. The role P(drover.compute.evacuate#role) runs it on a few hypervisors before
    it fences a silent host.
  - It changes nothing and needs only Python. The module looks at images of Ceph if the host has
    libvirt's binding, a storage pool with the images and the command C(rbd).
options:
  addresses:
    description: Names or addresses of the other host. An answer on one of them is enough.
    type: list
    elements: str
    required: true
  port:
    description: The TCP port to connect to, by default the port of SSH. A closed port is an answer
      too.
    type: int
    default: 22
  timeout:
    description: Seconds for each address.
    type: int
    default: 5
  disks:
    description:
      - Files and block devices that the other host uses and this one sees, and images of Ceph as
        C(rbd:SERVERS:/POOL/IMAGE).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.platform
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute._silent_host
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

from ansible_collections.drover.compute.plugins.module_utils._files import probe
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._storage import kinds, rbd_watchers


def main() -> None:
    module = HostModule(
        argument_spec={
            "addresses": {"type": "list", "elements": "str", "required": True},
            "port": {"type": "int", "default": 22},
            "timeout": {"type": "int", "default": 5},
            "disks": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    answers = probe.reach_each(params["addresses"], params["port"], params["timeout"])
    reached = [each.answers for each in answers]
    images = [disk for disk in params["disks"] if kinds.is_watched(disk)]
    state, paths = probe.storage(
        [disk for disk in params["disks"] if disk not in images], probe.locked_by_libvirt()
    )
    watched = rbd_watchers.watched_here(images)
    module.exit_json(
        changed=False,
        reached=True if True in reached else False if False in reached else None,
        message="; ".join(
            dict.fromkeys(
                each.words
                for each in answers
                if each.answers == (True in reached) or not each.answers
            )
        ),
        storage="active" if watched else state,
        in_use=[*paths, *watched],
    )


if __name__ == "__main__":
    main()

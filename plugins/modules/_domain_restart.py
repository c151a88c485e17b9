#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_restart
short_description: Define and start the domains of a dead host, or remove stale ones
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on the new hypervisor of the domains. It does not check that they run nowhere else; the
    role P(drover.compute.evacuate#role) reads every host first and fences the dead one.
  - No file of a domain is created, changed or removed. All files must exist and be unchanged.
  - A second call is harmless. A domain that already exists is not changed, but started if it has to
    run.
  - A domain that does not start is undefined again.
options:
  instances:
    description:
      - The domains to define and to start, the highest priority first.
    type: list
    elements: dict
    default: []
    suboptions:
      uuid:
        description: The uuid of the domain.
        type: str
        required: true
      name:
        description: Its name.
        type: str
        required: true
      xml:
        description: The domain XML, with this uuid and name.
        type: str
        required: true
      running:
        description: Start it. With V(false) it is only defined.
        type: bool
        default: true
      autostart:
        description: Start it with the hypervisor.
        type: bool
        default: false
      files:
        description: The files and block devices that must exist.
        type: list
        elements: str
        default: []
      pci_devices:
        description: The addresses of the PCI devices of this hypervisor that are its own. The
          module refuses the domain if its XML names others.
        type: list
        elements: str
        default: []
      mdevs:
        description: Its mediated devices here. Missing devices are made before the domain is
          defined.
        type: list
        elements: dict
        default: []
        suboptions:
          uuid:
            description: The uuid of the device.
            type: str
            required: true
          parent:
            description: The device that makes it, by its name in libvirt, such as
              C(pci_0000_84_00_0).
            type: str
            required: true
          type:
            description: The type, such as C(nvidia-35).
            type: str
            required: true
      snapshotting:
        description: A snapshot of it was made when its host died. If the new image of a disk
          exists, the domain gets it.
        type: bool
        default: false
      order:
        description: A name of this order, any text. M(drover.compute._domain_order) can withdraw
          the order by it.
        type: str
      images:
        description:
          - The facts of the disks from the last discovery of their host.
          - A disk is refused if it is on other storage than before, if its backing file is another
            one, if it now backs another image, or if a local backing image has another content
            here. An unknown fact counts as different.
        type: list
        elements: dict
        default: []
        suboptions:
          target:
            description: The target of the disk in the XML.
            type: str
          identity:
            description: The origin of its storage, as C(shared_id) of
              M(drover.compute.hypervisor_info).
            type: str
          behind:
            description: Its backing chain, nearest first; by default unknown.
            type: list
            elements: dict
            suboptions:
              path:
                description: The file.
                type: str
                required: true
              shared:
                description: True if it is the same file here, on storage that both hosts see.
                type: bool
                default: false
              digest:
                description: The digest of its content, as in C(images) of
                  M(drover.compute.hypervisor_info).
                type: str
  at_once:
    description:
      - The most domains that are started at the same time.
    type: int
    default: 4
  forget:
    description:
      - The uuids of domains that were started elsewhere while this host was dead. If they are shut
        off, their autostart and their definition are removed; all their files stay. A running
        domain is never changed.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Seconds for the start of a domain.
    type: int
    default: 60
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.platform
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: drover.compute.domain
  - module: drover.compute.evacuate
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._devices import mdevs
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._restart import call

INSTANCE_SPEC = {
    "uuid": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "xml": {"type": "str", "required": True},
    "running": {"type": "bool", "default": True},
    "autostart": {"type": "bool", "default": False},
    "files": {"type": "list", "elements": "str", "default": []},
    "pci_devices": {"type": "list", "elements": "str", "default": []},
    "mdevs": {"type": "list", "elements": "dict", "default": [], "options": mdevs.SPEC},
    "snapshotting": {"type": "bool", "default": False},
    "order": {"type": "str"},
    "images": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "target": {"type": "str"},
            "identity": {"type": "str"},
            "behind": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "path": {"type": "str", "required": True},
                    "shared": {"type": "bool", "default": False},
                    "digest": {"type": "str"},
                },
            },
        },
    },
}


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "instances": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": INSTANCE_SPEC,
            },
            "at_once": {"type": "int", "default": 4},
            "forget": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["at_once"] < 1:
        module.fail_json(msg="at_once must be at least 1, or nothing would ever start.")
    with module.hypervisor() as conn:
        result = call.restart_all(conn, params, module.check_mode)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

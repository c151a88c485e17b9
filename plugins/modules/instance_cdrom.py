#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_cdrom
short_description: Insert a medium into a CD-ROM drive of an instance, or eject it
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Inserts an image file as a medium, or ejects it, in the running instance and in its definition,
    on any host. If the instance is off, the module changes its definition. Run it on localhost. It
    takes the lease of the host.
  - A medium goes into an empty drive. The module takes a drive with another medium only if
    O(target) names it. An instance without a drive gets one on the bus C(sata) while it is off. A
    running guest gets no drive.
  - A guest may have locked its drive. Then the task fails with the words of libvirt. Eject the
    medium in the guest, then run the task again.
  - The image file is never removed.
options:
  path:
    description:
      - The image file, an absolute path on the host of the instance. Required with
        O(state=present).
      - With O(state=absent) the module ejects it from its drive. Without it, the module empties the
        drive O(target).
    type: str
  target:
    description: The name of the drive in the domain, such as V(sda).
    type: str
extends_documentation_fragment:
  - drover.compute.instance_device
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.instance_disk
  - module: drover.compute.instance_interface
"""

EXAMPLES = r"""
- name: Media of an instance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Insert one
      drover.compute.instance_cdrom:
        name: web1
        path: /srv/shared/isos/tools.iso

    - name: Eject it
      drover.compute.instance_cdrom:
        name: web1
        path: /srv/shared/isos/tools.iso
        state: absent
"""

RETURN = r"""
host:
  description: The host of the instance.
  returned: success
  type: str
  sample: kvm1
name:
  description: The name of the instance.
  returned: success
  type: str
  sample: web1
uuid:
  description: The uuid of the instance.
  returned: success
  type: str
  sample: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
device:
  description: The drive, as in the disks of M(drover.compute.hypervisor_info). Null if there is
    none.
  returned: success
  type: dict
  sample: {target: sda, device: cdrom, bus: sata, source: /srv/shared/isos/tools.iso, format: raw,
    readonly: true}
"""

#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _disk_move
short_description: Move a disk of an instance to another storage of its host
author:
  - The drover.compute authors (@drover-compute)
description:
  - The step of the playbook C(drover.compute.instance_disk_move). Run it on localhost. It takes the lease of the host.
  - The guest continues to run. If it is off, the disk is copied while it stays off.
  - If the run is killed, run it again, which goes on.
options:
  instance:
    description: The name or the uuid of the instance. Required.
    type: str
    default: ''
  disk:
    description: The disk, by its name in the domain, such as V(vda). Required.
    type: str
    default: ''
  pool:
    description: The storage pool of the host, by its name, or the absolute path of a folder there. Required for O(state=moved).
    type: str
    default: ''
  state:
    description: V(moved) moves it. V(aborted) gives up an unfinished move of any run; the disk stays the old file.
    type: str
    choices: [moved, aborted]
    default: moved
  migration:
    description:
      - Of the options of migrations, V(bandwidth_mib) limits the copy, and V(timeout_per_gib), 800 by default, is the number of seconds for each
        GiB of the disk, which counts as 2 GiB at least. After that time the move is given up.
    type: dict
    default: {}
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
seealso:
  - module: drover.compute._domain_disk_move
  - module: drover.compute.instance_disk
"""

EXAMPLES = r"""
- name: Storage of an instance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Move its disk
      drover.compute._disk_move:
        instance: web1
        disk: vda
        pool: fast
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
status:
  description: The result, V(moved), V(unchanged), V(aborted), or V(none) if there was nothing to abort; in check mode, what would.
  returned: success
  type: str
  sample: moved
source:
  description: The file that the disk was.
  returned: success
  type: str
  sample: /var/lib/libvirt/images/web1.qcow2
destination:
  description: The file that the disk is.
  returned: success
  type: str
  sample: /srv/fast/web1.qcow2
seconds:
  description: How long the move took on the host.
  returned: success
  type: float
  sample: 12.5
removed:
  description: The files that were removed.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/libvirt/images/web1.qcow2]
kept:
  description: The files that stay although the instance does not use them now, dicts C(path) and C(reason).
  returned: success
  type: list
  elements: dict
  sample: []
device:
  description: The disk, as in the disks of M(drover.compute.hypervisor_info).
  returned: success
  type: dict
  sample: {target: vda, bus: virtio, source: /srv/fast/web1.qcow2, format: qcow2, readonly: false}
"""

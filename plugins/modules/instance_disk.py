#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_disk
short_description: Attach a disk to an instance, detach it, or make it larger
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Brings a disk to a state in the running instance and in its definition, on any host. If the
    instance is off, the module changes its definition. Run it on localhost. It takes the lease of
    the host.
  - A disk is an image file on the host. Its path identifies it. Two instances never get the same
    file to write to, on any hosts. In doubt the module refuses the file.
  - The guest must release a disk before the module can detach it. If the guest does not release it
    within O(timeout), the task fails, and the disk stays attached. The guest may release it later.
    Run the task again, which then completes the work.
  - A detached disk keeps its file. The module removes no file.
  - A disk is made larger while the guest runs, or while it is off. The guest sees the new size at
    once. It extends its partitions and file systems itself. A disk is never made smaller.
  - The virtual size of a disk that the guest writes to counts as C(DISK_GB) of the instance. The
    task fails if the host has no room for it.
  - A failure says if anything was done. If the host is lost during the task, the next run of the
    same task finds out the result. Until then the instance is not started, stopped, moved or
    resized.
options:
  path:
    description:
      - The image file, an absolute path on the host of the instance. It must not be a device.
      - Required with O(state=present) and O(state=absent).
    type: str
  size:
    description:
      - The virtual size of the file if it does not exist, such as V(20GiB); a number counts in GiB.
        Without it, the file must exist.
      - With O(state=present) an existing file must have this size. It is not resized.
      - With O(state=resized), the virtual size that the disk gets. Required then.
    type: raw
  format:
    description: The format of the image. An existing file must have it.
    type: str
    choices: [qcow2, raw]
    default: qcow2
  target:
    description:
      - The name of the disk in the domain, such as V(vdb). By default the first name of the bus
        that is free. The guest may use another name.
      - Required with O(state=resized).
    type: str
  bus:
    description: The bus. A running guest gets no disk on V(sata) and V(ide), and releases none.
    type: str
    choices: [virtio, scsi, usb, sata, ide]
    default: virtio
  readonly:
    description:
      - The guest only reads from the disk. Several instances may have such a file, if none writes
        to it. It does not count as C(DISK_GB).
    type: bool
    default: false
  timeout:
    description: Seconds for the guest to release the disk.
    type: int
    default: 60
  state:
    description:
      - V(present) attaches the disk, V(absent) detaches it.
      - V(resized) makes the disk O(target) larger, on storage of any kind that can do so - image
        files, images of Ceph, and GlusterFS while the guest runs.
    type: str
    choices: [present, absent, resized]
    default: present
extends_documentation_fragment:
  - drover.compute.instance_device
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.instance_interface
  - module: drover.compute.instance_cdrom
  - module: drover.compute.instance
"""

EXAMPLES = r"""
- name: Disks of an instance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Give it a new disk of 20 GiB
      drover.compute.instance_disk:
        name: web1
        path: /srv/shared/instances/web1-data.qcow2
        size: 20GiB

    - name: Take it away again; the file stays
      drover.compute.instance_disk:
        name: web1
        path: /srv/shared/instances/web1-data.qcow2
        state: absent
        timeout: 120

    - name: Make the first disk larger
      drover.compute.instance_disk:
        name: web1
        target: vda
        size: 40GiB
        state: resized
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
  description: The disk, as in the disks of M(drover.compute.hypervisor_info). Null if it is
    detached.
  returned: success
  type: dict
  sample: {target: vdb, bus: virtio, source: /srv/shared/instances/web1-data.qcow2, format: qcow2,
    readonly: false}
created_disks:
  description: The file, if this task created it.
  returned: success
  type: list
  elements: str
  sample: [/srv/shared/instances/web1-data.qcow2]
"""

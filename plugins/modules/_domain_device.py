#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_device
short_description: Attach a disk, an interface or a medium to one libvirt domain, detach it, or make
  a disk larger
author:
  - The drover.compute authors (@drover-compute)
description:
  - The step of M(drover.compute.instance_disk), M(drover.compute.instance_interface) and
    M(drover.compute.instance_cdrom) on a hypervisor.
  - It changes the running domain and its definition. A domain that is off has its definition
    changed.
  - A device is attached to the definition first, and detached from it last. So the definition names
    every file that the running guest writes to. If the running guest does not get the device, the
    definition is as it was before.
  - A device is detached when the running domain and the definition no longer show it. If the guest
    does not release it in time, the module fails, and the definition keeps the device.
  - No file is ever removed or overwritten, except a new file of this call if the disk could not be
    attached.
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
    description: V(present) attaches or inserts, V(absent) detaches or ejects.
    type: str
    choices: [present, absent]
    default: present
  disk:
    description: The disk. One of O(disk), O(interface), O(cdrom) and O(growth) is required.
    type: dict
    suboptions:
      path:
        description: The image file, an absolute path.
        type: str
        required: true
      size_gb:
        description: The virtual size in GiB of a file that does not exist. An existing file must
          have this size.
        type: int
      format:
        description: The format of the image.
        type: str
        choices: [qcow2, raw]
        default: qcow2
      target:
        description: The name of the disk in the domain, such as V(vdb). By default the first that
          is free.
        type: str
      bus:
        description: The bus.
        type: str
        choices: [virtio, scsi, usb, sata, ide]
        default: virtio
      readonly:
        description: The guest only reads from it.
        type: bool
        default: false
  interface:
    description: The network interface.
    type: dict
    suboptions:
      network:
        description: The network of libvirt.
        type: str
      bridge:
        description: The bridge of the host.
        type: str
      mac:
        description: The MAC address.
        type: str
      model:
        description: The model.
        type: str
        default: virtio
  cdrom:
    description: The medium.
    type: dict
    suboptions:
      path:
        description: The image file, an absolute path.
        type: str
      target:
        description: The name of the drive in the domain, such as V(sda).
        type: str
  growth:
    description: A disk to enlarge. Of a running guest it grows while the guest runs. It is never
      made smaller.
    type: dict
    suboptions:
      target:
        description: The name of the disk in the domain, such as V(vda).
        type: str
        required: true
      size_gb:
        description: Its virtual size in GiB.
        type: int
        required: true
  looked_up:
    description: Paths that no domain of another hypervisor uses, as the caller has checked. With
      this option no other file is attached.
    type: list
    elements: str
  timeout:
    description: Seconds for the guest to release a device.
    type: int
    default: 60
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
  - module: drover.compute.instance_disk
  - module: drover.compute.instance_interface
  - module: drover.compute.instance_cdrom
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._devices.device_change import (
    DeviceChange,
)
from ansible_collections.drover.compute.plugins.module_utils._domain import (
    device_xml,
)
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding

DISK_SPEC = {
    "path": {"type": "str", "required": True},
    "size_gb": {"type": "int"},
    "format": {"type": "str", "choices": ["qcow2", "raw"], "default": "qcow2"},
    "target": {"type": "str"},
    "bus": {"type": "str", "choices": list(device_xml.TARGETS), "default": "virtio"},
    "readonly": {"type": "bool", "default": False},
}
INTERFACE_SPEC = {
    "network": {"type": "str"},
    "bridge": {"type": "str"},
    "mac": {"type": "str"},
    "model": {"type": "str", "default": "virtio"},
}
CDROM_SPEC = {"path": {"type": "str"}, "target": {"type": "str"}}
GROWTH_SPEC = {
    "target": {"type": "str", "required": True},
    "size_gb": {"type": "int", "required": True},
}


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "uuid": {"type": "str", "required": True},
            "name": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "disk": {"type": "dict", "options": DISK_SPEC},
            "interface": {
                "type": "dict",
                "options": INTERFACE_SPEC,
                "mutually_exclusive": [("network", "bridge")],
                "required_one_of": [("network", "bridge", "mac")],
            },
            "cdrom": {
                "type": "dict",
                "options": CDROM_SPEC,
                "required_one_of": [("path", "target")],
            },
            "growth": {"type": "dict", "options": GROWTH_SPEC},
            "looked_up": {"type": "list", "elements": "str"},
            "timeout": {"type": "int", "default": 60},
            "order": {"type": "str"},
        },
        mutually_exclusive=[("disk", "interface", "cdrom", "growth")],
        required_one_of=[("disk", "interface", "cdrom", "growth")],
        supports_check_mode=True,
    )
    module.params["uuid"] = binding.domain_uuid(module, module.params["uuid"], "changed")
    if module.params["timeout"] < 0:
        module.fail_json(
            msg=f"timeout is {module.params['timeout']} s: give 0 or more.", begun=False
        )
    module.carry_out(DeviceChange, local=True)


if __name__ == "__main__":
    main()

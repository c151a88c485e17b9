#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_device
short_description: Attach a disk, an interface or a medium to one libvirt domain, detach it, or make a disk larger
author:
  - The drover.compute authors (@drover-compute)
description:
  - The step of M(drover.compute.instance_disk), M(drover.compute.instance_interface) and M(drover.compute.instance_cdrom) on a hypervisor.
  - It changes the running domain and its definition. A domain that is off has its definition changed.
  - A device is attached to the definition first, and detached from it last. So the definition names every file that the running
    guest writes to. If the running guest does not get the device, the definition is as it was before.
  - A device is detached when the running domain and the definition no longer show it. If the guest does not release it in time, the module
    fails, and the definition keeps the device.
  - No file is ever removed or overwritten, except a new file of this call if the disk could not be
    attached.
options:
  uuid:
    description: The uuid of the domain.
    type: str
    required: true
  name:
    description: The name of the domain. The module fails if libvirt has the uuid under another name.
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
        description: The virtual size in GiB of a file that does not exist. An existing file must have this size.
        type: int
      format:
        description: The format of the image.
        type: str
        choices: [qcow2, raw]
        default: qcow2
      target:
        description: The name of the disk in the domain, such as V(vdb). By default the first that is free.
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
    description: A disk to enlarge. Of a running guest it grows while the guest runs. It is never made smaller.
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
    description: Paths that no domain of another hypervisor uses, as the caller has checked. With this option no other file is attached.
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

EXAMPLES = "# Only the roles and playbooks of this collection call this module."

import contextlib
import copy
from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.drover.compute.plugins.module_utils._devices.attachable import (
    Attachable,
    Cdrom,
    Disk,
    Interface,
)
from ansible_collections.drover.compute.plugins.module_utils._devices.disk_growth import Growth
from ansible_collections.drover.compute.plugins.module_utils._domain import (
    device_xml,
    hotplug,
    power,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.device_xml import Forms
from ansible_collections.drover.compute.plugins.module_utils._host.domains import read_domain
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._images import images
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
    LibvirtProblem,
    host_name,
    libvirt,
)
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records
from ansible_collections.drover.compute.plugins.module_utils._snapshots import snapshots

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


class Change:
    """The work of one run of the module."""

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self.module, self.conn, self.params = module, conn, module.params
        self.absent = self.params["state"] == "absent"
        self.begun = False

    def run(self) -> dict[str, Any]:
        """Bring the device to the requested state and return the result of the module."""
        uuid, name = self.params["uuid"], self.params["name"]
        alone: Any = contextlib.nullcontext()
        if not self.module.check_mode:
            patience = max(self.params["timeout"], orders.LEAST_PATIENCE)
            alone = orders.alone(Records(), uuid, name or uuid, patience, self.params["order"])
        with alone:
            return self._run(self._find())

    def _find(self) -> Any:
        uuid, name = self.params["uuid"], self.params["name"]
        domain = power.find(self.conn, uuid=uuid)
        if domain is None:
            raise LibvirtProblem(
                f"There is no domain {name or uuid} on {host_name()}. Run drover.compute.discover to find it."
            )
        if name not in (None, domain.name()):
            raise LibvirtProblem(
                f"The domain {uuid} is named {domain.name()!r} on {host_name()}, not {name!r}: correct the name."
            )
        return domain

    def _device(self, domain: Any, forms: Forms) -> Attachable:
        kinds: tuple[tuple[str, type[Attachable]], ...] = (
            ("disk", Disk),
            ("interface", Interface),
            ("growth", Growth),
        )
        for kind, made in kinds:
            if self.params[kind] is not None:
                return made(self.params[kind], self.module, domain, forms, self.absent)
        return Cdrom(self.params["cdrom"], self.module, domain, forms, self.absent)

    def _run(self, domain: Any) -> dict[str, Any]:
        forms = hotplug.forms_of(domain)
        device = self._device(domain, forms)
        changed = any(root is not None and device.is_in(root) == self.absent for root in forms)
        predicted = forms
        if changed:
            self._refuse(domain)
            device.prepare()
            predicted = _predicted(device, forms, self.absent)
            if not self.module.check_mode:
                self._carry_out(domain, device)
        after = predicted if self.module.check_mode else hotplug.forms_of(domain)
        facts, shown = read_domain(domain, local=True), device.facts(after[1])
        if self.module.check_mode and changed:
            _foretell(facts, device.tag, after[1], shown)
        result = {
            "changed": changed,
            "domain": facts,
            "device": shown,
            "created_disks": device.created(foreseen=self.module.check_mode),
        }
        if self.module._diff:
            header, pictures = (
                domain.name(),
                (device.lines(forms, False), device.lines(after, True)),
            )
            result["diff"] = {
                "before_header": header,
                "after_header": header,
                **dict(zip(("before", "after"), pictures)),
            }
        return result

    def _refuse(self, domain: Any) -> None:
        """Refuse a domain if a change of its devices would not last."""
        name = f"{domain.name()} on {host_name()}"
        if not domain.isPersistent():
            raise LibvirtProblem(
                f"{name} is transient: libvirt forgets it once it is off. Define it there first."
            )
        if domain.hasManagedSaveImage(0):
            raise LibvirtProblem(
                f"{name} has its memory saved, and would start with the devices that it had then: start it, or drop the image with virsh "
                "managedsave-remove."
            )
        if (self.params["disk"] or self.params["growth"]) and snapshots.read(domain):
            raise LibvirtProblem(
                f"{name} has snapshots, which are of the disks that it has now: delete the snapshots first."
            )
        running = domain.isActive() and power.state_of(domain) in ("running", "blocked")
        if self.absent and domain.isActive() and not running:
            raise LibvirtProblem(
                f"{name} is {power.state_of(domain)}, and a guest that does not run cannot release a device: resume it, or shut it off, first."
            )

    def _carry_out(self, domain: Any, device: Attachable) -> None:
        self.begun = True
        try:
            if self.absent:
                device.detach(self.params["timeout"])
            else:
                device.attach()
        except (LibvirtProblem, images.ImageProblem, libvirt.libvirtError):
            with contextlib.suppress(LibvirtProblem, libvirt.libvirtError, OSError):
                self.begun = device.is_left()
            raise
        for root in hotplug.forms_of(domain):
            if root is not None and device.is_in(root) == self.absent:
                shown = "still shows" if self.absent else "does not show"
                raise LibvirtProblem(
                    f"libvirt on {host_name()} took the change of {domain.name()}, but {shown} it. Run this again."
                )


def _predicted(device: Attachable, forms: Forms, absent: bool) -> Forms:
    """Return the domain after the change."""
    live, config = copy.deepcopy(forms)
    for root in (live, config):
        if root is not None and device.is_in(root) == absent:
            device.apply(root)
    return live, config


def _foretell(
    facts: dict[str, Any], tag: str, config: Element, shown: Mapping[str, Any] | None
) -> None:
    """Change the devices in the facts of a domain to the devices after the change.

    :param tag: ``disk`` or ``interface``.
    :param shown: the facts of the new device.
    """
    key = {"disk": "disks", "interface": "interfaces"}[tag]
    known = [*facts[key], *([shown] if shown is not None else [])]
    names = ("target", "source", "device") if tag == "disk" else ("mac",)
    by_name = {tuple(each.get(name) for name in names): each for each in known}
    foreseen = [device_xml.facts_of(each) for each in config.findall(f"devices/{tag}")]
    facts[key] = [by_name.get(tuple(each.get(name) for name in names), each) for each in foreseen]


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
    change = None
    with module.hypervisor(
        lambda: {"begun": change.begun if change else False}, local=True
    ) as conn:
        change = Change(module, conn)
        result = change.run()
    module.exit_json(**result)


if __name__ == "__main__":
    main()

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One change of the devices of a domain: a device attached or detached, or a larger disk."""

from __future__ import annotations

import contextlib
import copy
from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from .._domain import device_xml, hotplug, power
from .._domain.device_xml import Forms
from .._domain.facts import DomainDisk, InterfaceFacts
from .._host.domains import read_domain
from .._host.facts import HostDomain
from .._images import images
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._orders import orders
from .._orders.records import Records
from .._snapshots import snapshots
from .attachable import Attachable, Cdrom, ImageDisk, Interface
from .disk_growth import DiskGrowth


class DeviceChange:
    """The work of one run of the module."""

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self.module, self.conn, self.params = module, conn, module.params
        self.absent = self.params["state"] == "absent"
        self.begun = False

    def run(self) -> dict[str, object]:
        """Bring the device to the requested state and return the result of the module."""
        uuid, name = self.params["uuid"], self.params["name"]
        alone: Any = contextlib.nullcontext()
        if not self.module.check_mode:
            patience = max(self.params["timeout"], orders.LEAST_PATIENCE)
            alone = orders.alone(Records(), uuid, name or uuid, patience, self.params["order"])
        with alone:
            return self._run(power.find_named(self.conn, uuid, name))

    def certain(self) -> dict[str, object]:
        """Return the certain facts after a failure."""
        return {"begun": self.begun}

    def _device(self, domain: Any, forms: Forms) -> Attachable:
        kinds: tuple[tuple[str, type[Attachable]], ...] = (
            ("disk", ImageDisk),
            ("interface", Interface),
            ("growth", DiskGrowth),
        )
        for kind, made in kinds:
            if self.params[kind] is not None:
                return made(self.params[kind], self.module, domain, forms, self.absent)
        return Cdrom(self.params["cdrom"], self.module, domain, forms, self.absent)

    def _run(self, domain: Any) -> dict[str, object]:
        forms = hotplug.forms_of(domain)
        device = self._device(domain, forms)
        changed = any(root is not None and device.is_in(root) == self.absent for root in forms)
        predicted = forms
        if changed:
            self._refuse_domain(domain)
            device.prepare()
            predicted = _predicted(device, forms, self.absent)
            if not self.module.check_mode:
                self._carry_out(domain, device)
        after = predicted if self.module.check_mode else hotplug.forms_of(domain)
        facts, shown = read_domain(domain, local=True), device.facts(after[1])
        if self.module.check_mode and changed:
            _foretell_devices(facts, device.tag, after[1], shown)
        result: dict[str, object] = {
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

    def _refuse_domain(self, domain: Any) -> None:
        """Refuse a domain if a change of its devices would not last."""
        name = f"{domain.name()} on {host_name()}"
        if not domain.isPersistent():
            raise LibvirtProblem(
                f"{name} is transient: libvirt forgets it once it is off. Define it there first."
            )
        if domain.hasManagedSaveImage(0):
            raise LibvirtProblem(
                f"{name} has its memory saved, and would start with the devices that it had then:"
                " start it, or drop the image with virsh managedsave-remove."
            )
        if (self.params["disk"] or self.params["growth"]) and snapshots.read(domain):
            raise LibvirtProblem(
                f"{name} has snapshots, which are of the disks that it has now: delete the"
                " snapshots first."
            )
        running = domain.isActive() and power.state_of(domain) in ("running", "blocked")
        if self.absent and domain.isActive() and not running:
            raise LibvirtProblem(
                f"{name} is {power.state_of(domain)}, and a guest that does not run cannot release"
                " a device: resume it, or shut it off, first."
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
                    f"libvirt on {host_name()} took the change of {domain.name()}, but {shown} it."
                    " Run this again."
                )


def _predicted(device: Attachable, forms: Forms, absent: bool) -> Forms:
    """Return the domain after the change."""
    live, config = copy.deepcopy(forms)
    for root in (live, config):
        if root is not None and device.is_in(root) == absent:
            device.apply(root)
    return live, config


def _foretell_devices(
    facts: HostDomain, tag: str, config: Element, shown: DomainDisk | InterfaceFacts | None
) -> None:
    """Change the devices in the facts of a domain to the devices after the change.

    :param tag: ``disk`` or ``interface``.
    :param shown: the facts of the new device.
    """
    known: list[Any] = [*(facts["disks"] if tag == "disk" else facts["interfaces"])]
    known += [shown] if shown is not None else []
    names = ("target", "source", "device") if tag == "disk" else ("mac",)
    by_name = {tuple(each.get(name) for name in names): each for each in known}
    foreseen = [device_xml.facts_of(each) for each in config.findall(f"devices/{tag}")]
    devices = [by_name.get(tuple(each.get(name) for name in names), each) for each in foreseen]
    if tag == "disk":
        facts["disks"] = devices
    else:
        facts["interfaces"] = devices

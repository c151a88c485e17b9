# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter guest: the hardware of an instance on its host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import devices, hardware
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    guest as host_settings,
)


def guest(
    claim: Any, domain_type: Any = None, cpu: Any = None, disks: Any = (), seed: Any = None
) -> dict[str, object]:
    """Return all hardware settings in the domain XML of a claimed instance.

    :param claim: an item of place_claims: name, host, arch, domain_type (the best of the host),
        vcpus, guest (the keys of its hardware, as in the definition, and if it has them extra_specs
        of its flavor and image_properties), disks, networks; and if it has devices of its host
        pci_devices and mdevs.
    :param domain_type, cpu: the variables drover_domain_type and drover_cpu of the host.
    :param disks: the result of the filter disk_layout.
    :param seed: path, or empty.
    :returns: domain_type, cpu (None, or mode, model and features), and the results of
        hardware.hardware(), drives() and devices.with_devices().
    :raises AnsibleFilterError: a value is not valid, the sources contradict each other, or the host
        does not support it.
    """
    claim, of_host = to_plain(claim), {"domain_type": to_plain(domain_type), "cpu": to_plain(cpu)}
    where = f"Instance {claim.get('name')} on {claim.get('host')}"
    definition: Any = claim.get("guest") or {}
    try:
        hardware_parts = hardware.hardware(
            definition,
            definition.get("extra_specs"),
            definition.get("image_properties"),
            where=where,
            vcpus=claim.get("vcpus") or 1,
            arch=claim.get("arch") or "x86_64",
        )
        networks, hostdevs = devices.with_devices(
            hardware.networks(hardware_parts, claim.get("networks") or [], where),
            claim.get("pci_devices") or [],
            claim.get("mdevs") or [],
            where,
        )
        return {
            **hardware_parts,
            **host_settings.hardware(claim.get("domain_type"), definition, of_host, where),
            **hardware.drives(
                hardware_parts,
                to_plain(disks),
                claim.get("disks") or [],
                (to_plain(seed) or {}).get("path"),
                where,
            ),
            "networks": networks,
            "hostdevs": hostdevs,
        }
    except DroverError as problem:
        raise AnsibleFilterError(str(problem)) from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_guest": guest}

#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _cpu_baseline
short_description: Find the CPU that has only features which all hosts have
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on a hypervisor and changes nothing. It takes the CPU of host-model of this hypervisor,
    without the features that other hosts lack, and has libvirt find the nearest model
    (C(virConnectBaselineHypervisorCPU)).
options:
  uri:
    description: The libvirt connection URI.
    type: str
    default: qemu:///system
  arch:
    description: The architecture of the guests.
    type: str
    required: true
  domain_type:
    description: The type of the guests' domains.
    type: str
    choices: [kvm, qemu]
    required: true
  features:
    description: Names of the features that all hosts have.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.platform
  - drover.compute.attributes.info_module
requirements:
  - python3-libvirt on the hypervisor
seealso:
  - module: drover.compute.fleet_cpu
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

from ansible_collections.drover.compute.plugins.module_utils._files.limits import within
from ansible_collections.drover.compute.plugins.module_utils._host import model
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule

READ_TIMEOUT = 120


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "arch": {"type": "str", "required": True},
            "domain_type": {"type": "str", "choices": ["kvm", "qemu"], "required": True},
            "features": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    uri, arch, kind = (module.params[key] for key in ("uri", "arch", "domain_type"))
    late = (
        f"libvirt of {uri} did not say within {READ_TIMEOUT} s which CPU it can give: look whether "
        "libvirtd hangs there."
    )
    failed = f"libvirt of {uri} finds no CPU model with the features that all hosts have"
    with module.reading(late, failed) as conn:
        cpu = within(
            READ_TIMEOUT, lambda: model.baseline(conn, arch, kind, set(module.params["features"]))
        )
    if cpu is None:
        module.fail_json(msg=f"libvirt of {uri} has no host-model for {kind} guests of {arch}.")
    module.exit_json(changed=False, cpu=cpu)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _host_check
short_description: Read the facts of a hypervisor that matter to the guests of other hosts
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on a hypervisor and changes nothing. The playbook C(drover.compute.check) runs it.
  - Values of libvirt's secrets are not kept.
options:
  uri:
    description: The libvirt connection URI.
    type: str
    default: qemu:///system
  instances_path:
    description: The folder of the instances' disks.
    type: path
    default: /var/lib/libvirt/images
  cpus:
    description: CPUs of guests of other hosts, as C(cpu) of C(guests) has them. The module returns
      the ones that this hypervisor cannot run.
    type: list
    elements: dict
    default: []
  probe_kvm:
    description: Start a tiny guest with KVM where libvirt offers it. It ends at once, and nothing
      of it is left.
    type: bool
    default: false
  names:
    description: Names and addresses of other hosts that are resolved here, and connected to at the
      port of SSH.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.platform
  - drover.compute.attributes.info_module
requirements:
  - python3-libvirt on the hypervisor
seealso:
  - module: drover.compute.hypervisor_info
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

import os
import shutil
import time

from ansible_collections.drover.compute.plugins.module_utils._files.limits import within
from ansible_collections.drover.compute.plugins.module_utils._host import check
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._migration import address

READ_TIMEOUT = 60


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "instances_path": {"type": "path", "default": "/var/lib/libvirt/images"},
            "cpus": {"type": "list", "elements": "dict", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
            "probe_kvm": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    uri, folder, clock = module.params["uri"], module.params["instances_path"], time.time()
    local = binding.is_local(uri)
    late = (
        f"Reading {uri} took longer than {READ_TIMEOUT} s and was given up: look whether libvirtd "
        "or storage hangs there."
    )
    with module.reading(late, f"Reading {uri} failed") as conn:
        facts = within(READ_TIMEOUT, lambda: check.read(conn, local))
        why_no_kvm = check.why_no_kvm(conn) if module.params["probe_kvm"] else None
        lacking = within(READ_TIMEOUT, lambda: check.lacking(conn, module.params["cpus"]))
        facts.update(libvirt_version=conn.getLibVersion(), hypervisor_version=conn.getVersion())
    free = shutil.disk_usage(folder).free / 1024**3 if local and os.path.isdir(folder) else None
    kvm = os.path.exists("/dev/kvm") if local else None
    module.exit_json(
        changed=False,
        host={**facts, "kvm": kvm, "why_no_kvm": why_no_kvm, "free_gib": free, "clock": clock},
        lacking=lacking,
        names=address.look(module.params["names"]) if local else {},
    )


if __name__ == "__main__":
    main()

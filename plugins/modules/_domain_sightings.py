#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_sightings
short_description: See which of some domains a hypervisor has
author:
  - The drover.compute authors (@drover-compute)
description:
  - Looks for domains by their uuids and their names, running or only defined. Nothing is changed,
    no lock is waited for, and no storage is read.
  - Instances are started after a look at the other hypervisors, which must not have them.
  - A libvirt that does not take connections is tried again for some seconds, because it may be
    restarting.
options:
  uris:
    description: The libvirt URIs of the hypervisor.
    type: list
    elements: str
    default: [qemu:///system]
  uuids:
    description: The uuids to look for.
    type: list
    elements: str
    default: []
  names:
    description: The names to look for.
    type: list
    elements: str
    default: []
  networks:
    description: Networks of libvirt that a new instance needs.
    type: list
    elements: str
    default: []
  bridges:
    description: Bridges of the host that a new instance needs.
    type: list
    elements: str
    default: []
  patience:
    description: The seconds for which the module tries a libvirt that takes no connection again.
    type: int
    default: 6
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.info_module
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute._domain_order
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._migration import sightings


def main() -> None:
    """Run the module."""
    texts = {"type": "list", "elements": "str", "default": []}
    module = HostModule(
        argument_spec={
            "uris": {**texts, "default": ["qemu:///system"]},
            "uuids": texts,
            "names": texts,
            "networks": texts,
            "bridges": texts,
            "patience": {"type": "int", "default": 6},
        },
        supports_check_mode=True,
    )
    params = module.params
    params["uuids"] = [binding.domain_uuid(module, each, "looked for") for each in params["uuids"]]
    binding.require_binding(module)
    with module.failures():
        result = sightings.read_all(params)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

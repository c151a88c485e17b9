#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _pool_contents
short_description: Return the content of a storage pool, and the domains that need it
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on a hypervisor. M(drover.compute.drain) proves with it that a storage pool is empty.
  - A domain needs a file if its definition, the running guest, a snapshot or its saved memory names
    it, or if it is behind an image that one of them names. It changes nothing but libvirt's own
    list of the volumes of a pool that is not a folder.
options:
  pool:
    description: The storage pool, by its name.
    type: str
    required: true
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.platform
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute._domain_disk_move
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._ownership import pool_contents


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "pool": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    with module.hypervisor(local=True) as conn:
        found = pool_contents.read(conn, module.params["pool"])
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()

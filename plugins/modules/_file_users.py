#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _file_users
short_description: See which files of another hypervisor the domains of this one need
author:
  - The drover.compute authors (@drover-compute)
description:
  - Another hypervisor is about to remove files. The module names the files that a domain here needs
    or may need, running or only defined, with all images behind its images, its snapshots and its
    boot files. Nothing is changed.
  - On the hypervisor that has the files, O(paths) gives the names by which the others find them.
options:
  uris:
    description: The libvirt URIs of the hypervisor.
    type: list
    elements: str
    default: [qemu:///system]
  uuid:
    description: The uuid of the domain to leave out.
    type: str
  paths:
    description: Files of this hypervisor. The module returns their names.
    type: list
    elements: str
    default: []
  files:
    description:
      - Files of another hypervisor, as mappings. C(name) is the path there, C(paths) are those that
        the file may have here, C(shared_id) and C(inode) are as in C(names), and C(volume) is the
        name of a volume that QEMU reaches by the network. With C(written) only a domain counts that
        may write to the file.
    type: list
    elements: dict
    default: []
  folders_seen:
    description: The C(inode) of each folder that the other hypervisor looks into itself for images
      that are backed by its files.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.info_module
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute._domain_sightings
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._files.mounts import all_mounts
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._ownership.file_users import users_of
from ansible_collections.drover.compute.plugins.module_utils._storage import file_names


def main() -> None:
    """Run the module."""
    texts = {"type": "list", "elements": "str", "default": []}
    module = HostModule(
        argument_spec={
            "uris": {**texts, "default": ["qemu:///system"]},
            "uuid": {"type": "str"},
            "paths": texts,
            "folders_seen": texts,
            "files": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    params, users = module.params, {}
    mounts = all_mounts()
    names = [file_names.names(path, mounts) for path in params["paths"]]
    if params["files"]:
        binding.require_binding(module)
        with module.failures():
            for uri in params["uris"]:
                users.update(users_of(uri, params))
    module.exit_json(changed=False, names=names, users=users)


if __name__ == "__main__":
    main()

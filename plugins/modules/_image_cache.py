#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _image_cache
short_description: Bring images into the cache of a hypervisor, or clean it
author:
  - The drover.compute authors (@drover-compute)
description:
  - A step of the role P(drover.compute.place#role), and of the playbook
    C(drover.compute.image_cache_clean). Delegate it to the hypervisor.
  - An image is brought once to each hypervisor, from its URL, from a path of the hypervisor such as
    shared storage, or from a path of the controller. All instances there are backed by this one
    file. M(drover.compute._image_file) does the work on the hypervisor.
  - If the hypervisor cannot read the source, the libvirt of another one that has the image sends
    it.
options:
  state:
    description:
      - V(present) brings the images that are not in the cache, and shows the progress.
      - V(clean) removes the files of the cache that drover has made, that no instance of any host
        is backed by, and that were not used for a new instance in the last 24 hours. It removes
        nothing if a host was not read since the store was made or restored.
    type: str
    choices: [present, clean]
    default: present
  folder:
    description: The folder of instances on the hypervisor, C(drover_instances_path). The cache is
      its folder C(_base).
    type: str
    required: true
  images:
    description: The images to bring.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The name of the image.
        type: str
        required: true
      source:
        description: A URL, or an absolute path of the hypervisor or of the controller. An image
          without it is refused.
        type: str
      checksum:
        description: C(sha256:) or C(sha512:) and the digits. An image without it is refused.
        type: str
  uri:
    description: With O(state=clean), the libvirt URI on the hypervisor.
    type: str
    default: qemu:///system
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
seealso:
  - module: drover.compute._image_file
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

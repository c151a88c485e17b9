#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: image
short_description: Create, change or delete an image
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - An image is a name for properties that host filters read, and for the source of its file. A
    definition or a request names it.
  - When an image changes, existing instances keep the properties that they were placed with.
options:
  name:
    description: The name of the image.
    type: str
    required: true
  state:
    description: V(absent) deletes the image from the store. No file is touched.
    type: str
    choices: [present, absent]
    default: present
  source:
    description: The source of the image, a URL or a path.
    type: str
  checksum:
    description: Of the source, C(sha256:) or C(sha512:) and the digits.
    type: str
  disk_format:
    description: The format of its file, such as V(qcow2).
    type: str
  properties:
    description:
      - Its properties by Nova's names, such as C(hw_architecture). A key with the value null is
        deleted. Other keys stay.
    type: dict
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
"""

EXAMPLES = r"""
- name: Create an image for hosts with ARM processors
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Create it
      drover.compute.image:
        name: debian-12-arm64
        properties:
          hw_architecture: aarch64
"""

RETURN = r"""
image:
  description: The image.
  returned: when O(state=present)
  type: dict
  contains:
    uuid: {description: Its uuid., type: str, returned: always, sample:
      71747e21-eed8-44bc-ad09-5fff1572dcd2}
    name: {description: Its name., type: str, returned: always, sample: debian-12-arm64}
    source: {description: The source of the image., type: str, returned: always, sample:
      https://example.com/debian-12-arm64.qcow2}
    checksum: {description: Of the source., type: str, returned: always, sample: 'sha256:0123'}
    disk_format: {description: The format of its file., type: str, returned: always, sample: qcow2}
    properties: {description: Its properties., type: dict, returned: always, sample:
      {'hw_architecture': aarch64}}
"""

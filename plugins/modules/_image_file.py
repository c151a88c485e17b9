#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _image_file
short_description: Bring one image into the cache of a hypervisor, or clean the cache
author:
  - The drover.compute authors (@drover-compute)
description:
  - The step of M(drover.compute._image_cache) on a hypervisor.
  - The file of an image is C(_base/DIGITS) in the folder of instances, with the digits of its
    checksum. It gets this name only when it is complete, on the disk, and its checksum is right.
    Until then it has another name and a lock, so two calls at a time do not disturb each other. A
    call that ended early, or was killed, is continued by the next one.
  - A file that exists is never overwritten.
options:
  state:
    description:
      - V(present) brings the image.
      - V(clean) removes the files of the cache that the module has made, if nothing needs them and
        no instance was made of them in the last 24 hours. The others are kept and named.
    type: str
    choices: [present, clean]
    default: present
  folder:
    description: The folder of instances, which exists.
    type: path
    required: true
  name:
    description: The name of the image, for messages. Required with O(state=present).
    type: str
  checksum:
    description: The checksum of the image, C(sha256:) or C(sha512:) and its hexadecimal digits.
      Required with O(state=present).
    type: str
  url:
    description: The URL of the image. With O(state=present) one of O(url) and O(path) is required.
    type: str
  path:
    description: The file of the image on this hypervisor, or with O(peer) on that one, an absolute
      path.
    type: path
  peer:
    description:
      - The libvirt URI of another hypervisor that has O(path), as migrations use it. Its libvirt
        reads the file.
    type: str
  uploaded:
    description: True if the caller has put O(path) there for this call only, under a name of
      C(.drover-upload-). It is removed at the end.
    type: bool
    default: false
  seconds:
    description: The time of this call. After it the module returns C(done=false).
    type: int
    default: 10
  used_elsewhere:
    description:
      - With O(state=clean), files that domains of other hypervisors use or may use, as in
        M(drover.compute.domain). They and their backing files are kept.
    type: list
    elements: raw
    default: []
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.platform
  - drover.compute.attributes.full
seealso:
  - module: drover.compute._image_cache
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._images import call
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "state": {"type": "str", "choices": ["present", "clean"], "default": "present"},
            "folder": {"type": "path", "required": True},
            "name": {"type": "str"},
            "checksum": {"type": "str"},
            "url": {"type": "str"},
            "path": {"type": "path"},
            "peer": {"type": "str"},
            "uploaded": {"type": "bool", "default": False},
            "seconds": {"type": "int", "default": 10},
            "used_elsewhere": {"type": "list", "elements": "raw", "default": []},
        },
        required_if=[
            ("state", "present", ("name", "checksum")),
            ("state", "present", ("url", "path"), True),
        ],
        mutually_exclusive=[("url", "path")],
        required_by={"peer": "path"},
        supports_check_mode=True,
    )
    if module.params["state"] == "present":
        if module.params["peer"]:
            binding.require_binding(module)
        with module.failures(), call.failures_of_kinds(module):
            result = call.bring(module)
    else:
        with module.hypervisor() as conn, call.failures_of_kinds(module):
            result = call.clean(module, conn)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

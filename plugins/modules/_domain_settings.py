#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_settings
short_description: Set labels, the policy for moves and autostart of domains
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on the hypervisor. It changes the metadata of a running domain and of its definition, so
    that it stays after a shutdown and goes with a migration. Other metadata stays as it is.
  - It starts from the labels that libvirt has. Each domain has its own result, and the failure of
    one does not stop the others.
options:
  domains:
    description: The domains.
    type: list
    elements: dict
    required: true
    suboptions:
      uuid:
        description: The uuid.
        type: str
        required: true
      name:
        description: The name. A domain with another name is not changed.
        type: str
  labels:
    description: The labels to set. A label without a value is removed. Other labels stay.
    type: dict
    default: {}
  policy:
    description:
      - Texts of the policy for moves, C(move), C(on_drain), C(priority) and C(migration). One
        without a value is removed. Others stay.
    type: dict
    default: {}
  autostart:
    description: True if libvirt starts the domains with their host. By default that stays as it is.
    type: bool
  patience:
    description: Seconds to wait for another call that works on a domain.
    type: int
    default: 60
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute.instance_labels
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._changes import settings
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding

DOMAIN_SPEC = {"uuid": {"type": "str", "required": True}, "name": {"type": "str"}}


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "domains": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": DOMAIN_SPEC,
            },
            "labels": {"type": "dict", "default": {}},
            "policy": {"type": "dict", "default": {}},
            "autostart": {"type": "bool"},
            "patience": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    reason = settings.refusal(params["labels"], params["policy"])
    if reason:
        module.fail_json(msg=f"{reason} Nothing was changed.")
    for each in params["domains"]:
        each["uuid"] = binding.domain_uuid(module, each["uuid"], "changed")
    with module.hypervisor() as conn:
        result = settings.act_on_all(conn, params, module.check_mode, module._diff)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

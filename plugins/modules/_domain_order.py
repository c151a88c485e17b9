#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_order
short_description: Withdraw orders on a hypervisor and show the domains
author:
  - The drover.compute authors (@drover-compute)
description:
  - Use it on a hypervisor after a task ended while its module may still run or start there, for
    example after a time limit or a lost connection. It waits until no other call works on the
    domain, makes sure that the named orders can no longer begin, and then reads the domain.
  - Its result is therefore certain until the next order. Domains are not changed.
  - If a named order was a build that was cut off before it defined the domain, the logical volumes
    that it had made are removed.
options:
  uri:
    description: The libvirt URI of the hypervisor.
    type: str
    default: qemu:///system
  domains:
    description: The domains.
    type: list
    elements: dict
    required: true
    suboptions:
      uuid:
        description: The uuid of the domain.
        type: str
        required: true
      withdraw:
        description: Orders to withdraw, by the option C(order) of the other modules of the
          collection.
        type: list
        elements: str
        default: []
  patience:
    description: Total seconds to wait for other calls that work on one of the domains.
    type: int
    default: 60
attributes:
  check_mode:
    support: full
    details:
      - In check mode no order is withdrawn.
  diff_mode:
    support: none
    details:
      - Domains are not changed.
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute.domain
  - module: drover.compute._domain_restart
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._changes import withdrawal
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding

SPEC = {
    "uuid": {"type": "str", "required": True},
    "withdraw": {"type": "list", "elements": "str", "default": []},
}


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "domains": {"type": "list", "elements": "dict", "required": True, "options": SPEC},
            "patience": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    given = module.params
    for each in given["domains"]:
        each["uuid"] = binding.domain_uuid(module, each["uuid"], "looked at")
    with module.hypervisor() as conn:
        domains = withdrawal.look_at_all(conn, module)
    module.exit_json(changed=False, domains=domains)


if __name__ == "__main__":
    main()

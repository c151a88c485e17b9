#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _migration_trust
short_description: Set up and check the SSH keys and host keys that migrations need
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on a hypervisor, for the account that it runs as. The role
    P(drover.compute.hypervisor#role) calls it for the account that Ansible uses and for root,
    because libvirt's daemon connects by itself.
  - Each line that it writes ends with a mark that names its host. It changes no other line, and no
    key that exists. A private key never leaves its host.
options:
  state:
    description:
      - V(key) returns the public key of the account and the host keys of this host. A key is made
        if the account has none.
      - V(present) writes the keys of O(peers) to C(~/.ssh/authorized_keys) and their host keys to
        C(~/.ssh/known_hosts).
      - V(absent) removes the lines of O(hosts) from both files.
      - V(checked) connects to the libvirt of O(peers) as a migration does, and changes nothing.
    type: str
    choices: [key, present, absent, checked]
    required: true
  host:
    description: The name of this host in the inventory.
    type: str
    required: true
  peers:
    description:
      - The hosts, with C(host), C(uri) (null if others do not reach it by SSH), C(keys) (dicts of
        C(user) and C(public_key)), C(host_keys) and C(sources) (the addresses from which alone its
        keys are accepted). This host is one of them with O(state=present).
      - Lines of hosts that are not in this list stay.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: Its name in the inventory.
        type: str
        required: true
      uri:
        description: The libvirt URI by which other hosts reach it.
        type: str
      keys:
        description: The accounts that connect from there, with C(user) and C(public_key).
        type: list
        elements: dict
        default: []
        suboptions:
          user:
            description: The name of the account.
            type: str
            required: true
          public_key:
            description: Its public key. Empty in check mode, if the key would be made.
            type: str
            default: ""
      host_keys:
        description: Its public host keys.
        type: list
        elements: str
        default: []
      sources:
        description: Addresses and networks from which alone its keys are accepted.
        type: list
        elements: str
        default: []
  hosts:
    description: With O(state=absent), the lines of these hosts are removed. All hosts if it is
      empty.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.platform
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

import os

from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._migration import trust
from ansible_collections.drover.compute.plugins.module_utils._migration.trust import TrustProblem
from ansible_collections.drover.compute.plugins.module_utils._migration.trust_states import STATES


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "required": True},
            "host": {"type": "str", "required": True},
            "peers": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "host": {"type": "str", "required": True},
                    "uri": {"type": "str"},
                    "keys": {
                        "type": "list",
                        "elements": "dict",
                        "default": [],
                        "no_log": False,
                        "options": {
                            "user": {"type": "str", "required": True},
                            "public_key": {"type": "str", "default": "", "no_log": False},
                        },
                    },
                    "host_keys": {
                        "type": "list",
                        "elements": "str",
                        "default": [],
                        "no_log": False,
                    },
                    "sources": {"type": "list", "elements": "str", "default": []},
                },
            },
            "hosts": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    user, home = trust.account()
    try:
        outcome = STATES[module.params["state"]](module, user, os.path.join(home, ".ssh"))
    except (TrustProblem, OSError) as problem:
        text = str(problem).rstrip(".")
        module.fail_json(
            msg=(
                f"{module.params['host']}, account {user}: {text}. The SSH trust of this account"
                " was not set up."
            )
        )
    module.exit_json(**{"changed": False, "user": user, **outcome})


if __name__ == "__main__":
    main()

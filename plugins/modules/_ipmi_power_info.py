#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work.

from __future__ import annotations

DOCUMENTATION = r"""
module: _ipmi_power_info
short_description: Read the power state over IPMI
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads the power state of a machine from its management controller and changes nothing. C(community.general.ipmi_power)
    switches the power and has no state that only reads. So this module runs it in check mode, twice if the power is on.
  - The machine that runs the task needs C(pyghmi). The collection C(community.general) must be installed.
options:
  name:
    description: The name or address of the management controller.
    type: str
    required: true
  port:
    description: Its UDP port.
    type: int
    default: 623
  user:
    description: A user of the controller with the privilege level USER or higher.
    type: str
    required: true
  password:
    description: The user's password.
    type: str
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.attributes
"""

EXAMPLES = r"""
- name: Read the power state of a host
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read it from the management controller of kvm1
      drover.compute._ipmi_power_info:
        name: kvm1-bmc.example.com
        user: operator
        password: "{{ vault_bmc_password }}"
      register: power

    - name: Show it
      ansible.builtin.debug:
        var: power.power_state
"""

RETURN = r"""
power_state:
  description: V(on), V(off), or V(unknown) if the controller reports neither.
  returned: success
  type: str
  sample: 'on'
"""

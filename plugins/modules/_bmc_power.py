#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work.

from __future__ import annotations

DOCUMENTATION = r"""
module: _bmc_power
short_description: Read or switch the power by a management controller
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads the power state of a machine from its management controller, or sends a request to it. No
    request is ever mapped to another one.
  - The result of a failed request has C(begun), which is false only if nothing was done.
  - A controller that reports the uuid of its machine is compared with the machine that the store
    has for O(host). If it is another machine, the state is unknown, and the module sends no
    request.
options:
  host:
    description: The host of the controller. Without it, and without O(uuid), the machine is not
      compared.
    type: str
    default: ''
  uuid:
    description: The uuid that the controller reports for this host, if that is not the one of the
      machine itself.
    type: str
    default: ''
  driver:
    description: The protocol. C(ipmi) needs C(pyghmi) in the Python that runs Ansible.
    type: str
    choices: [redfish, ipmi]
    required: true
  address:
    description: The name or IP address of the controller, with a port if need be.
    type: str
    required: true
  user:
    description: A user of the controller.
    type: str
    required: true
  password:
    description: The user's password.
    type: str
    required: true
  request:
    description: Switch it on, cut the power, or shut it down cleanly. Without it the module reads
      the state.
    type: str
    choices: ['on', 'off', shutdown]
  wanted:
    description: Read until the power has this state or O(deadline) has passed; V(any) reads it
      once.
    type: str
    choices: ['on', 'off', any]
    default: any
  timeout:
    description: The seconds for which the module tries a busy controller again.
    type: int
    default: 300
  deadline:
    description: Seconds since 1970.
    type: float
    default: 0
  resource_id:
    description: The system of Redfish, if the controller has several.
    type: str
    default: ''
  ca_path:
    description: A file or folder with the certificates of the CAs for Redfish; by default the CAs
      of the machine.
    type: path
    default: ''
  validate_certs:
    description: True to check the certificate.
    type: bool
    default: true
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
# Only the roles and playbooks of this collection call this module.
[]
"""

#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work.

from __future__ import annotations

DOCUMENTATION = r"""
module: _power_machine
short_description: Compare the machine that a power driver switches with a host
author:
  - The drover.compute authors (@drover-compute)
description:
  - Compares the uuid that a power driver reports with the machine that the store has for a host. It
    changes nothing.
options:
  host:
    description: The host of the machine.
    type: str
    required: true
  reported:
    description: The uuid from the driver, such as the uuid of the domain of an outer libvirt.
      Without it the module compares nothing.
    type: str
    default: ''
  uuid:
    description: The uuid that the driver reports for this host, if that is not the one of the
      machine itself.
    type: str
    default: ''
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

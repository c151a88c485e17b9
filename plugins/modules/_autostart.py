#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _autostart
short_description: Refuse to boot a host whose libvirt would start a guest that is on another host
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads the other hosts for the domains with autostart that the store has on a host. The task
    fails if one of them is on another host.
  - A host that does not answer counts by its last report.
options:
  host:
    description: The host that is to boot. It is not read.
    type: str
    required: true
  not_done:
    description: The beginning of the refusal.
    type: str
    default: it is not booted
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.info_module
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

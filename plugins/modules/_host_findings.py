#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _host_findings
short_description: Warn of operations between hosts that will fail later, by the records of the
  store
author:
  - The drover.compute authors (@drover-compute)
description:
  - Compares the hosts that answered last, with one query of the store. The playbook
    C(drover.compute.discover) runs it at its end.
  - It finds versions of QEMU and libvirt that differ, hosts with one host uuid or one host name,
    migration addresses that are not of their host, and hosts that lack features of the CPU of the
    fleet. The playbook C(drover.compute.check) finds more, as it connects to the hosts.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.fleet_cpu
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

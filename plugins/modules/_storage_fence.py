#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _storage_fence
short_description: Record that a host is shut out of shared storage
author:
  - The drover.compute authors (@drover-compute)
description:
  - The role drover.compute.evacuate uses this module around the tasks of a fence of storage. It
    names the storage for these modules, and keeps their results in the store. It does not shut a
    host out by itself.
options:
  host:
    description: The host, by its name in the inventory. The run must have its lease.
    type: str
  hosts:
    description: With O(state=known), hosts by their names.
    type: list
    elements: str
  state:
    description:
      - V(known) finds the O(hosts) that are shut out, by the store. V(begun) writes down that the
        host is about to be shut out. V(verified) records the disks that it was seen to be cut off
        from. V(returned) reads the host and fails while it must stay shut out. V(lifted) records
        that this fence was lifted.
    type: str
    choices: [known, begun, verified, returned, lifted]
    required: true
  fence:
    description: With O(state=begun), O(state=verified) and O(state=lifted), C(ceph), or the
      absolute path of a file with tasks.
    type: str
  addresses:
    description: With O(state=begun), addresses from which the host reaches its storage, besides the
      addresses that discovery has seen.
    type: list
    elements: str
    default: []
  disks:
    description: With O(state=verified), C(disks) of O(state=begun).
    type: list
    elements: str
    default: []
  cut:
    description: With O(state=verified), the disks that it is cut off from.
    type: list
    elements: str
    default: []
  others:
    description: With O(state=verified), the other hypervisors. Some of them look if a client still
      has one of the images of Ceph open.
    type: list
    elements: str
    default: []
  force:
    description: With O(state=verified), names of rules to lift; V(storage_active) records the disks
      although a client has one open.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Each call with O(state=begun) needs a new V(verified).
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

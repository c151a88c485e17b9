#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _schedule
short_description: Pick hosts, and record the reason if there is none
author:
  - The drover.compute authors (@drover-compute)
description:
  - A step of the role P(drover.compute.place#role). It picks hosts for O(requests) as
    M(drover.compute.schedule_info) does, and claims nothing.
  - First it looks on all hosts for the names and uuids of O(requests). A domain that the store does
    not know is refused, because the instance may be there already. Hosts that do not answer are
    named.
  - If there is no valid host, it records the reason in the store as a decision of the scheduler,
    and fails.
options:
  requests:
    description: Requests as in the lookup P(drover.compute.schedule#lookup).
    type: list
    elements: dict
    required: true
  sections:
    description:
      - The sections that M(drover.compute._definitions) returns. In check mode they are kept in the
        store for the decision and taken back, because the task before has kept nothing.
    type: dict
    default: {}
  networks:
    description: The C(networks) of the definition of each request. A host that lacks a network or a
      bridge of them is left out.
    type: list
    elements: raw
    default: []
  guests:
    description:
      - The hardware in the definition of each request, the instances that
        M(drover.compute._definitions) returns with C(guest). A host that cannot run such a guest is
        left out.
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    support: full
    details:
      - In check mode the reason is not recorded.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details:
      - Each task that finds no host is recorded.
extends_documentation_fragment:
  - drover.compute.scheduler
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: allocation_candidates_info
short_description: List every way to meet a request for resources
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Finds the resource providers that can meet a request for resources, traits and aggregates, on
    flat, nested and sharing providers, like C(GET /allocation_candidates) of OpenStack Placement at
    microversion 1.39.
  - Each candidate can be claimed unchanged, but another run may claim its resources first.
  - It reads the store and changes nothing. A failure is one sentence.
  - The lookup P(drover.compute.allocation_candidates#lookup) gives the same answer in templates.
options:
  query:
    description:
      - A mapping with C(resources), C(required), C(member_of), C(in_tree), C(groups),
        C(group_policy), C(same_subtree), C(root_required) and C(limit), as in the lookup
        P(drover.compute.allocation_candidates#lookup).
      - Or the query string of Placement, for example
        V(resources=VCPU:1,MEMORY_MB:512&required=CUSTOM_GOLD).
    type: raw
    required: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute.allocation
  - plugin: drover.compute.allocation_candidates
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show where an instance fits
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Find candidates
      drover.compute.allocation_candidates_info:
        query:
          resources: {VCPU: 1, MEMORY_MB: 64}
          limit: 10
      register: candidates

    - name: Count them
      ansible.builtin.debug:
        msg: "{{ candidates.allocation_requests | length }} ways"
"""

RETURN = r"""
allocation_requests:
  description: The candidates, sorted by the names of their providers. The list is empty if nothing
    fits.
  returned: success
  type: list
  elements: dict
  contains:
    allocations:
      description: The amounts of each provider, a mapping of uuids to C(resources).
      type: dict
      returned: always
      sample: {4e8e5957-649f-477b-9e5b-f1f75b21c03c: {resources: {VCPU: 1, MEMORY_MB: 64}}}
    mappings:
      description: The uuids of the providers of each group by its suffix, V("") for the group
        without a suffix.
      type: dict
      returned: always
      sample: {"": [4e8e5957-649f-477b-9e5b-f1f75b21c03c]}
provider_summaries:
  description:
    - Every provider of every tree that a candidate uses, by uuid. Each has C(name), C(resources),
      C(traits), C(parent_provider_uuid) and C(root_provider_uuid).
  returned: success
  type: dict
  sample: {4e8e5957-649f-477b-9e5b-f1f75b21c03c: {name: kvm1, resources: {VCPU: {capacity: 64, used:
    2}}, traits: []}}
"""

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup allocation_candidates."""

from __future__ import annotations

DOCUMENTATION = r"""
name: allocation_candidates
short_description: List every way to meet a request for resources
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Finds the resource providers that can meet a request for resources, traits and aggregates, on
    flat, nested and sharing providers, like C(GET /allocation_candidates) of OpenStack Placement at
    microversion 1.39.
  - It reads and never writes. Each candidate can be claimed unchanged, but another run may claim
    its resources first.
  - Candidates are sorted by the names of their providers, so that the same store gives the same
    answer.
options:
  _terms:
    description:
      - Queries. Each is a mapping, or the query string of Placement, for example
        V(resources=VCPU:1,MEMORY_MB:512&required=CUSTOM_GOLD).
      - C(resources) is a mapping of resource classes to amounts, whole numbers of at least 1.
      - C(required) is a list of traits. V(!TRAIT) forbids one, and an inner list means any of its
        traits. The used providers together must have the required traits; none of them may have a
        forbidden one.
      - C(member_of) is a list of uuids of placement aggregates, also with V(!UUID) and inner lists.
        An aggregate of the root of a tree counts for the whole tree.
      - C(in_tree) is the uuid of a provider. Only providers of its tree are used.
      - C(groups) is a mapping of suffixes (1 to 64 letters, digits, V(_) and V(-)) to mappings of
        these four. One provider serves the whole group. It has the traits and is itself in the
        aggregates.
      - C(group_policy) is V(isolate) if each group needs a different provider, else V(none). It is
        required with two or more groups.
      - C(same_subtree) is a list of suffixes, or a list of such lists. One of the providers of
        these groups is above the others, or the same. A group in this list does not need
        C(resources).
      - C(root_required) is a list of traits that the root of the tree must have, or with V(!TRAIT)
        must not have.
      - C(limit) is the greatest number of candidates. The first ones are returned.
    required: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
seealso:
  - module: drover.compute.allocation_candidates_info
  - module: drover.compute.allocation
  - plugin: drover.compute.schedule
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show where an instance fits
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Find candidates for an instance
      ansible.builtin.set_fact:
        candidates: "{{ lookup('drover.compute.allocation_candidates', {'resources': {'VCPU': 1, 'MEMORY_MB': 64}}) }}"

    - name: Show the providers
      ansible.builtin.debug:
        msg: "{{ candidates.provider_summaries[item].name }}"
      loop: "{{ candidates.allocation_requests | map(attribute='allocations') | map('first') | unique }}"

    - name: Count the candidates with CPUs and memory of one NUMA node on an enabled host
      ansible.builtin.debug:
        msg: "{{ lookup('drover.compute.allocation_candidates', wanted).allocation_requests | length }} ways"
      vars:
        wanted:
          resources: {DISK_GB: 1}
          groups:
            numa:
              resources: {VCPU: 1, MEMORY_MB: 64}
          root_required: ['!COMPUTE_STATUS_DISABLED']
          limit: 10

    - name: Use a query string of Placement
      ansible.builtin.debug:
        msg: "{{ lookup('drover.compute.allocation_candidates', 'resources=VCPU:1,MEMORY_MB:64&limit=1').allocation_requests }}"
"""

RETURN = r"""
_raw:
  description: One answer per query.
  type: list
  elements: dict
  contains:
    allocation_requests:
      description:
        - The candidates. Each has C(allocations), which is a mapping of uuids of providers to
          C(resources), the amounts by resource class; and C(mappings), the uuids of the providers
          of each group by its suffix (V("") for the group without a suffix).
        - The list is empty if nothing fits.
      type: list
      elements: dict
      returned: always
    provider_summaries:
      description:
        - Every provider of every tree that a candidate uses, by uuid.
        - Each has C(name), C(resources) (C(capacity) and C(used) by resource class), C(traits),
          C(parent_provider_uuid) and C(root_provider_uuid).
      type: dict
      returned: always
"""

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import (
    DroverLookup,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import (
    query_string,
    response,
)


class LookupModule(DroverLookup):
    def answer(self, terms: list[Any]) -> list[Any]:
        queries = [query_string.read(term) for term in terms]
        if not queries:
            return []
        with self.store().read() as connection:
            return [response.answer(connection, each) for each in queries]

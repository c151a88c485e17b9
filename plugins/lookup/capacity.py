# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup capacity."""

from __future__ import annotations

DOCUMENTATION = r"""
name: capacity
short_description: Count how many more instances of a flavor fit
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Counts how many more instances of a flavor, or of a request, fit into the fleet, on each compute
    node and in total, by the host filters of the scheduler and the free capacity. It names the
    resource class that runs out first.
  - One provider must have all that one instance takes of a class. Groups of extra specs
    (C(resources1:)) count as their sum, with any traits.
  - It also counts how many fit if the worst host is lost and all its instances are restarted on the
    others (N+1).
  - It reads and never writes.
options:
  _terms:
    description:
      - Names of flavors in the store, or requests as in the lookup
        P(drover.compute.schedule#lookup), with or without C(name).
    required: true
  loss:
    description: Also count the loss of a host. V(false) does not read the instances, which is
      faster in a large fleet.
    type: bool
    default: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
  - drover.compute.scheduler.plugin
seealso:
  - module: drover.compute.capacity_info
  - plugin: drover.compute.schedule
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show the free capacity
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Count
      ansible.builtin.set_fact:
        capacity: "{{ lookup('drover.compute.capacity', {'vcpus': 2, 'memory_mb': 2048, 'disk_gb': 20}) }}"

    - name: Show it
      ansible.builtin.debug:
        msg: >-
          {{ capacity.total }} more fit, short is {{ capacity.short }}.
          {{ capacity.with_loss.total ~ ' if the worst host, ' ~ capacity.with_loss.host ~ ', is lost.' if capacity.with_loss.survives else
             'If ' ~ capacity.with_loss.host ~ ' is lost, its instances do not fit on the others.' }}
"""

RETURN = r"""
_raw:
  description: One answer per flavor or request.
  type: list
  elements: dict
  contains:
    name: {description: The name of the flavor or request., type: str, returned: always}
    total: {description: The number of instances that still fit., type: int, returned: always}
    short:
      description: The resource class that runs out first on most of the nodes. Null if no node
        passes the host filters.
      type: str
      returned: always
    hosts:
      description:
        - Each compute node with C(host), C(node), C(count), the number of instances that fit there,
          and C(short), the class that runs out first, null if the node is rejected.
        - C(rejected_by) is the host filter, or the limit of the request, that rejects the node
          whatever is on it, and C(reason) why, if it gives a reason. Both are null if none does.
      type: list
      elements: dict
      returned: always
    with_loss:
      description:
        - The result if the worst host is lost. Null without O(loss), or without any host. In fleets
          of many equal hosts C(total) may be a little less than the true number, never more.
      type: dict
      returned: always
      contains:
        total: {description: "The number that fit then, V(0) if its instances do not fit on the
          others.", type: int, returned: always}
        host: {description: The host with the loss that leaves the least capacity., type: str,
          returned: always}
        survives: {description: All its instances fit on the other hosts., type: bool, returned:
          always}
"""

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import (
    DroverLookup,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import capacity


class LookupModule(DroverLookup):
    VARIABLES = {
        "policy": "scheduler",
        "policy_file": "scheduler_file",
        "service_down_time": "service_down_time",
    }
    OPTIONS = ("loss",)

    def answer(self, terms: list[Any]) -> list[Any]:
        policy = self.policy()
        with self.store().read() as connection:
            return capacity.count(
                connection,
                terms,
                policy,
                self.get_option("loss"),
                self.get_option("service_down_time"),
            )

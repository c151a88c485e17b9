# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup rebalance_plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rebalance_plan
short_description: Show a score of imbalance, and the few moves that improve it
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - The score is the sum over resource classes of the standard deviation of the hosts' free share, over hosts that are up and enabled.
    V(0) is even.
  - Lists moves that improve it, each with its gain. No move costs more than it gains, so that a second plan after the first was
    carried out has no moves. Every step keeps capacity, host filters and server groups.
  - No instance moves from or to a host that is disabled, in maintenance or down. While a host is drained, until it is enabled again, no
    instance moves at all. An instance that was moved for any reason in the last O(cooldown) seconds stays.
  - It reads and never writes or moves anything. The same store gives the same plan, up to the end of a cool-down.
options:
  _terms:
    description: No terms; the plan is for the whole fleet.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
  - drover.compute.scheduler.plugin
  - drover.compute.plans.rebalance
  - drover.compute.plans.rebalance_plugin
  - drover.compute.plans.home
  - drover.compute.plans.home_plugin
seealso:
  - module: drover.compute.plan_rebalance_info
  - plugin: drover.compute.drain_plan
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Look at the balance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Plan
      ansible.builtin.set_fact:
        plan: "{{ lookup('drover.compute.rebalance_plan', max_moves=5) }}"

    - name: Show the plan
      drover.compute.show:
        lines: "{{ plan.lines }}"
"""

RETURN = r"""
_raw:
  description: One plan.
  type: list
  elements: dict
  contains:
    score_before: {description: The score now., type: float, returned: always}
    score_after: {description: The score when all moves are done., type: float, returned: always}
    moves:
      description:
        - The moves in the order of their beginning, each with C(uuid), C(name), C(live), C(from_host), C(from_node), C(host), C(node),
          C(provider), C(memory_mb), C(server_group), C(gain), C(cost), C(seconds), C(wave) and C(order), and with the amounts of
          its copies (C(copies_mib), C(copies_disk_mib), C(copying), C(disks), C(unknown)) as in P(drover.compute.drain_plan#lookup).
      type: list
      elements: dict
      returned: always
    waves: {description: The number of waves., type: int, returned: always}
    seconds: {description: The expected duration in seconds., type: float, returned: always}
    estimate:
      description: The expected duration, the rates that it is based on, and the unknown parts that are not counted, as lines of text for people.
      type: list
      elements: str
      returned: always
    reason: {description: The reason why there are not more moves., type: str, returned: always}
    cooling: {description: Names of the instances that were moved too recently., type: list, elements: str, returned: always}
    lines: {description: The plan as lines of text for people., type: list, elements: str, returned: always}
"""

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import (
    DroverLookup,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    REBALANCE_VARIABLES,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    RebalanceQuestion,
)


class LookupModule(DroverLookup):
    VARIABLES = {
        "policy": "scheduler",
        "policy_file": "scheduler_file",
        **REBALANCE_VARIABLES,
        "service_down_time": "service_down_time",
    }

    def answer(self, terms: list[Any]) -> list[Any]:
        if terms:
            raise DroverError("rebalance_plan takes no terms: it plans for the whole fleet.")
        names = (*REBALANCE_VARIABLES, "service_down_time")
        store = self.store()
        question = RebalanceQuestion(
            self.policy(),
            **{name: self.get_option(name) for name in names},
            own=self.own(store).guests(),
        )
        with store.read() as connection:
            return [question.plan(connection)]

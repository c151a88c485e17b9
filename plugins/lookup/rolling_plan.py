# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup rolling_plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rolling_plan
short_description: Plan batches of hosts that can be down together
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Forms the fewest batches that it finds of hosts that can be down together. All instances of a batch then fit on the other hosts,
    by capacity, host filters and server groups.
  - Hosts that are down or disabled are no destinations. Hosts that cannot be emptied are in no batch and are named with the reason.
  - It reads and never writes. The playbook drover.compute.rolling_maintenance plans again before each batch.
options:
  _terms:
    description: The hosts of the maintenance. By default all hosts of the store.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
  - drover.compute.scheduler.plugin
  - drover.compute.plans.rolling
  - drover.compute.plans.rolling_plugin
seealso:
  - module: drover.compute.plan_rolling_info
  - plugin: drover.compute.drain_plan
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Plan a maintenance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Form the batches
      ansible.builtin.set_fact:
        plan: "{{ lookup('drover.compute.rolling_plan', spare_hosts=1) }}"

    - name: Show them
      drover.compute.show:
        lines: "{{ plan.lines }}"
"""

RETURN = r"""
_raw:
  description: One plan.
  type: list
  elements: dict
  contains:
    batches:
      description: The batches in their order, each a list of hosts.
      type: list
      elements: list
      returned: always
    blocked:
      description: Hosts that are in no batch, each with C(host) and C(reason).
      type: list
      elements: dict
      returned: always
    down:
      description: Hosts of the batches that are down, each with C(host) and C(reason).
      type: list
      elements: dict
      returned: always
    bound: {description: No plan can have fewer batches than this., type: int, returned: always}
    lines: {description: The plan as lines of text for people., type: list, elements: str, returned: always}
"""

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import (
    DroverLookup,
    flat,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import shown
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    RollingQuestion,
    naming_own,
)


class LookupModule(DroverLookup):
    VARIABLES = {
        "policy": "scheduler",
        "policy_file": "scheduler_file",
        "service_down_time": "service_down_time",
        "spare_hosts": "rolling_spare_hosts",
        "batch_size": "rolling_batch_size",
    }
    OPTIONS = ("back", "unmovable", "empty")

    def answer(self, terms: list[Any]) -> list[Any]:
        names = ("spare_hosts", "batch_size", "back", "unmovable", "service_down_time")
        question = RollingQuestion(self.policy(), **{name: self.get_option(name) for name in names})
        hosts = flat(terms) if terms else None
        odd = next((each for each in hosts or () if not isinstance(each, str)), "")
        if odd != "":
            raise DroverError(
                f"A term of this lookup must be the name of a host, not {shown(odd)}."
            )
        store = self.store()
        with store.read() as connection:
            plan = question.plan(connection, hosts, self.get_option("empty"))
        return [naming_own(plan, self.own(store))]

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room by a ratio that an aggregate sets."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.capacity import CapacityFilter, number


class AggregateCapacityFilter(CapacityFilter):
    """CapacityFilter by the allocation ratio in the metadata of the host's aggregates.

    The least of several values counts; unreadable or none means the ratio of the inventory. As the
    claim goes by the inventory, a ratio of an aggregate can only lower what a host takes.
    """

    ratio_key = ""

    def passes(self, states, spec):
        amount = spec.resources.get(self.resource_class, 0)
        fits = super().passes(states, spec)
        if not amount or self.ratio_key not in states.aggregates.keys:
            return fits
        resource = states.resources[self.resource_class]
        keep = resource.used + amount <= self._capacity(states)
        held = states.holds_at(spec.key, self.resource_class)
        return fits & (keep if held is None else keep | held)

    def _capacity(self, states):
        resource = states.resources[self.resource_class]
        return (resource.total - resource.reserved) * states.aggregates.least(self.ratio_key, resource.ratio)

    def lacks(self, states, spec, index):
        if super().passes(states, spec)[index]:
            amount = spec.resources[self.resource_class]
            capacity = float(self._capacity(states)[index])
            free = max(capacity - float(states.resources[self.resource_class].used[index]), 0)
            return (
                f"{self.label}: asked {amount} {self.unit}, {number(free)} {self.unit} free of {number(capacity)}"
                f" by the {self.ratio_key} of its aggregates"
            )
        return super().lacks(states, spec, index)

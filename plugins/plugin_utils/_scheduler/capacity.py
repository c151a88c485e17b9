# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity rule for one resource class, shared by CoreFilter, RamFilter and DiskFilter.

It also has room by the ratio of an aggregate, and limits on the number of things on a host.
"""

from __future__ import annotations

from typing import Any

from .._common import capacity_rule, resource_classes
from .._common.arrays import BoolArray, np
from .components import HostFilter
from .host_states import HostStates
from .request_spec import RequestSpec


def number(value: float) -> str:
    """Return 12.0 as ``12``, 1.5 as ``1.5``."""
    value = float(value)
    return str(int(value)) if value.is_integer() else f"{value:g}"


class CapacityFilter(HostFilter):
    """Room for one resource class by Placement's rule (N10.2).

    used + asked <= (total - reserved) * ratio, unrounded, and min_unit <= asked <= max_unit, and
    asked a multiple of step_size. It is the rule of the claim: on a host that passes here the claim
    succeeds, unless another claim was faster. With an asked amount of 0 every host passes. A node
    without an inventory of the class fails.

    There are two differences from Nova's old Core/Ram/DiskFilter (N2.7): a host without inventory
    does not pass, and reserved room is subtracted before the ratio is applied, as Placement does.
    """

    # Nova checks forced hosts with Placement too (N1.5), and so does our claim.
    skipped_when_forced = False
    resource_class = ""
    label = ""

    @property
    def unit(self) -> str:
        """The unit of the class; empty for a class that is counted in pieces."""
        return resource_classes.unit_of(self.resource_class) or ""

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        amount = spec.resources.get(self.resource_class, 0)
        if not amount:
            return np.ones(states.size, dtype=bool)
        return states.fits(spec, self.resource_class)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        amount = spec.resources[self.resource_class]
        if states.provider_capacity is not None and states.provider_capacity.decides(
            self.resource_class, spec
        ):
            return self._exact_rejection_reason(
                states.provider_capacity.left(self.resource_class, index), amount
            )
        resource = states.resources.get(self.resource_class)
        if resource is not None and resource.providers is not None and resource.providers.several:
            return self._exact_rejection_reason(resource.providers.left(index), amount)
        request_text = f"{self.label}: asked {self._amount(amount)}"
        if resource is None or not resource.total[index]:
            return f"{request_text}, the host reports none at all"
        if not capacity_rule.has_room(resource.used[index], amount, resource.capacity[index]):
            free = max(resource.capacity[index] - resource.used[index], 0)
            return (
                f"{request_text}, {self._amount(number(free))} free of"
                f" {number(resource.capacity[index])}"
            )
        if amount > resource.max_unit[index]:
            return (
                f"{request_text}, one instance may have {resource.max_unit[index]} {self.unit} at"
                " most"
            )
        if amount < resource.min_unit[index]:
            return (
                f"{request_text}, one instance must take {resource.min_unit[index]} {self.unit} at"
                " least"
            )
        return (
            f"{request_text}, the host gives multiples of {resource.step_size[index]} {self.unit}"
            " only"
        )

    def _exact_rejection_reason(self, left: tuple[float, float] | None, amount: int) -> str:
        request_text = f"{self.label}: asked {self._amount(amount)}"
        if left is None:
            return f"{request_text}, the host has none at all"
        free, capacity = left
        if free < amount:
            return (
                f"{request_text}, {self._amount(number(max(free, 0)))} free of {number(capacity)}"
            )
        return (
            f"{request_text}, none of its providers gives that amount, or not with the requested"
            " traits and groups"
        )

    def _amount(self, amount: float | str) -> str:
        return f"{amount} {self.unit}".rstrip()

    def distance(self, states: HostStates, spec: RequestSpec, index: int) -> float:
        amount = spec.resources.get(self.resource_class, 0)
        resource = states.resources.get(self.resource_class)
        if not amount or resource is None:
            return 1.0
        short = amount - resource.most_free(index)
        return float(short) / amount if short > 0 else 1.0


class ClassFilter(CapacityFilter):
    """Room for a class without a separate host filter; there is one for each class in a request."""

    def __init__(self, resource_class: str) -> None:
        super().__init__()
        self.name = self.resource_class = resource_class
        self.label = resource_classes.words_of(resource_class)


class LimitFilter(HostFilter):
    """A figure of the host is below a limit.

    column: the name of the figure among the host states; limit_option: the name of the option;
    label: words for people.
    """

    column = ""
    limit_option = ""
    label = ""

    def limit(self, states: HostStates) -> Any:
        """A number, or an array with one per host."""
        return self.option[self.limit_option]

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        return getattr(states, self.column) < self.limit(states)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        most = np.broadcast_to(self.limit(states), states.size)[index]
        return f"{self.label}: the host has {getattr(states, self.column)[index]}, {most:g} allowed"


class AggregateLimitFilter(LimitFilter):
    """LimitFilter with the limit that the host's aggregates set under the option's name.

    Return the least of several values as a whole number; the option if there is none or one cannot
    be read.
    """

    reads: tuple[str, ...] = ("aggregates",)

    def limit(self, states: HostStates) -> Any:
        return states.aggregates.least(self.limit_option, super().limit(states), int)


class AggregateCapacityFilter(CapacityFilter):
    """CapacityFilter by the allocation ratio in the metadata of the host's aggregates.

    The least of several values counts; unreadable or none means the ratio of the inventory. The
    claim uses the inventory, so a ratio of an aggregate can only lower the capacity of a host.
    """

    ratio_key = ""

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        amount = spec.resources.get(self.resource_class, 0)
        fits = super().passes(states, spec)
        if not amount or self.ratio_key not in states.aggregates.keys:
            return fits
        resource = states.resources[self.resource_class]
        keep = capacity_rule.has_room(resource.used, amount, self._capacity(states))
        held = states.holds_at(spec.key, self.resource_class)
        return fits & (keep if held is None else keep | held)

    def _capacity(self, states: HostStates) -> np.ndarray:
        resource = states.resources[self.resource_class]
        return capacity_rule.capacity(
            resource.total,
            resource.reserved,
            states.aggregates.least(self.ratio_key, resource.ratio),
        )

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        if super().passes(states, spec)[index]:
            amount = spec.resources[self.resource_class]
            capacity = float(self._capacity(states)[index])
            free = max(capacity - float(states.resources[self.resource_class].used[index]), 0)
            return (
                f"{self.label}: asked {amount} {self.unit}, {number(free)} {self.unit} free of"
                f" {number(capacity)} by the {self.ratio_key} of its aggregates"
            )
        return super().rejection_reason(states, spec, index)

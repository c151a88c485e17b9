# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers: complete methods to pick hosts, by the policy key ``driver``.

filter_scheduler filters and weighs. chance, simple and least_cost are the older methods of N4; they
exist so that a policy written for them has the same meaning here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from .._common.arrays import FloatArray, IntArray, np
from .._records.claims import Selection
from . import attributes, filter_scheduler
from .errors import NoValidHost
from .filtering import Filtering
from .host_filters.compute_filter import ComputeFilter
from .host_filters.isolated_hosts_filter import IsolatedHostsFilter
from .host_states import HostStates
from .policy import Policy
from .request_spec import RequestSpec


def schedule(
    states: HostStates, specs: Sequence[RequestSpec], policy: Policy, explain: bool = True
) -> list[Selection]:
    """Return selections by the policy's driver, or by a request's own driver; see
    filter_scheduler.schedule.
    """
    return filter_scheduler.place_batch(states, specs, _Drivers(states, specs, policy, explain))


class _Drivers:
    """A batch's drivers; most batches have one."""

    def __init__(
        self, states: HostStates, specs: Sequence[RequestSpec], policy: Policy, explain: bool
    ) -> None:
        self._policy = policy
        self._make: dict[str, Callable[[], filter_scheduler.SchedulerDriver]] = {
            "filter_scheduler": lambda: filter_scheduler.FilterScheduler(
                states, specs, policy, explain
            ),
            "chance": lambda: Chance(states, policy),
            "simple": lambda: Simple(states, policy),
            "least_cost": lambda: LeastCost(states, policy),
        }
        self._made: dict[str, filter_scheduler.SchedulerDriver] = {}

    def place(self, spec: RequestSpec, done: int, total: int) -> tuple[int, Selection]:
        name = self._policy.of(spec).driver
        if name not in self._made:
            self._made[name] = self._make[name]()
        return self._made[name].place(spec, done, total)

    def finish(self) -> None:
        for driver in self._made.values():
            driver.finish()


class HostOrdering:
    """An order of the hosts for one instance, best first."""

    def __init__(self, states: HostStates, policy: Policy) -> None:
        self.states = states
        self._policy = policy
        #: The policy for the present instance.
        self.policy = policy
        self._done = self._total = 0

    def place(self, spec: RequestSpec, done: int, total: int) -> tuple[int, Selection]:
        """Return (row, selection) of the host for an instance; see filter_scheduler.place_batch."""
        self.policy, self._done, self._total = self._policy.of(spec), done, total
        order, score = self.order(spec)
        index = int(order[0])
        selection = filter_scheduler.make_selection(self.states, spec, index, score(index))
        spares = [
            int(row) for row in order[1:] if self.states.cell_of[row] == self.states.cell_of[index]
        ]
        selection["alternates"] = [
            filter_scheduler.alternate(self.states, spec, row, score(row))
            for row in spares[: self.policy.max_attempts - 1]
        ]
        return index, selection

    def finish(self) -> None:
        """Do nothing: the selections have their alternates already."""

    def order(self, spec: RequestSpec) -> tuple[IntArray, Callable[[int], float]]:
        """Return (int array of rows, not empty, best first; function from a row to its figure).

        :raises NoValidHost: there is no host.
        """
        raise NotImplementedError

    def failure(self, spec: RequestSpec, policy: Policy) -> NoValidHost:
        return filter_scheduler.failure(self.states, spec, policy, self._done, self._total)

    def living(self, spec: RequestSpec) -> IntArray:
        """Return the rows with an enabled service that is up, with room, that the request itself
        does not exclude.

        Room is the claim's rule. The old schedulers did not check it; a host that cannot be claimed
        would only fail later here.
        """
        plain = self.policy.bare([ComputeFilter()])
        filtering = Filtering(self.states, spec, plain)
        rows = filtering.passed()
        if not len(rows):
            raise self.failure(spec, plain)
        return rows


class Chance(HostOrdering):
    """A random host that is enabled and up (N4.1).

    No host filter runs and no host is weighed. Hosts of a batch differ as long as there are enough.
    The same instance always gets the same host for the same hosts: a lookup may be evaluated
    several times.
    """

    def __init__(self, states: HostStates, policy: Policy) -> None:
        super().__init__(states, policy)
        self._taken: set[int] = set()

    def order(self, spec: RequestSpec) -> tuple[IntArray, Callable[[int], float]]:
        rows = self.living(spec).tolist()
        random.Random(spec.key).shuffle(rows)
        order = [row for row in rows if row not in self._taken] + [
            row for row in rows if row in self._taken
        ]
        self._taken.add(order[0])
        return np.array(order), lambda row: 0.0


class Simple(HostOrdering):
    """The host with the fewest vCPUs in use, up to max_cores (N4.2).

    Isolated images and hosts are matched as in IsolatedHostsFilter with restrict. If even the least
    loaded host would exceed max_cores, the request fails at once, because all others are fuller;
    skip_isolated_core_check exempts isolated images from this check. The figure is the vCPUs in
    use.
    """

    def order(self, spec: RequestSpec) -> tuple[IntArray, Callable[[int], float]]:
        rows = self.living(spec)
        option = self.policy.options
        isolation = IsolatedHostsFilter(
            {**option, "restrict_isolated_hosts_to_isolated_images": True}
        )
        rows = rows[isolation.passes(self.states, spec)[rows]]
        if not len(rows):
            raise NoValidHost(
                f"No valid host for {spec.name} ({spec.size}): every host that is enabled and up is"
                " on the wrong side of isolated_images and isolated_hosts; correct these or pick"
                " another image."
            )
        used = (
            self.states.resources["VCPU"].used
            if "VCPU" in self.states.resources
            else np.zeros(self.states.size)
        )
        order = rows[np.argsort(used[rows], kind="stable")]
        least = int(used[order[0]])
        isolated = spec.image is not None and bool(
            {spec.image.name, spec.image.id} & set(option["isolated_images"])
        )
        vcpus = spec.resources.get("VCPU", 0)
        if (
            not (isolated and option["skip_isolated_core_check"])
            and least + vcpus > option["max_cores"]
        ):
            raise NoValidHost(
                f"No valid host for {spec.name} ({spec.size}): the least loaded host,"
                f" {self.states.label(int(order[0]))}, has {least} vCPU in use, and with {vcpus}"
                f" more it would pass max_cores ({option['max_cores']}); raise max_cores or free"
                " some."
            )
        return order, lambda row: float(used[row])


def _fill_first(states: HostStates, spec: RequestSpec) -> FloatArray:
    return attributes.NUMBERS["free_ram_mb"](states).astype(np.float64)


def _noop(states: HostStates, spec: RequestSpec) -> FloatArray:
    return np.ones(states.size, dtype=np.float64)


#: Cost functions by the names of policy.COST_FUNCTIONS.
COSTS = {"compute_fill_first": _fill_first, "noop": _noop}


class LeastCost(HostOrdering):
    """The lowest sum of weight * cost wins (N4.3, Essex and Folsom).

    Option least_cost_functions: {function: weight}, compute_fill_first (free_ram_mb) at -1.0 by
    default, which spreads; a positive weight fills hosts first. Nothing is normalised; of equal
    sums the first by (host, node) wins. Host filters run as in the filter scheduler. The figure is
    the sum.
    """

    def order(self, spec: RequestSpec) -> tuple[IntArray, Callable[[int], float]]:
        filtering = Filtering(self.states, spec, self.policy)
        rows = filtering.passed()
        if not len(rows):
            raise self.failure(spec, self.policy)
        cost = np.zeros(self.states.size, dtype=np.float64)
        for name, weight in self.policy.options["least_cost_functions"].items():
            cost += weight * COSTS[name](self.states, spec)
        return rows[np.argsort(cost[rows], kind="stable")], lambda row: float(cost[row])

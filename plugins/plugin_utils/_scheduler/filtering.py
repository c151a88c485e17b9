# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reduction of the hosts to the hosts that may take an instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._common import resource_classes
from .._common.arrays import BoolArray, IntArray, np
from .._records.claims import Stage
from .capacity import ClassFilter
from .components import HostFilter
from .errors import SchedulerError
from .host_filters.numa_topology_filter import NUMATopologyFilter
from .host_filters.pci_passthrough_filter import PciPassthroughFilter
from .host_states import HostStates
from .policy import Policy
from .prefilters import pre_filters, traits_asked
from .request_spec import RequestSpec

#: The name of a rule, and a mask of the rows that pass.
Mask = tuple[str, BoolArray]
#: A limit of the request or of a caller: its name, the rows that pass, and the reason against the
#: others, in words.
Limit = tuple[str, BoolArray, str]


def request_limits(states: HostStates, spec: RequestSpec) -> list[Limit]:
    """Return the limits of the request itself on hosts, before any host filter (N1.5).

    :returns: ignore_hosts (without regard to case), ignore_nodes
        (node names or provider uuids), host (exact name of the host or of a node), node,
        force_hosts (without regard to case), force_nodes.
    """
    limits = []
    if spec.ignore_hosts:
        limits.append(
            ("ignore_hosts", ~states.named(spec.ignore_hosts, fold=True), "to be ignored")
        )
    if spec.ignore_nodes:
        nodes = set(spec.ignore_nodes)
        keep = states.mask(lambda i: states.node[i] not in nodes and states.uuid[i] not in nodes)
        limits.append(("ignore_nodes", keep, "to be ignored"))
    if spec.host is not None:
        keep = states.named((spec.host,)) | states.named((spec.host,), "node")
        limits.append(("host", keep, f"not the requested host {spec.host}"))
    if spec.node is not None:
        limits.append(
            ("node", states.named((spec.node,), "node"), f"not the requested node {spec.node}")
        )
    if spec.force_hosts:
        limits.append(
            (
                "force_hosts",
                states.named(spec.force_hosts, fold=True),
                "not one of the requested hosts",
            )
        )
    if spec.force_nodes:
        limits.append(
            (
                "force_nodes",
                states.named(spec.force_nodes, "node"),
                "not one of the requested nodes",
            )
        )
    return limits


def ask_filter(each: HostFilter, states: HostStates, spec: RequestSpec) -> BoolArray:
    """Return the answer of a host filter, checked.

    :raises SchedulerError: the filter raises an exception, or does not give a bool for each host;
        the message names the filter.
    """
    try:
        keep = each.passes(states, spec)
    except SchedulerError:
        raise
    except Exception as problem:
        raise SchedulerError(
            f"The host filter {each.name} failed: {type(problem).__name__}: {problem}. "
            "Correct the filter or take it out of enabled_filters."
        ) from None
    if not isinstance(keep, np.ndarray) or keep.shape != (states.size,):
        raise SchedulerError(
            f"The host filter {each.name} must give one true or false per host; correct it or take"
            " it out of enabled_filters."
        )
    return keep if keep.dtype == bool else keep.astype(bool)


class Filtering:
    """A reduction for one request, usable many times while equivalent instances are placed.

    Answers that do not change with placed instances are computed once: limits, pre-filters, host
    filters with ``run_filter_once_per_request``, and the room by the claim's rule of classes
    without an enabled host filter. As in Nova with Placement (N1.5), hosts that have become full
    since are still weighed, so the caller that picks must check ``has_capacity_left``.
    """

    def __init__(
        self, states: HostStates, spec: RequestSpec, policy: Policy, limits: Sequence[Limit] = ()
    ) -> None:
        self._states = states
        self._spec = spec
        self._policy = policy
        self._limits = list(limits) + request_limits(states, spec)
        self._filters = [
            each for each in policy.filters if not (spec.forced and each.skipped_when_forced)
        ]
        covered = {each.resource_class for each in self._filters if each.resource_class}
        # With a ClassFilter the explanation also names a class without a column, or one that some
        # host lacks.
        usual = [rc for rc in resource_classes.KEYS if rc in states.resources]
        other = [rc for rc in spec.resources if rc not in covered and rc not in usual]
        self._filters += [ClassFilter(rc) for rc in other]
        # Cells and devices are part of the request, so they count with any list of host filters.
        enabled = {each.name for each in self._filters}
        self._filters += [
            each()
            for each in (PciPassthroughFilter, NUMATopologyFilter)
            if each.name not in enabled and not each().not_applicable(spec)
        ]
        self.uncovered = [rc for rc in spec.resources if rc not in covered and rc not in other]
        self._before = [(name, keep) for name, keep, _words in self._limits]
        names = {each.name for each in self._filters}
        self._before += [
            (name, keep)
            for name, keep in pre_filters(states, spec, policy.options, names)
            if not keep.all()
        ]
        self._kept: dict[str, BoolArray] = {}
        self._room: BoolArray | None = None
        self._static: BoolArray | None = None
        self._changing: list[HostFilter] = []
        self._last: tuple[bytes, IntArray] | None = None

    def next_instance(self, spec: RequestSpec) -> None:
        """Continue with an instance that differs only in name and uuid."""
        self._spec = spec

    @property
    def filters(self) -> list[HostFilter]:
        """The host filters that run."""
        return self._filters

    @property
    def before(self) -> list[Mask]:
        """Limits and pre-filters."""
        return self._before

    def reason(self, name: str, index: int) -> str | None:
        """Return the reason why a limit or pre-filter rejects a row, in words; None if its name
        says everything.
        """
        traits = traits_asked(name, self._spec, self._policy.options)
        return (
            f"asked {traits}"
            if traits
            else next((words for limit, _keep, words in self._limits if limit == name), None)
        )

    @property
    def room(self) -> list[Mask]:
        """The masks of the room that no host filter checks."""
        return [("room", self._capacity_mask())] if self._looks_at_capacity else []

    def passed(self) -> IntArray:
        """Return the rows left (int array), without counting; the same object as long as nothing
        changes.
        """
        if self._static is None:
            alive = np.ones(self._states.size, dtype=bool)
            for _name, keep in self._before:
                alive &= keep
            for host_filter in self._filters:
                if host_filter.run_filter_once_per_request:
                    alive &= self._ask_filter(host_filter)
            self._static = alive & self._capacity_mask()
            self._changing = [
                each
                for each in self._filters
                if not each.run_filter_once_per_request and not each.not_applicable(self._spec)
            ]
        alive = self._static
        for host_filter in self._changing:
            alive = alive & ask_filter(host_filter, self._states, self._spec)
        key = alive.tobytes()
        if self._last is None or key != self._last[0]:
            self._last = (key, np.flatnonzero(alive))
        return self._last[1]

    def stages(self) -> tuple[IntArray, list[Stage]]:
        """Return (rows left, [{name, before, after, rejected}]); the first step that leaves no row
        is the last that runs.
        """
        alive = np.ones(self._states.size, dtype=bool)
        before = self._states.size
        stages: list[Stage] = []
        for name, keep in self._steps():
            alive &= keep
            after = int(np.count_nonzero(alive))
            if name != "room" or after != before:
                stages.append(
                    {"name": name, "before": before, "after": after, "rejected": before - after}
                )
            before = after
            if not after:
                break
        return np.flatnonzero(alive), stages

    def has_capacity_left(self, index: int) -> bool:
        """Return True if a row has room now for the classes that no host filter checks, and for all
        of them together.
        """
        return self._states.fits_at(index, self._spec, self.uncovered)

    @property
    def _looks_at_capacity(self) -> bool:
        return bool(self.uncovered) or self._states.provider_capacity is not None

    def _steps(self) -> Iterator[Mask]:
        yield from self._before
        for each in self._filters:
            yield each.name, self._ask_filter(each)
        if self._looks_at_capacity:
            yield "room", self._capacity_mask()

    def _ask_filter(self, each: HostFilter) -> BoolArray:
        if not each.run_filter_once_per_request:
            return ask_filter(each, self._states, self._spec)
        if each.name not in self._kept:
            self._kept[each.name] = ask_filter(each, self._states, self._spec)
        return self._kept[each.name]

    def _capacity_mask(self) -> BoolArray:
        if self._room is None:
            room = np.ones(self._states.size, dtype=bool)
            for rc in self.uncovered:
                room &= self._states.fits(self._spec, rc)
            if self._states.provider_capacity is not None:
                room &= self._states.provider_capacity.fits(self._spec)
            self._room = room
        return self._room


def filter_hosts(
    states: HostStates, spec: RequestSpec, policy: Policy, limits: Sequence[Limit] = ()
) -> tuple[IntArray, list[Stage]]:
    """Run the limits, the pre-filters and then the host filters, in the policy's order.

    :param limits: further limits of the caller, which come first.
    """
    return Filtering(states, spec, policy, limits).stages()

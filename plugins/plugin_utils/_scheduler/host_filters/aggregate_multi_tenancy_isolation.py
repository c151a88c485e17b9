# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Aggregates that are for certain projects."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..aggregates import Membership
from ..components import HostFilter, HostStates, RequestSpec

KEY = "filter_tenant_id"


class AggregateMultiTenancyIsolation(HostFilter):
    """The host is for all projects, or for the project of the request.

    Inputs: the request's project; aggregate metadata keys that begin with filter_tenant_id, split
    at commas.
    Rule: no such key, pass; else the project is among the values. It keeps other projects out and
    does not keep the project in. Source: N2.1.
    """

    name = "AggregateMultiTenancyIsolation"
    run_filter_once_per_request = True
    reads = ("aggregates",)

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        if not any(key.startswith(KEY) for key in states.aggregates.keys):
            return np.ones(states.size, dtype=bool)

        def allowed(membership: Membership) -> bool:
            projects = self._projects(membership)
            return projects is None or spec.project in projects

        return states.aggregates.each(allowed)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        projects = ", ".join(sorted(self._projects(states.aggregates.at(index)) or ()))
        return f"project: is {spec.project or 'not given'}, the host is for {projects}"

    @staticmethod
    def _projects(membership: Membership) -> set[str] | None:
        found = [values for key, values in membership.split.items() if key.startswith(KEY)]
        return set().union(*found) if found else None

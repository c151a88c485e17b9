# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts by the query of the request."""

from __future__ import annotations

from collections.abc import Collection

from ..._common.arrays import BoolArray, np
from .. import attributes, json_query
from ..components import HostFilter, HostStates, RequestSpec
from ..errors import RequestError


class JsonFilter(HostFilter):
    """The hint query is true of the host.

    Inputs: the hint query; any attribute of host states (attributes.py).
    Rule: without a query, pass; else json_query.py. The filter runs again for each instance of a
    batch, and sees disabled and down hosts. Source: N2.5.
    """

    name = "JsonFilter"

    def needs(self, spec: RequestSpec) -> Collection[str]:
        columns: set[str] = set()
        for path in json_query.names(spec.hints.get("query") or [""]):
            columns.update(attributes.columns_of(path[0]) if path[0] in attributes.NAMES else ())
        return tuple(columns)

    def not_applicable(self, spec: RequestSpec) -> bool:
        return not spec.hints.get("query")

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        query = spec.hints.get("query")
        if not query:
            return np.ones(states.size, dtype=bool)
        try:
            return json_query.evaluate(query, states)
        except ValueError as problem:
            raise RequestError(
                f"Request '{spec.name}': the hint 'query' cannot be answered: {problem}."
            ) from None

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        return "query: is not true of the host"

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host is in the requested zone."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class AvailabilityZoneFilter(HostFilter):
    """The host is in the requested availability zone.

    Inputs: the request's availability_zone; the host's zones; option default_availability_zone.
    Rule: without a requested zone, pass; for a host in zones, the requested zone is among them; for
    a host in no zone, the requested zone is default_availability_zone. Source: N2.7. Unlike Nova's
    pre-filter (N1.4), an unknown zone means "nowhere" and not "anywhere": no API before this filter
    refuses a misspelt zone.
    """

    name = "AvailabilityZoneFilter"
    options = {"default_availability_zone": "nova"}
    run_filter_once_per_request = True

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        zone = spec.availability_zone
        if zone is None:
            return np.ones(states.size, dtype=bool)
        if zone == self.option["default_availability_zone"]:
            return states.in_zone(zone) | states.in_zone(None)
        return states.in_zone(zone)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        request_text = f"zone: asked {spec.availability_zone}"
        if not self.passes(states, spec).any():
            zones = ", ".join(states.zone_names)
            return (
                f"{request_text}, which no host is in"
                f" ({'zones: ' + zones if zones else 'no host is in any zone'})"
            )
        zones = ", ".join(states.zones_at(index))
        return f"{request_text}, the host is in {zones or 'none'}"

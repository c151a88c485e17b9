# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Aggregates for certain images."""

from __future__ import annotations

from collections.abc import Mapping

from ..._common.arrays import BoolArray, np
from ..aggregates import Membership
from ..components import HostFilter, HostStates, RequestSpec


class AggregateImagePropertiesIsolation(HostFilter):
    """The image has the properties that the host's aggregates require of images.

    Inputs: the image's properties; aggregate metadata (split at commas); options
    aggregate_image_properties_isolation_namespace and _separator.
    Rule: for each metadata key that is also a property of the image, the property as text is among
    the key's values. A key that the image does not have passes. With a namespace only keys that
    begin with it and the separator count. Source: N2.1.
    """

    name = "AggregateImagePropertiesIsolation"
    run_filter_once_per_request = True
    reads = ("aggregates",)
    options = {
        "aggregate_image_properties_isolation_namespace": "",
        "aggregate_image_properties_isolation_separator": ".",
    }

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        properties = spec.image_properties
        if not properties:
            return np.ones(states.size, dtype=bool)
        return states.aggregates.each(lambda each: self._wrong(each, properties) is None)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        membership = states.aggregates.at(index)
        key = self._wrong(membership, spec.image_properties) or ""
        values = ", ".join(sorted(membership.split[key]))
        return (
            f"image property {key}: is {spec.image_properties[key]}, the host's aggregates take"
            f" {values}"
        )

    def _wrong(self, membership: Membership, properties: Mapping[str, object]) -> str | None:
        namespace = self.option["aggregate_image_properties_isolation_namespace"]
        start = (
            namespace + self.option["aggregate_image_properties_isolation_separator"]
            if namespace
            else ""
        )
        for key, values in membership.split.items():
            value = properties.get(key) if key.startswith(start) else None
            if value and str(value) not in values:
                return key
        return None

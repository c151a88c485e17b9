# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Near instances made from alike images."""

from __future__ import annotations

from collections.abc import Collection

from ..._common.arrays import FloatArray, np
from ..components import HostStates, RequestSpec, Weigher
from ..host_states import image_pairs


class ImagePropertiesWeigher(Weigher):
    """Near instances with images of equal properties; it does nothing without a multiplier.

    Inputs: the image's properties; the properties of the images of the instances on the host, with
    the instances placed earlier in the batch; option image_props_weight_setting ({property:
    factor}).
    Raw value: sum over the request's properties of factor * instances on the host with the same
    value. The factor is 1 for each property if the setting is empty, and 0 for properties that a
    setting does not name. A multiplier 0 in the policy skips the work even if an aggregate sets
    one. Source: N3.2.
    """

    name = "ImagePropertiesWeigher"
    measures = "instances of such images"
    extremes = ("most", "fewest")
    multiplier_option = "image_props_weight_multiplier"
    options = {"image_props_weight_multiplier": 0.0, "image_props_weight_setting": {}}

    def needs(self, spec: RequestSpec) -> Collection[str]:
        return (
            ("node_images",)
            if spec.image is not None and self.option["image_props_weight_multiplier"]
            else ()
        )

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        setting = self.option["image_props_weight_setting"]
        if spec.image is None or not self.option["image_props_weight_multiplier"]:
            return 0.0
        weights = np.zeros(states.size, dtype=np.float64)
        for pair in sorted(image_pairs(spec.image.properties)):
            counts = states.image_counts.get(pair)
            factor = setting.get(pair[0], 0.0) if setting else 1.0
            if counts is not None and factor:
                weights += factor * counts
        return weights

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts for certain images only."""

from __future__ import annotations

from ..._common.arrays import BoolArray, np
from ..components import HostFilter, HostStates, RequestSpec


class IsolatedHostsFilter(HostFilter):
    """Isolated images go to isolated hosts, and other images do not.

    Inputs: the image's name and id; options isolated_images, isolated_hosts and
    restrict_isolated_hosts_to_isolated_images [true].
    Rule: no isolated images: restrict and the host is isolated fails. Else with restrict, the image
    is isolated exactly if the host is; without restrict, an isolated image needs an isolated host.
    A request without an image is not isolated. Source: N2.4.
    """

    name = "IsolatedHostsFilter"
    run_filter_once_per_request = True
    options = {
        "isolated_images": (),
        "isolated_hosts": (),
        "restrict_isolated_hosts_to_isolated_images": True,
    }

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        images, hosts = set(self.option["isolated_images"]), set(self.option["isolated_hosts"])
        restrict = self.option["restrict_isolated_hosts_to_isolated_images"]
        if not restrict and not images:
            return np.ones(states.size, dtype=bool)
        inside = (
            states.mask(lambda index: states.host[index] in hosts)
            if hosts
            else np.zeros(states.size, dtype=bool)
        )
        if not images:
            return ~inside
        if self._isolated(spec):
            return inside
        return ~inside if restrict else np.ones(states.size, dtype=bool)

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        if self._isolated(spec):
            return "isolated image: the host is not one of the isolated hosts"
        return "isolated host: it takes isolated images only"

    def _isolated(self, spec: RequestSpec) -> bool:
        images = set(self.option["isolated_images"])
        return spec.image is not None and bool(images & {spec.image.name, spec.image.id})

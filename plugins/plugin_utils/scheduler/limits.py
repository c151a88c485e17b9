# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits on how many of something a host may have."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.components import HostFilter

try:
    import numpy as np
except ImportError:
    np = None


class LimitFilter(HostFilter):
    """A figure of the host is below a limit.

    column: the figure's name among the host states; limit_option: the option's; label: for people.
    """

    column = ""
    limit_option = ""
    label = ""

    def limit(self, states):
        """A number, or an array with one per host."""
        return self.option[self.limit_option]

    def passes(self, states, spec):
        return getattr(states, self.column) < self.limit(states)

    def lacks(self, states, spec, index):
        most = np.broadcast_to(self.limit(states), states.size)[index]
        return f"{self.label}: the host has {getattr(states, self.column)[index]}, {most:g} allowed"


class AggregateLimitFilter(LimitFilter):
    """LimitFilter with the limit that the host's aggregates set under the option's name.

    The least of several as a whole number; the option when there is none or one cannot be read.
    """

    reads = ("aggregates",)

    def limit(self, states):
        return states.aggregates.least(self.limit_option, super().limit(states), int)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cutting the hosts down to those that may take an instance."""

from __future__ import annotations

try:
    import numpy as np
except ImportError:
    np = None


def request_limits(states, spec):
    """What the request itself says about hosts, before any host filter (NOVA_SEMANTICS 1.5).

    :returns: [(name, bool array, words)]: ignore_hosts (without regard to case), ignore_nodes
        (node names or provider uuids), host (exact name of the host or of a node).
    """
    limits = []
    if spec.ignore_hosts:
        ignored = {name.lower() for name in spec.ignore_hosts}
        limits.append(("ignore_hosts", states.mask(lambda i: states.host[i].lower() not in ignored), "to be ignored"))
    if spec.ignore_nodes:
        nodes = set(spec.ignore_nodes)
        keep = states.mask(lambda i: states.node[i] not in nodes and states.uuid[i] not in nodes)
        limits.append(("ignore_nodes", keep, "to be ignored"))
    if spec.host is not None:
        wanted = spec.host
        keep = states.mask(lambda i: wanted in (states.host[i], states.node[i]))
        limits.append(("host", keep, f"not the host {wanted} that was asked for"))
    return limits


def narrow(states, spec, policy, limits=()):
    """Run the limits and then the host filters, in the policy's order.

    :param limits: further [(name, bool array, words)] of the caller's, looked at first.
    :returns: (int array of the rows left, [{name, before, after, rejected}]). The first to leave nothing
        is the last that runs.
    """
    alive = np.ones(states.size, dtype=bool)
    before = states.size
    stages = []

    def steps():
        for name, keep, _words in list(limits) + request_limits(states, spec):
            yield name, keep
        for each in policy.filters:
            yield each.name, each.passes(states, spec)

    for name, keep in steps():
        alive &= keep
        after = int(np.count_nonzero(alive))
        stages.append({"name": name, "before": before, "after": after, "rejected": before - after})
        before = after
        if not after:
            break
    return np.flatnonzero(alive), stages

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute nodes, providers and inventories among themselves."""

from __future__ import annotations

import collections


def examine(seen, found):
    """Note nodes without a service or a provider, providers without a node, and use that is miscounted."""
    _nodes(seen, found)
    _providers(seen, found)
    _inventories(seen, found)


def _nodes(seen, found):
    for key, node in seen.nodes.items():
        what = {"uuid": node.uuid, "name": node.hypervisor_hostname, "host": node.host}
        if seen.services.get(node.service_id) != node.host:
            why = f"This compute node has no service of host {node.host}."
            found.add("node_without_service", why, "leaves it: discovery makes it", **what)
        if key not in seen.node_providers:
            why = "This compute node has no resource provider of its uuid, so nothing can be placed on it."
            found.add("node_without_provider", why, "leaves it: discovery makes it with its inventories", **what)


def _providers(seen, found):
    for key in seen.former:
        row = seen.providers[key]
        if row.root_id in (None, key):
            found.add(
                "provider_without_node",
                "This resource provider was a compute node's, and no compute node has its uuid.",
                "leaves it: the node may come back",
                uuid=row.uuid,
                provider=row.name,
            )


def _inventories(seen, found):
    sums = collections.Counter()
    for holding in seen.held.values():
        for key, amounts in holding.items():
            for name, amount in amounts.items():
                sums[key, name] += amount
    for row in seen.inventories:
        use = sums.pop((row.provider_id, row.name), 0)
        what = _what(seen, row.provider_id, row.name)
        if row.used != use:
            found.mends.recounts.append(row.id)
            why = f"{row.name}: {row.used} is counted as used, and {use} is allocated."
            found.add("use_miscounted", why, f"counts again: {use}", safe=True, **what)
        capacity = (row.total - row.reserved) * row.allocation_ratio
        if use > capacity:
            why = f"{row.name}: {use} is allocated of {capacity:g}."
            found.add("over_capacity", why, "leaves it: what runs takes its room", **what)
    for (key, name), use in sums.items():
        why = f"{name}: {use} is allocated, and the provider has none."
        found.add("over_capacity", why, "leaves it: what runs takes its room", **_what(seen, key, name))


def _what(seen, key, name):
    row = seen.providers[key]
    return {"uuid": row.uuid, "provider": row.name, "host": seen.host(seen.node_of[key]), "resource": name}

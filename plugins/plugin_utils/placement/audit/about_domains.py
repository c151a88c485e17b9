# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Domains against instances: one on two hosts, and those that are nobody's."""

from __future__ import annotations


def examine(seen, found):
    """Note domains that are doubled, and strangers."""
    for uuid, places in seen.domains.items():
        moving = seen.open.get(uuid, ())
        # After an evacuation the dead source must not have it again.
        coming = [row for row in moving if row.status != "done"]
        ends = {node for row in coming for node in (row.source_node_id, row.destination_node_id)}
        row = next(iter(places.values()))
        what = {"uuid": uuid, "name": row.name, "host": seen.hosts(places)}
        # On its way, a domain is at both ends of its migration.
        if len(places) > 1 and not set(places) <= ends:
            states = ", ".join(f"{places[node].state} on {seen.host(node)}" for node in sorted(places))
            found.add(
                "domain_doubled",
                f"One domain is on several hosts: {states}.",
                "leaves it: no heal touches a domain that is on two hosts; fence one by hand",
                **what,
            )
        if uuid not in seen.instances and not moving:
            found.add(
                "stranger",
                "A host shows this domain, and no instance of the store has its uuid.",
                "leaves it: only discovery adopts",
                **what,
            )

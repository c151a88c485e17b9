# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances against what they hold and where their domain is."""

from __future__ import annotations

BUILDING = "building"
CPU, MEMORY, DISK = "VCPU", "MEMORY_MB", "DISK_GB"
# One of dedicated CPUs counts for a CPU like one of shared ones.
DEDICATED = "PCPU"


def examine(seen, found):
    """Note instances that are missing, and those whose allocation is missing, wrong, doubled or elsewhere."""
    for uuid, instance in seen.instances.items():
        held = seen.held.get(uuid, {})
        shown = seen.domains.get(uuid, {})
        where = next(iter(shown)) if len(shown) == 1 else instance.compute_node_id
        what = {"uuid": uuid, "name": instance.name, "host": seen.host(where)}
        if uuid in seen.open:
            if not held:
                why = "It has an open migration and holds no room at its destination."
                found.add("allocation_missing", why, "leaves it: its migration is open", **what)
            continue
        gone = not shown and instance.state != BUILDING
        if gone:
            why = f"It is recorded on {what['host'] or 'no host'}, and no host shows its domain."
            found.add("instance_missing", why, "leaves it: the domain may come back, and its disk may be there", **what)
        problem = _problem(seen, instance, held, where, len(shown))
        if problem is None or (gone and problem[0] == "allocation_missing"):
            continue
        should, reason = _remedy(seen, instance, held, shown)
        if should is None:
            found.add(*problem, f"leaves it: {reason}", **what)
            continue
        found.mends.holdings[uuid] = should
        found.mends.owners[uuid] = (instance.project, instance.user)
        found.mends.places[uuid] = (instance.id, where)
        found.add(*problem, f"gives it {_words(seen, should)}, over capacity or not", safe=True, **what)


def _size(instance):
    return {CPU: instance.vcpus, MEMORY: instance.memory_mb, DISK: instance.disk_gb}


def _sums(held):
    """What is held of the size of an instance, on all providers together."""
    sums = dict.fromkeys((CPU, MEMORY, DISK), 0)
    for amounts in held.values():
        for name, amount in amounts.items():
            name = CPU if name == DEDICATED else name
            if name in sums:
                sums[name] += amount
    return sums


def _problem(seen, instance, held, where, shown):
    """(kind, why) of what is wrong with an instance, the gravest only; None when it is right.

    :param where: the id of the node it is on.
    :param shown: how many hosts show its domain.
    """
    # Trees of nodes that are gone have no node; sharing providers are no tree of anybody's.
    trees = {
        (seen.node_of[key], seen.place(key)) for key in held if seen.node_of[key] is not None or key in seen.former
    }
    here = seen.host(where)
    on = ", ".join(sorted(name for dummy, name in trees))
    if len(trees) > 1:
        return "allocation_doubled", f"It holds room on {on}, and no migration of it is open."
    gone = any(node is None for node, dummy in trees)
    if gone or any(node != where for node, dummy in trees):
        return (
            "wrong_host",
            f"It is on {here or 'no host'} and holds room on {on}{', whose node is gone' if gone else ''}.",
        )
    if shown == 1 and where != instance.compute_node_id:
        recorded = seen.host(instance.compute_node_id) or "no host"
        return "wrong_host", f"Its domain is on {here}, and it is recorded on {recorded}."
    size, sums = _size(instance), _sums(held)
    if size == sums:
        return None
    if not any(sums.values()):
        return "allocation_missing", f"It takes {_amounts(size)} and holds nothing."
    return "allocation_wrong", f"It takes {_amounts(size)} and holds {_amounts(sums)}."


def _remedy(seen, instance, held, shown):
    """What an instance should hold where its domain is.

    :returns: (holding, None), or (None, why heal leaves it).
    """
    if not shown:
        return None, "no host shows its domain"
    if len(shown) > 1:
        return None, "its domain is on several hosts; fence one by hand first"
    node = next(iter(shown))
    root = seen.node_providers.get(node)
    if root is None:
        return None, "its compute node has no resource provider"
    # What it holds in the tree of its node and on sharing providers stays; what it holds elsewhere goes.
    should = {
        key: dict(amounts)
        for key, amounts in held.items()
        if seen.node_of[key] == node or (seen.node_of[key] is None and key not in seen.former)
    }
    for resource, amount in _size(instance).items():
        if _sums(should)[resource] == amount:
            continue
        names = (resource, DEDICATED) if resource == CPU else (resource,)
        holders = [(key, name) for key, amounts in should.items() for name in names if name in amounts]
        if not holders:
            holders = [(key, resource) for key in _holders(seen, root, resource)]
        if len(holders) != 1:
            return None, f"its {resource} may be on several providers"
        should.setdefault(holders[0][0], {})[holders[0][1]] = amount
    should = {key: {name: each for name, each in amounts.items() if each} for key, amounts in should.items()}
    return {key: amounts for key, amounts in should.items() if amounts}, None


def _holders(seen, root, resource):
    """The providers a class of a node may be taken from: its own, or else those shared with it."""
    if (root, resource) in seen.stocked:
        return [root]
    # Where nobody has any, it is booked on the node all the same, as discovery does.
    return seen.sharing(root, resource) or [root]


def _amounts(sizes):
    return ", ".join(f"{name} {amount}" for name, amount in sizes.items() if amount) or "nothing"


def _words(seen, holding):
    return (
        "; ".join(f"{_amounts(amounts)} on {seen.place(key)}" for key, amounts in sorted(holding.items())) or "nothing"
    )

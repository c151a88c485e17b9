# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a drain cannot be done: certificates, and what comes nearest."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.arrays import np
from ansible_collections.drover.compute.plugins.plugin_utils.resource_classes import UNITS
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.capacity import number


def fits_nowhere(packing_state, item, others):
    """True when no node could take an item even if all that may step aside had left it.

    A certificate: it neglects server groups and where those would go, so what it calls impossible is.
    """
    room = _emptied(packing_state, others)
    kind = packing_state.kind[item]
    return not bool((packing_state.masks[kind] & (room >= packing_state.needs[kind]).all(axis=1)).any())


def counting(packing_state, items, others):
    """A set of nodes that has too little room in all for those that can go nowhere else, or None.

    For the nodes that some item may go to: everything that may go to none but these (items to be
    placed, and others that are there already) needs more of a class than these nodes have, when all
    that may leave them has left. It neglects fragments and server groups, so it is never wrong.

    :param others: items that may step aside; what is on a node and not among them stays.
    :returns: None or a dict resource_class, needed, room, nodes (number), items (number), stay (number
        of others that can go nowhere else).
    """
    masks = {packing_state.masks[packing_state.kind[item]].tobytes(): packing_state.masks[packing_state.kind[item]] for item in items}
    if not masks:
        return None
    union = np.logical_or.reduce(list(masks.values()))
    masks.setdefault(union.tobytes(), union)
    for nodes in sorted(masks.values(), key=lambda mask: (int(mask.sum()), mask.tobytes())):
        outside = (packing_state.masks & ~nodes).any(axis=1)
        bound = [item for item in items if not outside[packing_state.kind[item]]]
        room = packing_state.free[nodes].clip(min=0).sum(axis=0)
        leaving = [item for item in others if nodes[packing_state.at[item]] and outside[packing_state.kind[item]]]
        staying = sum(1 for item in others if nodes[packing_state.at[item]]) - len(leaving)
        if leaving:
            room = room + packing_state.need[leaving].sum(axis=0)
        needed = packing_state.need[bound].sum(axis=0)
        for index in np.flatnonzero(needed > room):
            return {
                "resource_class": packing_state.classes[index],
                "needed": int(needed[index]),
                "room": int(room[index]),
                "nodes": int(nodes.sum()),
                "items": sum(len(packing_state.candidates[item]) for item in bound),
                "stay": staying,
                "bound": bound,
            }
    return None


def count_text(found):
    """A certificate of counting() as a clause."""
    unit = UNITS.get(found["resource_class"], found["resource_class"])
    words = (
        f"{found['items']} instance{'s'[: found['items'] != 1]} can only go to {found['nodes']} node{'s'[: found['nodes'] != 1]} and need"
        f"{'s'[: found['items'] == 1]} {found['needed']} {unit} together, but those nodes have {found['room']} {unit} free in all"
    )
    if found["stay"]:
        words += f", and the {found['stay']} instances that are there can go nowhere else either" if found["stay"] > 1 else ""
    return words


def nearest(packing_state, item):
    """The node that comes nearest to having room for an item now, None when it may go to none.

    :returns: a dict host, node, short ({class: how much is lacking}), group (members that keep it away).
    """
    kind = packing_state.kind[item]
    rows = np.flatnonzero(packing_state.masks[kind])
    if packing_state.at[item] >= 0:
        rows = rows[packing_state.host_of[rows] != packing_state.host_of[packing_state.at[item]]]
    if not len(rows):
        return None
    short = packing_state.lacking(item, rows)
    share = (short / np.maximum(packing_state.capacity[rows], 1)).max(axis=1)
    apart = np.zeros(len(rows), dtype=np.int64)
    for group in packing_state.groups[item]:
        apart += np.maximum(packing_state.count[group][packing_state.host_of[rows]] - packing_state.most[group] + 1, 0)
    best = int(np.lexsort((rows, share, apart))[0])
    if apart[best] == 0 and not short[best].any():
        return None
    states = packing_state.states
    return {
        "host": states.host[rows[best]],
        "node": states.node[rows[best]],
        "short": {packing_state.classes[i]: int(short[best][i]) for i in np.flatnonzero(short[best])},
        "group": int(apart[best]),
    }


def nearest_text(found):
    """What is lacking at the nearest node, as a clause."""
    shortages = [f"{number(amount)} {UNITS.get(rc, rc)}" for rc, amount in found["short"].items()]
    words = f"the nearest is {found['host']}, short of {' and '.join(shortages)}" if shortages else f"the nearest is {found['host']}"
    if found["group"]:
        words += f"{' and' if shortages else ', but'} held by {found['group']} of its server group"
    return words


def _emptied(packing_state, others):
    room = packing_state.free.copy()
    if len(others):
        np.add.at(room, packing_state.at[others], packing_state.need[others])
    return room

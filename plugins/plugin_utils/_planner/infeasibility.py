# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs that a drain has no plan, and the node that lacks least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .._common.arrays import IntArray, np
from .._common.resource_classes import label_of
from .._records.plans import NearestHost
from .._scheduler.capacity import number
from .packing_state import PackingState


class Shortage(NamedTuple):
    """A set of nodes with too little capacity for the instances that have no other destinations."""

    resource_class: str
    #: Amounts of the class: the need of these instances, and the room on the nodes after all items
    #: that may leave have left.
    needed: int
    room: int
    #: The number of nodes; the number of these instances to place; the number of them that are on
    #: the nodes already.
    nodes: int
    instances: int
    staying: int


def fits_nowhere(packing_state: PackingState, item: int, others: Sequence[int]) -> bool:
    """Return True if no node has room for an item even after all other items that may move have
    left it.

    This is a proof, because it neglects server groups and the destinations of the others.
    """
    room = _emptied(packing_state, others)
    kind = packing_state.kind[item]
    return not bool(
        (packing_state.masks[kind] & (room >= packing_state.needs[kind]).all(axis=1)).any()
    )


def find_shortage(
    packing_state: PackingState, items: Sequence[int], others: Sequence[int]
) -> Shortage | None:
    """Find a shortage that proves that not all items can be placed.

    It neglects fragmentation and server groups, so it is never wrong.

    :param items: to be placed.
    :param others: items that may move; everything else stays on its node.
    """
    masks = {
        packing_state.masks[packing_state.kind[item]].tobytes(): packing_state.masks[
            packing_state.kind[item]
        ]
        for item in items
    }
    if not masks:
        return None
    union = np.logical_or.reduce(list(masks.values()))
    masks.setdefault(union.tobytes(), union)
    for nodes in sorted(masks.values(), key=lambda mask: (int(mask.sum()), mask.tobytes())):
        outside = (packing_state.masks & ~nodes).any(axis=1)
        bound = [item for item in items if not outside[packing_state.kind[item]]]
        room = packing_state.free[nodes].clip(min=0).sum(axis=0)
        leaving = [
            item
            for item in others
            if nodes[packing_state.at[item]] and outside[packing_state.kind[item]]
        ]
        staying = sum(1 for item in others if nodes[packing_state.at[item]]) - len(leaving)
        if leaving:
            room = room + packing_state.need[leaving].sum(axis=0)
        needed = packing_state.need[bound].sum(axis=0)
        for index in np.flatnonzero(needed > room):
            return Shortage(
                packing_state.classes[index],
                int(needed[index]),
                int(room[index]),
                int(nodes.sum()),
                sum(len(packing_state.candidates[item]) for item in bound),
                staying,
            )
    return None


def shortage_text(found: Shortage) -> str:
    """Return a shortage as a clause."""
    unit = label_of(found.resource_class)
    words = (
        f"{found.instances} instance{'s'[: found.instances != 1]} can only go to {found.nodes}"
        f" node{'s'[: found.nodes != 1]} and need{'s'[: found.instances == 1]} {found.needed}"
        f" {unit} together, but those nodes have {found.room} {unit} free in all"
    )
    if found.staying > 1:
        words += f", and the {found.staying} instances that are there can go nowhere else either"
    return words


def nearest(packing_state: PackingState, item: int) -> NearestHost | None:
    """Find the node that lacks least for an item now; None if the item may go to no node, or if
    nothing is lacking.
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
        apart += np.maximum(
            packing_state.count[group].by_host()[packing_state.host_of[rows]]
            - packing_state.most[group]
            + 1,
            0,
        )
    best = int(np.lexsort((rows, share, apart))[0])
    if apart[best] == 0 and not short[best].any():
        return None
    states = packing_state.states
    return {
        "host": states.host[rows[best]],
        "node": states.node[rows[best]],
        "short": {
            packing_state.classes[i]: int(short[best][i]) for i in np.flatnonzero(short[best])
        },
        "group": int(apart[best]),
    }


def nearest_text(found: NearestHost) -> str:
    """Return the shortage of the nearest node as a clause."""
    shortages = [f"{number(amount)} {label_of(rc)}" for rc, amount in found["short"].items()]
    words = (
        f"the nearest is {found['host']}, short of {' and '.join(shortages)}"
        if shortages
        else f"the nearest is {found['host']}"
    )
    if found["group"]:
        words += f"{' and' if shortages else ', but'} held by {found['group']} of its server group"
    return words


def _emptied(packing_state: PackingState, others: Sequence[int]) -> IntArray:
    room = packing_state.free.copy()
    if len(others):
        np.add.at(room, packing_state.at[others], packing_state.need[others])
    return room

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves run at the same time."""

from __future__ import annotations


def assign_waves(moves, per_source=None, per_destination=None):
    """Give every move a wave and an order, in place, and sort by them.

    A move goes into the earliest wave in which its source host and its destination host both have
    fewer moves than allowed. Waves may be reordered without harm: destinations are booked for the
    whole plan and no move waits for room that another one frees.

    :param moves: a list of dicts with from_host and host.
    :param per_source, per_destination: most moves at once for a host, None for no limit.
    :returns: the number of waves.
    """
    busy = []
    for move in moves:
        wave = 0
        while True:
            if wave == len(busy):
                busy.append(({}, {}))
            leaving, coming = busy[wave]
            if _free(leaving, move["from_host"], per_source) and _free(coming, move["host"], per_destination):
                break
            wave += 1
        leaving[move["from_host"]] = leaving.get(move["from_host"], 0) + 1
        coming[move["host"]] = coming.get(move["host"], 0) + 1
        move["wave"] = wave + 1
    moves.sort(key=lambda move: move["wave"])
    for number, move in enumerate(moves, start=1):
        move["order"] = number
    return len(busy)


def _free(busy, host, limit):
    return limit is None or busy.get(host, 0) < limit

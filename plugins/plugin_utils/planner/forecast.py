# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long moves take, from memory, dirty rate and bandwidth."""

from __future__ import annotations

#: MiB per second and migration where nothing is said: what one connection carries on 1 Gbit/s.
BANDWIDTH_MIB = 110
#: MiB per second that a guest dirties where nothing is known.
DIRTY_MIB = 10
#: Seconds a move costs beside the copying: checks, define, the claim, the look whether it runs.
SETUP_SECONDS = 2.0
#: Seconds a guest may stand still at the end (libvirt's default).
DOWNTIME_SECONDS = 0.3
#: Rounds of copying after which QEMU gains nothing more.
ROUNDS = 30


def move_seconds(memory_mb, live, bandwidth_mib=None, dirty_mib=None):
    """(seconds, converges) of one move.

    Live migration copies the memory, then again and again what was dirtied meanwhile, until the rest
    can be sent while the guest stands still. A guest that dirties faster than can be sent does not
    get there: its time is that of one copy and it needs a limit, post-copy or auto-converge.

    :param memory_mb: MiB; dirty_mib, bandwidth_mib: MiB per second or None for the defaults.
    """
    if not live:
        return SETUP_SECONDS, True
    bandwidth = float(bandwidth_mib or BANDWIDTH_MIB)
    dirty = float(DIRTY_MIB if dirty_mib is None else dirty_mib)
    rest, seconds = float(memory_mb), 0.0
    for _round in range(ROUNDS):
        if rest <= bandwidth * DOWNTIME_SECONDS:
            break
        spent = rest / bandwidth
        seconds += spent
        rest = min(dirty * spent, float(memory_mb))
        if dirty >= bandwidth:
            return round(SETUP_SECONDS + seconds, 1), False
    return round(SETUP_SECONDS + seconds + rest / bandwidth, 1), True


def plan_seconds(moves):
    """Seconds of a plan whose waves follow each other: each takes as long as its longest move."""
    longest = {}
    for move in moves:
        longest[move["wave"]] = max(longest.get(move["wave"], 0.0), move["seconds"])
    return round(sum(longest.values()), 1)

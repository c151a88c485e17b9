# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The duration of moves: the amounts that they copy, over a rate that was measured, configured or
assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .._records.outcomes import MeasuredMove
from .._records.plans import LocalDisks, PlannedMove

#: The rate without a measurement and without a limit, MiB per second: the rate of a link of 1
#: Gbit/s.
ASSUMED_MIB = 110.0
#: Default of the memory that a guest dirties, MiB per second.
DIRTY_MIB = 10.0
#: Seconds of a move besides the copying: checks, definition, claim, and the look if the guest
#: runs.
SETUP_SECONDS = 2.0
#: Seconds that a guest may be paused at the end (libvirt's default).
DOWNTIME_SECONDS = 0.3
#: Rounds of copying after which QEMU gains nothing more.
ROUNDS = 30

#: Moves with less time or a smaller copy are not measured: most of their time is not copying.
LEAST_SECONDS = 5 * SETUP_SECONDS
LEAST_MIB = 256
#: A smaller share of disks, such as a file of UEFI's variables, does not count: the memory decides.
DISK_SHARE = 1 / 16
#: The number of measured moves between two hosts that is enough: then moves of other hosts do not
#: count for these two.
PAIR_MOVES = 3

#: The origin of a rate: measured between the two hosts of a move, measured in the whole fleet, the
#: limit of the migration, or assumed.
BETWEEN_HOSTS, FLEET, CONFIGURED, ASSUMED = "hosts", "fleet", "configured", "assumed"
MEMORY, DISKS = "memory", "disks"
#: A kind of rate: memory or disks, and whether the instance moves live. libvirt sends the disks of
#: a cold move in another way.
Kind = tuple[str, bool]


class Rates:
    """The speed of recorded moves.

    :param measured: completed moves.
    """

    def __init__(self, measured: Iterable[MeasuredMove] = ()) -> None:
        # {(kind, the two hosts or None for the fleet): (MiB, seconds, moves)}.
        self._sums: dict[tuple[Kind, frozenset[str] | None], tuple[int, float, int]] = {}
        for move in measured:
            kind = _kind(move)
            copied = move.disk_mib + (move.memory_mib if move.live else 0)
            if kind is not None and move.seconds >= LEAST_SECONDS and copied >= LEAST_MIB:
                for hosts in (frozenset((move.source, move.destination)), None):
                    mib, seconds, count = self._sums.get((kind, hosts), (0, 0.0, 0))
                    self._sums[kind, hosts] = (
                        mib + copied,
                        seconds + move.seconds - SETUP_SECONDS,
                        count + 1,
                    )

    def of(self, kind: Kind, one: str, other: str) -> tuple[float, str, int] | None:
        """Return MiB per second between two hosts, the basis, and the number of measured moves;
        None without a measurement.
        """
        basis = BETWEEN_HOSTS
        mib, seconds, count = self._sums.get((kind, frozenset((one, other))), (0, 0.0, 0))
        if count < PAIR_MOVES:
            basis, (mib, seconds, count) = FLEET, self._sums.get((kind, None), (0, 0.0, 0))
        return (mib / seconds, basis, count) if count else None


def _kind(move: MeasuredMove) -> Kind | None:
    """Return the rate that a move measures, None for no rate."""
    if not move.live:
        return DISKS, False
    if move.disk_mib <= move.memory_mib * DISK_SHARE:
        return MEMORY, True
    # Empty pages of memory take no time, so a move of mostly memory says little about disks.
    return (DISKS, True) if move.disk_mib >= move.memory_mib else None


def expect(moves: Sequence[PlannedMove], rates: Rates, disks: Mapping[str, LocalDisks]) -> float:
    """Estimate the duration of moves, and set in place the amounts that each copies, its disks,
    seconds and converges.

    :param moves: with their waves.
    :param disks: {uuid of the instance: the parts of its disks to copy}; a missing uuid means no
        disks.
    :returns: seconds of all waves. Each wave takes as long as its longest move, and no less than
        the time in which one link of each host copies everything at an assumed rate. Measured moves
        already ran at the same time as other moves.
    """
    longest: dict[int, float] = {}
    links: dict[tuple[int, str, str], float] = {}
    for move in moves:
        assumed = _expect_one(move, rates, disks.get(move["uuid"]) or LocalDisks(0))
        wave = move["wave"]
        longest[wave] = max(longest.get(wave, 0.0), move["seconds"])
        for link in ((wave, "from", move["from_host"]), (wave, "to", move["host"])):
            links[link] = links.get(link, 0.0) + assumed
    for (wave, _end, _host), seconds in links.items():
        longest[wave] = max(longest[wave], SETUP_SECONDS + seconds)
    return round(sum(longest.values()), 1)


def _expect_one(move: PlannedMove, rates: Rates, disks: LocalDisks) -> float:
    """Estimate one move, in place; return the seconds of copying at an assumed rate."""
    memory_mb = move["memory_mb"] if move["live"] else 0
    move["copies_mib"], move["copies_disk_mib"] = memory_mb + disks.mib, disks.mib
    move["unknown"], move["disks"] = list(disks.unknown), list(disks.disks)
    move["copying"], move["converges"] = [], True
    seconds, limit = SETUP_SECONDS, move["bandwidth_mib"]
    assumed = 0.0
    sent = _sent_under_limit(move)
    for what, mib in ((MEMORY, memory_mb), (DISKS, disks.mib)):
        if not mib and not (what == DISKS and sent):
            continue
        rate, basis, count = _rate(move, rates, what)
        if what == MEMORY:
            dirty = move["dirty_mib"]
            # The time of a measured move includes the memory that was dirtied during the move.
            took, move["converges"] = _memory_seconds(
                mib, rate, (0.0 if count else DIRTY_MIB) if dirty is None else dirty
            )
        else:
            took = mib / rate
            if limit and sent / limit > took:
                took, mib, rate, basis, count = sent / limit, sent, float(limit), CONFIGURED, 0
        seconds += took
        assumed += took if basis == ASSUMED else 0.0
        move["copying"].append(
            {
                "what": what,
                "mib": mib,
                "rate": max(round(rate, 1), 0.1),
                "basis": basis,
                "moves": count,
            }
        )
    move["seconds"] = round(seconds, 1)
    return assumed


def _sent_under_limit(move: PlannedMove) -> int:
    """Return MiB of disks that count for the limit of a live move, 0 without one: QEMU's mirror
    also counts the unwritten parts of a thin disk.
    """
    if not move["live"] or not move["bandwidth_mib"]:
        return 0
    return sum(
        max(disk.get("virtual_mib") or 0, disk["mib"] or 0)
        for disk in move["disks"]
        if disk["how"] == "copied"
    )


def _rate(move: PlannedMove, rates: Rates, what: str) -> tuple[float, str, int]:
    """Return MiB per second, the basis of that, and the number of measured moves."""
    rate, limit = (
        rates.of((what, move["live"]), move["from_host"], move["host"]),
        move["bandwidth_mib"],
    )
    if rate is None:
        return (float(limit), CONFIGURED, 0) if limit else (ASSUMED_MIB, ASSUMED, 0)
    # libvirt sends the files of a cold move without a limit.
    if limit and move["live"] and limit < rate[0]:
        return float(limit), CONFIGURED, 0
    return rate


def _memory_seconds(memory_mb: float, rate: float, dirty: float) -> tuple[float, bool]:
    """Estimate the seconds of copying memory, and whether that converges.

    A live migration copies the memory, then repeatedly the memory that was dirtied during the last
    copy, until it can send the rest while the guest is paused. A guest that dirties memory faster
    than the link carries it never reaches that state: it counts with the time of one copy, and
    needs a limit, post-copy or auto-converge.

    :param memory_mb: MiB.
    :param rate, dirty: MiB per second.
    """
    rest, seconds = float(memory_mb), 0.0
    for _round in range(ROUNDS):
        if rest <= rate * DOWNTIME_SECONDS:
            break
        spent = rest / rate
        seconds += spent
        rest = min(dirty * spent, float(memory_mb))
        if dirty >= rate:
            return seconds, False
    return seconds + rest / rate, True

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a drain of a storage pool: the new pool on the same host for each disk. Data in, data
out.

All disks are placed together, the largest first, each in the emptiest pool that may have it. The
promises to instances never exceed the capacity of a pool, and the copies never exceed its free
space.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from .._common import capacity_rule

GIB = 2**30

#: The key of amounts that are counted together: the uuid of a provider and its resource class.
Place = tuple[str, str]
#: A disk: the uuid of its instance, and its target.
DiskKey = tuple[str, str]


class PoolDisk(NamedTuple):
    """A disk in the pool.

    node: id of its compute node.
    host: its name, for messages.
    size: virtual.
    copied: maximum of bytes of the copy.
    traits: traits that its pool must have.
    whole: an image behind it is in the pool too, so its copy must have all data.
    shared: other hosts have the pool too, so a move of its instance to another host does not take
        the disk out of the pool.
    """

    uuid: str
    name: str
    target: str
    node: int
    host: str
    source: str
    size: int
    copied: int
    traits: frozenset[str]
    whole: bool = False
    shared: bool = False

    @property
    def key(self) -> DiskKey:
        """Return the key of the disk."""
        return self.uuid, self.target


class PoolSpace(NamedTuple):
    """A pool of a node, as a destination.

    destination: the argument of the move, a name or a folder.
    capacity: GiB that may be promised.
    used: GiB that are promised.
    free: free bytes, None if unknown.
    refused: the reason why no disk goes there, in words.
    of_volumes: a disk there is a volume, which needs space for its virtual size.
    """

    node: int
    name: str
    destination: str
    place: Place
    capacity: float
    used: int
    free: int | None
    traits: frozenset[str]
    refused: str | None = None
    of_volumes: bool = False

    def copied(self, disk: PoolDisk) -> int:
        """Return the maximum of bytes that the copy of a disk takes here."""
        return disk.size if self.of_volumes else disk.copied


class PoolMove(NamedTuple):
    """A disk and its destination."""

    disk: PoolDisk
    space: PoolSpace


class UnmovableDisk(NamedTuple):
    """A disk that cannot move, the reason, and the remedy."""

    disk: PoolDisk
    reason: str
    way_out: str


class PoolAmounts(NamedTuple):
    """The present amounts of instances. The keys are the uuid of the instance and the place. size:
    bytes of their disks there. held: GiB that are promised to them.
    """

    size: Mapping[tuple[str, Place], int]
    held: Mapping[tuple[str, Place], int]


def plan(
    disks: Iterable[PoolDisk],
    spaces: Sequence[PoolSpace],
    taken: PoolAmounts,
    wanted: str | None = None,
    refused: Mapping[DiskKey, Mapping[str, str]] | None = None,
) -> tuple[list[PoolMove], list[UnmovableDisk]]:
    """Plan a destination for every disk.

    :param spaces: without the pool that is drained.
    :param wanted: the name of the only pool that disks may go to.
    :param refused: {disk: {name of a pool: the reason why the disk cannot go there}}.
    """
    books = _Books(spaces, taken)
    moves, unmovable = [], []
    for disk in sorted(disks, key=lambda each: (-each.size, each.name, each.uuid, each.target)):
        others = [space for space in spaces if space.node == disk.node]
        near = [space for space in others if wanted in (None, space.name)]
        whys = {
            space.name: (
                (refused or {}).get(disk.key, {}).get(space.name) or books.why_not(disk, space)
            )
            for space in near
        }
        suited = [space for space in near if whys[space.name] is None]
        if suited:
            best = max(suited, key=lambda space: (books.share_free(space), space.name))
            books.take(disk, best)
            moves.append(PoolMove(disk, best))
        else:
            unmovable.append(
                _unmovable(disk, near, others, whys, wanted, (refused or {}).get(disk.key, {}))
            )
    return moves, unmovable


def _unmovable(
    disk: PoolDisk,
    near: Collection[PoolSpace],
    others: Collection[PoolSpace],
    whys: Mapping[str, str | None],
    wanted: str | None,
    refused: Mapping[str, str],
) -> UnmovableDisk:
    if not near:
        names = ", ".join(sorted(space.name for space in others))
        reason = f"{disk.host} has no other storage pool that is counted"
        if wanted is not None:
            reason = (
                f"{disk.host} has no storage pool {wanted} that is counted (it has"
                f" {names or 'no other one'})"
            )
        return UnmovableDisk(
            disk,
            reason,
            "name another pool of that host in drover_storage_pools and discover"
            f" it{_or_leave(disk)}",
        )
    reasons = list(dict.fromkeys(str(why) for why in whys.values()))
    if set(whys) == set(refused) and len(reasons) == 1:
        # The host refuses the disk for every destination, and names the remedy.
        return UnmovableDisk(disk, reasons[0], f"correct that{_or_leave(disk)}")
    words = "; ".join(f"{name}: {why}" for name, why in sorted(whys.items()))
    return UnmovableDisk(
        disk,
        f"it fits in no other pool of {disk.host} ({words})",
        f"make room there{_or_leave(disk)}",
    )


def _or_leave(disk: PoolDisk) -> str:
    return "" if disk.shared else ", or move the instance to another host"


class _Books:
    """The space that each pool has left after the disks that the plan has assigned."""

    def __init__(self, spaces: Iterable[PoolSpace], taken: PoolAmounts) -> None:
        self._size, self._held = dict(taken.size), dict(taken.held)
        self._used: dict[Place, int] = {}
        self._free: dict[Place, int | None] = {}
        for space in spaces:
            self._used[space.place] = max(space.used, self._used.get(space.place, 0))
            known = [each for each in (space.free, self._free.get(space.place)) if each is not None]
            # Several hosts can see one storage: the smallest value counts.
            self._free[space.place] = min(known) if known else None

    def share_free(self, space: PoolSpace) -> float:
        return (
            (space.capacity - self._used[space.place]) / space.capacity
            if space.capacity > 0
            else 0.0
        )

    def why_not(self, disk: PoolDisk, space: PoolSpace) -> str | None:
        if space.refused:
            return space.refused
        lacks = sorted(disk.traits - space.traits)
        if lacks:
            return f"it lacks {', '.join(lacks)}, which the disk asked for"
        more, used, free = self._more(disk, space), self._used[space.place], self._free[space.place]
        if more and not capacity_rule.has_room(used, more, space.capacity):
            short = math.ceil(more + used - space.capacity)
            return (
                f"{more} GiB are needed and {max(0, math.floor(space.capacity - used))} of"
                f" {space.capacity:g} are left, {short} short"
            )
        if free is not None and space.copied(disk) > free:
            return (
                f"the copy takes up to {_mib(space.copied(disk))} MiB and {max(0, free) >> 20} MiB"
                " are free on the storage"
            )
        return None

    def take(self, disk: PoolDisk, space: PoolSpace) -> None:
        key = (disk.uuid, space.place)
        more, free = self._more(disk, space), self._free[space.place]
        self._size[key] = self._size.get(key, 0) + disk.size
        self._held[key] = self._held.get(key, 0) + more
        self._used[space.place] += more
        if free is not None:
            self._free[space.place] = free - space.copied(disk)

    def _more(self, disk: PoolDisk, space: PoolSpace) -> int:
        """Return the further GiB that its instance needs there; its disks in a place are added up
        and rounded once.
        """
        key = (disk.uuid, space.place)
        return max(
            0, math.ceil((self._size.get(key, 0) + disk.size) / GIB) - self._held.get(key, 0)
        )


def _mib(size: int) -> int:
    return -(-size // 2**20)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dedicated CPUs of a host cell: cores, pinned CPUs, and the CPUs for a guest (N11.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import chain

from .._records.numa import HostCell
from .guest import ISOLATE


class CpuLayout:
    """The CPUs of a cell; many hosts have an equal layout.

    siblings: the CPUs of each core; cores: the dedicated ones of each.
    threads: the number of CPUs of the largest core, shared ones too.
    is_legacy: True if shared and pinned vCPUs have the same CPUs.
    core_of: {cpu: number of its core}.
    """

    def __init__(
        self,
        shared: tuple[int, ...],
        dedicated: tuple[int, ...],
        siblings: tuple[tuple[int, ...], ...],
    ) -> None:
        self.dedicated = frozenset(dedicated)
        known = set(chain(*siblings))
        self.siblings = [core for core in siblings if core] + [
            (cpu,) for cpu in sorted(self.dedicated - known)
        ]
        self.cores = [sorted(self.dedicated.intersection(core)) for core in self.siblings]
        self.threads = max(map(len, self.siblings), default=1)
        self.is_legacy = self.dedicated == set(shared)
        self.core_of = {cpu: number for number, core in enumerate(self.siblings) for cpu in core}


_layout_of = lru_cache(maxsize=1024)(CpuLayout)


class HostCpus:
    """The dedicated CPUs of one host cell.

    pins: {cpu: the number of instances that are pinned to it}; more than one only after pinning by
    hand.

    :param cell: with ``cpus``, ``pcpus`` and ``siblings``. A CPU in no set of siblings is a
        separate core.
    """

    def __init__(self, cell: HostCell) -> None:
        self.layout = _layout_of(
            tuple(cell["cpus"]), tuple(cell["pcpus"]), tuple(map(tuple, cell.get("siblings") or ()))
        )
        self.pins: Counter[int] = Counter()

    def free(self) -> list[list[int]]:
        """Return the free CPUs of each core."""
        if not self.pins:
            return self.layout.cores
        return [[cpu for cpu in core if cpu not in self.pins] for core in self.layout.cores]

    def whole(self) -> list[list[int]]:
        """Return the cores without any pinned CPU."""
        return [
            core
            for core, free in zip(self.layout.cores, self.free())
            if core and len(core) == len(free)
        ]

    def choose(
        self, vcpus: int, thread_policy: str | None, emulator: int
    ) -> tuple[list[int], list[int]]:
        """Return a CPU for each vCPU, and the CPUs of the emulator. The caller ensures that they
        fit.
        """
        free = [core for core in self.free() if core]
        if thread_policy == ISOLATE:
            pins = [core[0] for core in free if len(core) >= self.layout.threads][:vcpus]
            return pins, [core[0] for core in self.whole() if core[0] not in pins][:emulator]
        for threads in range(max(map(len, free), default=0), 0, -1):
            cores = [core[:threads] for core in free if len(core) >= threads]
            if threads * len(cores) >= vcpus:
                break
        else:
            cores = free
        pins = list(chain(*cores))[:vcpus]
        left = [cpu for cpu in chain(*free) if cpu not in pins]
        return pins, left[:emulator]

    def with_siblings(self, cpus: Iterable[int], thread_policy: str | None) -> set[int]:
        """Return the CPUs that pinning takes: under ``isolate`` also the other threads of their
        cores.
        """
        cpus = set(cpus)
        if thread_policy == ISOLATE:
            layout = self.layout
            cpus.update(
                *(layout.siblings[layout.core_of[cpu]] for cpu in cpus if cpu in layout.core_of)
            )
        return cpus

    def not_free(self, cpus: Collection[int]) -> list[int]:
        """Return the given CPUs that are taken, or are not dedicated."""
        return sorted(cpu for cpu in cpus if self.pins[cpu] or cpu not in self.layout.dedicated)

    def not_pinned(self, cpus: Iterable[int]) -> list[int]:
        """Return the given CPUs without a pinned instance."""
        return sorted(cpu for cpu in cpus if not self.pins[cpu])

    def count(self, cpus: Iterable[int], sign: int) -> None:
        """Count an instance on CPUs (1) or off them (-1)."""
        for cpu in cpus:
            self.pins[cpu] += sign
            if not self.pins[cpu]:
                del self.pins[cpu]

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dedicated CPUs of a host cell: cores, who is pinned, and which CPUs a guest gets (N11.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._numa.guest import ISOLATE


class HostCpus:
    """The dedicated CPUs of one host cell.

    cores: the dedicated CPUs of each core, in the order of the host's siblings.
    threads: CPUs of the largest core, shared ones too.
    is_legacy: whether shared and pinned vCPUs have the same CPUs.
    pins: {cpu: how many instances are pinned to it}; more than one only where somebody pinned by hand.

    :param cell: with ``cpus``, ``pcpus`` and ``siblings``. A CPU that no set of siblings has is a core of its own.
    """

    def __init__(self, cell: Mapping[str, Any]) -> None:
        shared, self._dedicated = set(cell["cpus"]), set(cell["pcpus"])
        siblings = [set(each) for each in cell.get("siblings") or () if each]
        siblings += [{cpu} for cpu in sorted(self._dedicated.difference(*siblings))]
        self._core_of = {cpu: number for number, each in enumerate(siblings) for cpu in each}
        self._siblings = siblings
        self.threads = max(map(len, siblings), default=1)
        self.is_legacy = shared == self._dedicated
        self.cores = [sorted(each & self._dedicated) for each in siblings]
        self.pins: Counter[int] = Counter()

    def free(self) -> list[list[int]]:
        """Return the free CPUs of each core."""
        return [[cpu for cpu in core if not self.pins[cpu]] for core in self.cores]

    def whole(self) -> list[list[int]]:
        """Return the cores to no CPU of which anybody is pinned."""
        return [core for core, free in zip(self.cores, self.free()) if core and len(core) == len(free)]

    def choose(self, vcpus: int, thread_policy: str | None, emulator: int) -> tuple[list[int], list[int]]:
        """Return a CPU for each vCPU, and those of the emulator. The caller knows that they fit."""
        free = [core for core in self.free() if core]
        if thread_policy == ISOLATE:
            pins = [core[0] for core in free if len(core) >= self.threads][:vcpus]
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
        """Return what pinning to CPUs takes: under ``isolate`` the other threads of their cores too."""
        cpus = set(cpus)
        if thread_policy == ISOLATE:
            cpus.update(*(self._siblings[self._core_of[cpu]] for cpu in cpus if cpu in self._core_of))
        return cpus

    def not_free(self, cpus: Collection[int]) -> list[int]:
        """Return those of some CPUs that are taken, or are not dedicated."""
        return sorted(cpu for cpu in cpus if self.pins[cpu] or cpu not in self._dedicated)

    def not_pinned(self, cpus: Iterable[int]) -> list[int]:
        """Return those of some CPUs that no instance is pinned to."""
        return sorted(cpu for cpu in cpus if not self.pins[cpu])

    def count(self, cpus: Iterable[int], sign: int) -> None:
        """Count an instance on CPUs (1) or off them (-1)."""
        for cpu in cpus:
            self.pins[cpu] += sign
            if not self.pins[cpu]:
                del self.pins[cpu]

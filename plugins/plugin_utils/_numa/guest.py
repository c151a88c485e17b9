# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requirements of a guest: its NUMA cells, and the amounts of CPUs for the request to
Placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHARED, DEDICATED, MIXED = "shared", "dedicated", "mixed"
PREFER, ISOLATE, REQUIRE = "prefer", "isolate", "require"
SHARE = "share"
SMALL, LARGE, ANY = "small", "large", "any"
CPU_POLICIES = (DEDICATED, SHARED, MIXED)
THREAD_POLICIES = (PREFER, ISOLATE, REQUIRE)
EMULATOR_POLICIES = (SHARE, ISOLATE)


@dataclass(frozen=True)
class GuestCell:
    """A NUMA cell of a guest: numbers of its floating and of its pinned vCPUs, memory in MiB."""

    shared: tuple[int, ...]
    pinned: tuple[int, ...]
    memory_mb: int


@dataclass(frozen=True)
class GuestTopology:
    """The NUMA cells of a guest, with the values that are common to all of them.

    page_size: KiB, or ``small``, ``large`` or ``any``; None if the guest requests no size.
    """

    cells: tuple[GuestCell, ...]
    cpu_policy: str | None = None
    thread_policy: str | None = None
    emulator_policy: str | None = None
    page_size: int | str | None = None

    @property
    def is_pinned(self) -> bool:
        """True if some vCPU has a dedicated host CPU."""
        return self.cpu_policy in (DEDICATED, MIXED)

    @property
    def emulator_cpus(self) -> int:
        """Host CPUs for the emulator alone; the first cell has them."""
        return 1 if self.emulator_policy == ISOLATE else 0


@dataclass(frozen=True)
class GuestConstraints:
    """The requirements of extra specs and image properties on CPUs and memory.

    topology: None for a guest that may float over the whole host.
    resources: amounts of VCPU and PCPU that replace the flavor's vCPUs; empty if the flavor or its
        ``resources:`` have them.
    required, forbidden: traits of the node.
    """

    topology: GuestTopology | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

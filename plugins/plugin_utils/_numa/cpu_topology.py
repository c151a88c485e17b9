# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sockets, cores and threads that a guest sees (N11.3)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from .._common.errors import InvalidSpecs
from .specs import Specs

_PARTS = ("sockets", "cores", "threads")
_NO_LIMIT = 65536


class CpuTopology(NamedTuple):
    """Sockets of a guest, cores in each socket, threads in each core; 0 without a preference."""

    sockets: int
    cores: int
    threads: int


def read_cpu_topology(
    extra_specs: Mapping[str, object], properties: Mapping[str, object] | None = None
) -> tuple[CpuTopology, CpuTopology]:
    """Return the preferred CPU topology and its limits.

    :raises InvalidSpecs: the image exceeds the flavor's limits or its own, or a value is not a
        number.
    """
    specs = Specs(extra_specs, properties or {})
    flavor_most, image_most = _read_topologies(specs, "cpu_max_")
    exceeded = [
        part for part, most, asked in zip(_PARTS, flavor_most, image_most) if most and asked > most
    ]
    if exceeded:
        raise InvalidSpecs(
            f"The image property hw_cpu_max_{exceeded[0]} is above the flavor's"
            f" hw:cpu_max_{exceeded[0]}. An image may only lower a limit.",
            "ImageVCPULimitsRangeExceeded",
        )
    limits = CpuTopology(
        *(image or flavor or _NO_LIMIT for flavor, image in zip(flavor_most, image_most))
    )
    flavor, image = _read_topologies(specs, "cpu_")
    exceeded = [part for part, most, asked in zip(_PARTS, limits, image) if asked > most]
    if exceeded:
        raise InvalidSpecs(
            f"The image property hw_cpu_{exceeded[0]} is {getattr(image, exceeded[0])}; the limit"
            f" is {getattr(limits, exceeded[0])}.",
            "ImageVCPUTopologyRangeExceeded",
        )
    if any(asked > most for asked, most in zip(flavor, limits)):
        flavor = CpuTopology(0, 0, 0)
    return image if any(image) else flavor, limits


def guest_cpu_topology(
    vcpus: int, extra_specs: Mapping[str, object], properties: Mapping[str, object] | None = None
) -> CpuTopology:
    """Choose the CPU topology of a guest: the nearest to the preferred one, then few threads, then
    many sockets.

    :raises InvalidSpecs: the errors of read_cpu_topology(), or no topology within the limits has so
        many vCPUs.
    """
    preferred, limits = read_cpu_topology(extra_specs, properties)
    sockets_most, cores_most, threads_most = (min(vcpus, most) for most in limits)
    parts = _divisors(vcpus)
    possible = [
        CpuTopology(sockets, vcpus // sockets // threads, threads)
        for sockets in parts
        for threads in parts
        if sockets <= sockets_most
        and threads <= threads_most
        and vcpus % (sockets * threads) == 0
        and vcpus // sockets // threads <= cores_most
    ]
    if not possible:
        raise InvalidSpecs(
            f"{vcpus} vCPUs do not fit into {sockets_most} sockets of {cores_most} cores with"
            f" {threads_most} threads. Raise a limit hw:cpu_max_sockets, hw:cpu_max_cores or"
            " hw:cpu_max_threads.",
            "ImageVCPULimitsRangeImpossible",
        )

    def merit(each: CpuTopology) -> tuple[int, int, int]:
        matches = sum(bool(asked) and asked == given for asked, given in zip(preferred, each))
        return matches, each.sockets * each.cores, each.sockets

    return max(possible, key=merit)


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, the smallest first. The time grows with its square root."""
    low = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*low, *(number // each for each in low)})


def _read_topologies(specs: Specs, prefix: str) -> tuple[CpuTopology, CpuTopology]:
    """Return sockets, cores and threads of the flavor, and of the image."""
    pairs = [specs.both(prefix + part) for part in _PARTS]
    for part, pair in zip(_PARTS, pairs):
        for text in pair:
            if text and not re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
                raise InvalidSpecs(
                    f"hw:{prefix}{part} or hw_{prefix}{part} is {text!r}. It must be a whole"
                    " number.",
                    "InvalidRequest",
                )
    flavor, image = (CpuTopology(*(int(pair[side] or 0) for pair in pairs)) for side in (0, 1))
    return flavor, image

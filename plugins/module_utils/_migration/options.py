# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a move, the contradictions between them, and the merge of policies.

Private to the collection. Pure, and used on both sides: by the action plugin, so that nonsense is
refused before anything is written, and by the module on the hypervisor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast, get_args

from .._ownership.move_record import Compression, CopyStorage, OnTimeout, Options

#: An option that is not given is None, so that a policy can be laid over the options of a task.
SPEC: dict[str, dict[str, object]] = {
    "bandwidth_mib": {"type": "int"},
    "parallel_connections": {"type": "int"},
    "auto_converge": {"type": "bool"},
    "post_copy": {"type": "bool"},
    "tls": {"type": "bool"},
    "tunnelled": {"type": "bool"},
    "compression": {"type": "str", "choices": list(get_args(Compression))},
    "max_downtime_ms": {"type": "int"},
    "timeout_per_gib": {"type": "int"},
    "on_timeout": {"type": "str", "choices": list(get_args(OnTimeout))},
    "copy_storage": {"type": "str", "choices": list(get_args(CopyStorage))},
}

#: Nova's, in seconds.
TIMEOUT_PER_GIB = 800

#: The smallest sensible value of each number.
LEAST = {"bandwidth_mib": 1, "parallel_connections": 2, "max_downtime_ms": 1, "timeout_per_gib": 1}


def merged(*layers: Mapping[str, object] | None) -> Options:
    """Return the options of several mappings in one; a later mapping wins with the options that it
    has.
    """
    options: dict[str, object] = {}
    for layer in layers:
        options.update(
            {
                name: value
                for name, value in (layer or {}).items()
                if name in SPEC and value is not None
            }
        )
    return cast(Options, options)


def contradictions(options: Options) -> list[str]:
    """Return the faults of the options, alone or two together: a list of sentences without a full
    stop; empty if there is no fault.
    """
    values: Mapping[str, object] = options
    reasons = [
        f"{name} is {value}: give {least} or more, or leave it out"
        for name, least in LEAST.items()
        if isinstance(value := values.get(name), int) and value < least
    ]
    parallel, compression = options.get("parallel_connections"), options.get("compression")
    if options.get("tunnelled"):
        for name, cause in (
            ("parallel_connections", "one connection of libvirt's carries it all"),
            ("post_copy", "libvirt cannot fetch memory through its own connection"),
            ("tls", "libvirt's own connection is encrypted already, unless its URI says otherwise"),
        ):
            if values.get(name):
                reasons.append(
                    f"tunnelled and {name} do not go together, as {cause}: leave one of them out"
                )
    if options.get("on_timeout") == "post_copy" and not options.get("post_copy"):
        reasons.append(
            "on_timeout is post_copy, but post_copy is not true: a migration must be begun with it"
            " to be switched over later"
        )
    if compression == "xbzrle" and parallel:
        reasons.append(
            "compression xbzrle works on one connection only: leave parallel_connections out, or"
            " take zlib or zstd"
        )
    if compression in ("zlib", "zstd") and not parallel:
        reasons.append(
            f"compression {compression} is for several connections: set parallel_connections too,"
            " or take xbzrle"
        )
    return reasons


def time_limit(options: Options, memory_gib: float, disks_gib: Iterable[float]) -> float:
    """Return the seconds that a live move may take, by Nova's rule: so many per GiB of memory and
    of each copied disk, each at least 2.
    """
    units = max(2, memory_gib) + sum(max(2, disk) for disk in disks_gib)
    return (options.get("timeout_per_gib") or TIMEOUT_PER_GIB) * units

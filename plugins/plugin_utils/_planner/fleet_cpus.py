# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts that share a CPU, its common features, and the hosts that lack features of the recorded
CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .._common.errors import DroverError, some
from .._records.fleet_cpus import CpuGroup, FleetCpu, HostModel

#: The command that changes the recorded CPU.
RENEW = "ansible-playbook drover.compute.fleet_cpu -e drover_fleet_cpu_renew=true"


def members(group: CpuGroup, models: Sequence[HostModel]) -> list[HostModel]:
    """Return the nodes of a group.

    :raises DroverError: a node may belong to the group, but its libvirt has not reported the CPU
        for guests.
    """
    untold = sorted(
        {
            each["host"]
            for each in models
            if each["group"] is None and (each["cell"], each["arch"]) == (group.cell, group.arch)
        }
    )
    if untold:
        raise DroverError(
            "The CPU of the fleet cannot be determined, as the store does not have what guests of"
            f" {some(untold)} can have. Run drover.compute.discover. Where libvirt there has no"
            " host-model, give the instance a CPU model instead of cpu: fleet."
        )
    return [each for each in models if each["group"] == group]


def oldest(nodes: Sequence[HostModel]) -> list[HostModel]:
    """Return the nodes with the oldest QEMU. Any of them can compute the CPU of all nodes, because
    the other nodes know each feature that it knows.
    """
    least = min(each["hypervisor_version"] for each in nodes)
    return [each for each in nodes if each["hypervisor_version"] == least]


def common_features(nodes: Sequence[HostModel]) -> list[str]:
    """Return the features that all nodes have."""
    return sorted(frozenset.intersection(*(each["features"] for each in nodes)))


def lacking(
    kept: Mapping[CpuGroup, FleetCpu], models: Sequence[HostModel]
) -> dict[CpuGroup, dict[str, tuple[str, ...]]]:
    """Find the hosts that cannot run the guests of their group: {group: {host: features that it
    lacks}}.
    """
    by_group: dict[CpuGroup, dict[str, tuple[str, ...]]] = {}
    for model in models:
        group = model["group"]
        missing = (
            lacks(kept[group], model["features"]) if group is not None and group in kept else ()
        )
        if group is not None and missing:
            by_group.setdefault(group, {})[model["host"]] = missing
    return by_group


def lacks(kept: FleetCpu, features: Collection[str]) -> tuple[str, ...]:
    """Return the features of a CPU that a host does not have."""
    return tuple(sorted(set(kept["cpu"]["features"]).difference(features)))


def what(kept: FleetCpu, missing: Sequence[str]) -> str:
    """Return the features that a host lacks, as the end of a sentence about it."""
    return f"lacks {some(missing)} of the CPU of the fleet ({kept['cpu']['model']})"


#: The remedy for missing features.
REMEDY = (
    "Bring firmware, QEMU and libvirt there up to date; or make a CPU that this host can run too,"
    f" for new instances: {RENEW}; or keep instances with cpu: fleet off it"
)

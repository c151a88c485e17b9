# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of further instances of each size that fit, now and after the loss of a host. Data in,
data out.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence

from .._common import resource_classes
from .._common.errors import natural
from .._records.instances import ListedInstance
from .._records.overview import FlavorSize
from .._records.plans import CapacityPlan, HostLoss
from .parts import HostLosses, SizeLoss, WantedSize

#: The number of sizes that are counted.
SIZES = 8
#: The number of hosts that are named.
HOSTS = 3
#: The names of the amounts of an instance for people.
LABELS = {"vcpus": "vCPU", "memory_mb": "memory", "disk_gb": "disk"}


def sizes(flavors: Sequence[FlavorSize], instances: Iterable[ListedInstance]) -> list[WantedSize]:
    """Choose the requests to count capacity for: the flavors of the most instances, or without
    flavors the most common size.

    :param flavors: dicts name, vcpus, memory_mb, disk_gb.
    :param instances: dicts with vcpus, memory_mb and disk_gb.
    :returns: a list of dicts name and the sizes, and flavor if it is one.
    """
    common = collections.Counter(_size(each) for each in instances)
    if flavors:
        ranked = sorted(flavors, key=lambda each: (-common[_size(each)], each["name"]))
        return [
            {
                "name": each["name"],
                "vcpus": each["vcpus"],
                "memory_mb": each["memory_mb"],
                "disk_gb": each["disk_gb"],
                "flavor": each["name"],
            }
            for each in ranked[:SIZES]
        ]
    sized = {size: count for size, count in common.items() if size[0] > 0 and size[1] > 0}
    if not sized:
        return [{"name": "1 vCPU, 1 GiB", "vcpus": 1, "memory_mb": 1024, "disk_gb": 0}]
    vcpus, memory_mb, disk_gb = max(sorted(sized), key=lambda each: sized[each])
    name = "the most common size"
    return [{"name": name, "vcpus": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb}]


def _size(each: FlavorSize | ListedInstance | WantedSize | SizeLoss) -> tuple[int, int, int]:
    return each["vcpus"], each["memory_mb"], each["disk_gb"]


def left_behind(local: Mapping[str, int]) -> str:
    """Return the sentence about instances that have room elsewhere and cannot start there; empty if
    there are none.

    :param local: by host, the number of instances with disks that only this host has.
    """
    first = sorted(local, key=lambda host: (-local[host], natural(host)))[:HOSTS]
    words = [f"{local[host]} on {host}" for host in first]
    others = sum(local.values()) - sum(local[host] for host in first)
    words += [f"{others} on {len(local) - len(first)} other hosts"] if others else []
    if not words:
        return ""
    return (
        "But disks that only their host has are lost with it, and an evacuation leaves these"
        f" instances: {', '.join(words)}."
    )


def left_of(count: int, total: int, host: str) -> str:
    """Return the part of a sentence about the instances that an evacuation of one host leaves;
    empty if there are none.
    """
    have = "has" if count == 1 else "have"
    return (
        f"{count} of its {total} {have} disks that only {host} has: an evacuation leaves"
        f" {'it' if count == 1 else 'them'}"
        if count
        else ""
    )


def host_losses(
    wanted: Sequence[WantedSize],
    answers: Sequence[CapacityPlan],
    local: Mapping[str, int],
) -> HostLosses:
    """Return the rows of the page, the smallest size first, and their verdict.

    :param wanted: the result of sizes().
    :param local: the same as for left_behind().
    :param answers: for each size, the result of planner.capacity.plan_capacity.
    :returns: a dict rows [{name, vcpus, memory_mb, disk_gb, total, short, loss}], verdict (a
        sentence), fatal (the hosts that the others cannot replace). short is the label of the
        resource that most hosts run out of first, None if no host may take any.
    """
    rows: list[SizeLoss] = [
        {
            "name": size["name"],
            "vcpus": size["vcpus"],
            "memory_mb": size["memory_mb"],
            "disk_gb": size["disk_gb"],
            "total": answer["total"],
            "short": _label(answer["short"]),
            "loss": answer["with_loss"],
        }
        for size, answer in zip(wanted, answers)
    ]
    rows.sort(key=lambda row: (*_size(row), natural(row["name"])))
    losses = [loss for row in rows if (loss := row["loss"])]
    fatal = sorted({loss["host"] for loss in losses if not loss["survives"]}, key=natural)
    return {
        "rows": rows,
        "verdict": " ".join(filter(None, (_verdict(losses, fatal), left_behind(local)))),
        "fatal": fatal,
    }


def _label(resource: str | None) -> str | None:
    return (
        None
        if resource is None
        else LABELS.get(
            resource_classes.KEYS.get(resource, ""), resource_classes.words_of(resource)
        )
    )


def _verdict(losses: Sequence[HostLoss], fatal: Sequence[str]) -> str:
    if not losses:
        return "There is no host to lose."
    if fatal:
        return (
            f"If {' or '.join(fatal)} is lost, not all of its instances fit on the other hosts. Add"
            " capacity, or move instances away from it."
        )
    return (
        "If any one host is lost, its instances fit on the others, by capacity, host filters and"
        " server groups."
    )

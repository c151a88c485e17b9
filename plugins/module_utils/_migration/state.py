# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The place of an instance, judged from libvirt's data on both sides.

Private to the collection. :func:`classify` is pure, so that every case has a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from .._domain.definition import state_name
from .._libvirt import binding
from .._libvirt.binding import libvirt

#: The answers of :func:`classify`.
HERE = "here"  # at the source only
THERE = "there"  # at the destination only
MOVING = "moving"  # a migration runs at the source
ARRIVING = "arriving"  # at the destination, not resumed yet
BOTH_ACTIVE = "both active"
BOTH_OFF = "both off"  # defined on both sides, running on neither
OFF_HERE = "off here"  # running at the destination, still defined at the source
OFF_THERE = "off there"  # running at the source, defined but off at the destination
NOWHERE = "nowhere"
BROKEN = "broken"  # its post-copy broke off: a part of its memory is on each side

#: Reasons of libvirt: a paused domain whose post-copy failed (VIR_DOMAIN_PAUSED_POSTCOPY_FAILED), a
#: running one (VIR_DOMAIN_RUNNING_POSTCOPY_FAILED).
POSTCOPY_FAILED = {("paused", 13), ("running", 11)}


class Progress(TypedDict):
    """The progress of memory and disks together."""

    percent: int
    total_mib: int
    remaining_mib: int


class DomainState(TypedDict):
    """The state of a domain in libvirt; ``job`` says that a job is under way, such as a
    migration.
    """

    name: str
    state: str
    reason: int
    active: bool
    persistent: bool
    job: bool


def look(conn: Any, uuid: str) -> DomainState | None:
    """Return the state of the domain in libvirt, or None if libvirt does not know it.

    Raises libvirt.libvirtError when the connection is broken.
    """
    try:
        domain = conn.lookupByUUIDString(uuid)
        state, reason = domain.state(0)
        seen: DomainState = {
            "name": domain.name(),
            "state": state_name(state),
            "reason": reason,
            "active": bool(domain.isActive()),
            "persistent": bool(domain.isPersistent()),
            "job": False,
        }
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    if seen["active"]:
        try:
            seen["job"] = domain.jobInfo()[0] in (
                libvirt.VIR_DOMAIN_JOB_BOUNDED,
                libvirt.VIR_DOMAIN_JOB_UNBOUNDED,
            )
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) == libvirt.VIR_ERR_OPERATION_UNSUPPORTED:
                # "Migration statistics are available only on the source host": one is coming in.
                seen["job"] = True
            elif binding.code_of(exc) not in (
                libvirt.VIR_ERR_OPERATION_INVALID,
                libvirt.VIR_ERR_NO_SUPPORT,
                libvirt.VIR_ERR_NO_DOMAIN,
            ):
                raise
    return seen


def classify(source: DomainState | None, destination: DomainState | None) -> str:
    """Return the one of the words above that fits the two looks."""
    if any(
        seen is not None and (seen["state"], seen["reason"]) in POSTCOPY_FAILED
        for seen in (source, destination)
    ):
        return BROKEN
    if source is not None and source["job"]:
        return MOVING
    if destination is None:
        return NOWHERE if source is None else HERE
    if source is None:
        return ARRIVING if _is_arriving(destination) else THERE
    if source["active"]:
        return BOTH_ACTIVE if destination["active"] else OFF_THERE
    if destination["active"]:
        return ARRIVING if _is_arriving(destination) else OFF_HERE
    return BOTH_OFF


def _is_arriving(seen: DomainState) -> bool:
    """Return True if the destination still waits for the rest of the guest
    (VIR_DOMAIN_PAUSED_MIGRATION = 2, STARTING_UP = 11).
    """
    return seen["active"] and (
        seen["job"] or (seen["state"] == "paused" and seen["reason"] in (2, 11))
    )


def job_of(conn: Any, uuid: str) -> Progress | None:
    """Return the progress of the job at the source: ``{percent, total_mib, remaining_mib}``, or
    None without one.
    """
    try:
        stats = conn.lookupByUUIDString(uuid).jobStats(0)
    except libvirt.libvirtError:
        return None
    if stats.get("type") not in (libvirt.VIR_DOMAIN_JOB_BOUNDED, libvirt.VIR_DOMAIN_JOB_UNBOUNDED):
        return None
    return progress_of(stats)


def moved_mib(conn: Any, uuid: str) -> int | None:
    """Return the amount that the migration that ended at ``conn`` moved, memory and disks together,
    in MiB; None if unknown.
    """
    try:
        stats = conn.lookupByUUIDString(uuid).jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED)
    except libvirt.libvirtError:
        return None
    return progress_of(stats)["total_mib"] or None


def progress_of(stats: Mapping[str, int]) -> Progress:
    """Return the progress of memory and disks together, with their total in MiB, as far as libvirt
    has it.
    """
    total = stats.get("data_total") or (stats.get("memory_total", 0) + stats.get("disk_total", 0))
    remaining = stats.get("data_remaining")
    if remaining is None:
        remaining = stats.get("memory_remaining", 0) + stats.get("disk_remaining", 0)
    percent = 0
    if total:
        # 100 is for a verified move.
        percent = max(0, min(99, int(100 * (total - remaining) / total)))
    return {
        "percent": percent,
        "total_mib": int(total) >> 20,
        "remaining_mib": int(remaining) >> 20,
    }


def state_word(seen: DomainState | None) -> str:
    """Return the state for the report: libvirt's word, or ``absent``."""
    return "absent" if seen is None else seen["state"]

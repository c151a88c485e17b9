# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances that can be moved, and the kind of their moves."""

from __future__ import annotations

from .._common.errors import PlanError
from .._numa.device_requests import request_of_data
from .._numa.pinning import UNKNOWN, topology_of
from .._records.instances import MOVING_DISKS, Binding, HostDevice, PlannedInstance

#: States of a domain that moves without being stopped (N9.2: running or paused).
LIVE_STATES = ("running", "blocked", "paused")
COLD_STATES = ("shutoff",)

STATE_REASONS = {
    "shutdown": "it is shutting down; try again when it is off",
    "crashed": "it has crashed; start it or destroy it first",
    "pmsuspended": "the guest has suspended itself; wake it first (virsh dompmwakeup)",
    "nostate": "libvirt does not know its state",
    "building": (
        "it is still being built; try again when it runs, or end it with"
        " drover.compute.instance_delete"
    ),
    # The state of the record if the host shows no domain of it.
    "active": (
        "its host does not show it any more, and another host did when that was last read; run"
        " drover.compute.discover, then this again"
    ),
    "missing": (
        "its host no longer reports it; run drover.compute.discover, and release it if it is gone"
    ),
}

#: The move policies: never move the instance; shut it down for the move; move it only while it
#: runs; shut it down instead of moving it.
POLICIES = ("never", "cold", "live", "shutdown")


def is_live(instance: PlannedInstance) -> bool:
    """Return True if the instance moves while it runs or is paused; else it moves shut off."""
    return instance.get("state") in LIVE_STATES and instance.get("move_policy") != "cold"


def is_to_shut_down(instance: PlannedInstance) -> bool:
    """Return True if the instance is shut down on its host instead of moved."""
    return (
        instance.get("move_policy") == "shutdown"
        and instance["state"] != "missing"
        and not instance.get("move_policy_error")
        and why_keep_running(instance) is None
    )


def why_keep_running(instance: PlannedInstance) -> str | None:
    """Return the reason why a shutdown of the instance would lose something, None if it would
    not.
    """
    if instance.get("state") not in LIVE_STATES:
        return None
    return next(
        (_clause(each) for each in instance.get("bindings") or () if each["keep_running"]), None
    )


def why_policy_keeps(
    policy: str | None, error: str | None, state: str | None, cold: bool = False
) -> str | None:
    """Return the reason why the move policy of an instance forbids its move, None if it allows it.

    :param policy: one of POLICIES, or None.
    :param error: why the policy cannot be read, or None.
    :param state: the state of its domain.
    :param cold: whether a running instance is shut down for the move.
    """
    if error:
        return f"its policy cannot be read: {str(error).rstrip('.')}"
    if policy == "never":
        return "its migration policy is 'never'"
    if policy == "cold" and state == "paused":
        return (
            "it is paused and its migration policy is 'cold', but a paused guest cannot shut down;"
            " resume it first"
        )
    if policy == "live" and state in COLD_STATES:
        return (
            "it is shut off and its migration policy is 'live'; start it first, or change the"
            " policy"
        )
    if policy == "live" and cold:
        return "its migration policy is 'live', and it would be shut down for this move"
    return None


def why_unmovable(instance: PlannedInstance) -> str | None:
    """Return the reason why an instance cannot be moved even if there is room, None if it can.

    :raises PlanError: its move policy does not exist.
    """
    policy = instance.get("move_policy")
    if policy is not None and policy not in POLICIES:
        raise PlanError(
            f"Instance {instance['name']} has the migration policy '{policy}', which does not"
            f" exist; there are: {', '.join(POLICIES)}."
        )
    if instance.get("task_state") in MOVING_DISKS:
        return (
            "a disk of it is being moved to another storage; wait for its end, or run"
            " drover.compute.instance_disk_move again"
        )
    if instance.get("resized_from"):
        return (
            f"it was resized and still holds its old room on {instance['resized_from']}; confirm or"
            " revert that first (drover.compute.instance_resize)"
        )
    state = instance.get("state")
    kept = why_policy_keeps(policy, instance.get("move_policy_error"), state)
    if kept:
        return kept
    if state in ("missing", "active") and instance.get("may_run_elsewhere"):
        # The instance may exist elsewhere, so the message does not advise to release it.
        return f"its host does not show it, and {instance['may_run_elsewhere']}"
    if state not in LIVE_STATES + COLD_STATES:
        return STATE_REASONS.get(state, f"its state is {state or 'unknown'}")
    own = instance.get("own_devices") or []
    if own:
        return (
            "it uses devices of its host that no claim gave it"
            f" ({', '.join(_device(each) for each in own)}); detach them first"
        )
    fixed = [
        each
        for each in instance.get("pci_requests") or ()
        if not request_of_data(each).always_asks("live_migratable", "true")
    ]
    if fixed and is_live(instance):
        return (
            "it uses devices of its host"
            f" ({', '.join(_device(each) for each in instance['hostdevs'])}), with which it cannot"
            " move while it runs; shut it down, or give it the migration policy 'cold': then it"
            " moves to a host with such devices"
        )
    kept = _why_bound(instance)
    if kept:
        return kept
    cells = instance.get("cells")
    if cells is not None and topology_of(cells, instance["vcpus"] or 0) is None:
        return f"it {UNKNOWN}".rstrip(".")
    kept = _why_snapshots_keep(instance)
    if kept:
        return kept
    backs = instance.get("backs")
    if backs:
        names = ", ".join(backs[:3]) + (f" and {len(backs) - 3} more" if len(backs) > 3 else "")
        return (
            f"one of its disks backs {names} on its host and is not known to be on shared storage,"
            " so it cannot be copied away; move what it backs first, or declare its pool with"
            " drover_shared_pools"
        )
    if state in COLD_STATES:
        if instance.get("may_run_elsewhere"):
            return f"it is shut off, and {instance['may_run_elsewhere']}"
        if instance.get("managed_save"):
            return (
                "it has a saved memory image on its host (managed save); start it, or drop the"
                " image with virsh managedsave-remove"
            )
        if instance.get("persistent") is False:
            return (
                "it is shut off but not persistent, so nothing is left to move; run"
                " drover.compute.discover"
            )
    return None


def _why_bound(instance: PlannedInstance) -> str | None:
    """Return the reason why an instance is bound to its host, by both of its definitions; None if
    it is not.
    """
    kept = ("never", "off" if is_live(instance) else "live")
    return (
        "; ".join(_clause(each) for each in instance.get("bindings") or () if each["move"] in kept)
        or None
    )


def _clause(binding: Binding) -> str:
    return ": ".join(each for each in (binding["what"], binding["way_out"]) if each)


def _why_snapshots_keep(instance: PlannedInstance) -> str | None:
    """Return the reason why its snapshots keep an instance from moving. External snapshots allow a
    move if no image of them has to be copied.
    """
    if not instance.get("snapshots"):
        return None
    fixed = instance.get("fixed_snapshots")
    if fixed is None:
        return (
            "it has snapshots, and whether these can be moved is not known; run"
            " drover.compute.discover"
        )
    way_out = (
        f"see them with drover.compute.instance_snapshot -e drover_instance={instance['name']}, and"
        " delete each with -e drover_snapshot_state=absent -e drover_snapshot_name=NAME, which"
        " keeps what the guest has"
    )
    if fixed:
        return (
            f"it has snapshots in its image or with memory ({', '.join(fixed)}), with which libvirt"
            f" moves nothing; {way_out}"
        )
    if instance.get("local_disks"):
        return (
            "it has snapshots, and its disks are not known to be on shared storage, where no image"
            f" has to be copied; declare its pool with drover_shared_pools, or {way_out}"
        )
    return None


def _device(hostdev: HostDevice) -> str:
    words = [each for each in (hostdev.get("type"), hostdev.get("address")) if each]
    return " ".join(words) or "unknown device"

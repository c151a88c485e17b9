# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances can be moved, and how."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.errors import PlanError

#: States of a domain in which it moves while it goes on (N9.2: running or paused).
LIVE_STATES = ("running", "blocked", "paused")
COLD_STATES = ("shutoff",)

STATE_REASONS = {
    "shutdown": "it is shutting down; try again when it is off",
    "crashed": "it has crashed; start it or destroy it first",
    "pmsuspended": "the guest has suspended itself; wake it first (virsh dompmwakeup)",
    "nostate": "libvirt does not know its state",
    "building": "it is still being built; try again when it runs, or release its claim",
    "missing": "its host no longer reports it; run drover.compute.discover, and release it if it is gone",
}


#: What an instance's ``policy`` may say: never move it; only when shut off for the move; only while it
#: runs; do not move it but shut it down.
POLICIES = ("never", "cold", "live", "shutdown")


def is_live(instance):
    """True when the instance moves running (or paused), False when it moves shut off."""
    return instance.get("state") in LIVE_STATES and instance.get("move_policy") != "cold"


def is_to_shut_down(instance):
    """True for an instance that is to be shut down where it is instead of being moved."""
    return instance.get("move_policy") == "shutdown" and not instance.get("move_policy_error")


def why_policy_keeps(policy, error, state, cold=False):
    """Why the policy of an instance does not let it be moved, in words; None when it does.

    :param policy: None or one of POLICIES.
    :param error: None, or why the policy cannot be read, a sentence.
    :param state: the state of its domain.
    :param cold: whether it is to be shut down for the move though it runs.
    """
    if error:
        return f"its policy cannot be read: {error}"
    if policy == "never":
        return "its migration policy is 'never'"
    if policy == "cold" and state == "paused":
        return "it is paused and its migration policy is 'cold', and what stands still cannot shut down; resume it first"
    if policy == "live" and state in COLD_STATES:
        return "it is shut off and its migration policy is 'live'; start it first, or change the policy"
    if policy == "live" and cold:
        return "its migration policy is 'live', and it would be shut down for this move"
    return None


def why_unmovable(instance):
    """Why an instance cannot be moved wherever there is room, in words; None when it can.

    :param instance: a dict as the store's read_host_instances returns it: state, hostdevs,
        managed_save, snapshots, persistent, backs; and policy, None or one of POLICIES, policy_error, None or a
        sentence.
    :raises PlanError: the policy is none of these.
    """
    policy = instance.get("move_policy")
    if policy is not None and policy not in POLICIES:
        raise PlanError(
            f"Instance {instance['name']} has the migration policy '{policy}', which does not exist; there are: {', '.join(POLICIES)}."
        )
    state = instance.get("state")
    kept = why_policy_keeps(policy, instance.get("move_policy_error"), state)
    if kept:
        return kept
    if state not in LIVE_STATES + COLD_STATES:
        return STATE_REASONS.get(state, f"its state is {state or 'unknown'}")
    hostdevs = instance.get("hostdevs") or []
    if hostdevs:
        return f"it uses devices of its host ({', '.join(_device(each) for each in hostdevs)}); detach them first"
    if instance.get("snapshots"):
        return "it has snapshots, with which libvirt migrates nothing; delete them first"
    backs = instance.get("backs")
    if backs:
        names = ", ".join(backs[:3]) + (f" and {len(backs) - 3} more" if len(backs) > 3 else "")
        return (
            f"a disk of it is what {names} on its host {'is' if len(backs) == 1 else 'are'} backed by, and is not known to be on"
            " shared storage, so it cannot be copied away; move what is backed by it first, or declare its pool with drover_shared_pools"
        )
    if state in COLD_STATES:
        if instance.get("managed_save"):
            return "it has a saved memory image on its host (managed save); start it, or drop the image with virsh managedsave-remove"
        if instance.get("persistent") is False:
            return "it is shut off but not persistent, so nothing is left to move; run drover.compute.discover"
    return None


def _device(hostdev):
    words = [str(hostdev[key]) for key in ("type", "address") if hostdev.get(key)]
    return " ".join(words) or "unknown device"

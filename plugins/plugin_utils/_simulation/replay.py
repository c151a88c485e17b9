# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Past decisions, repeated with another policy in a copy of the store."""

from __future__ import annotations

from dataclasses import replace

from .._placement import claims, host_copies
from .._records.simulation import LeftOut, OtherPlacement, Replay
from .._scheduler.policy import Policy
from .._store import Store
from .._store.runs import decisions
from . import placing
from .fleet import specs_of
from .simulate import copied, rebalance


def replay(
    store: Store, policy: Policy, service_down_time: int = 0, path: str | None = None
) -> Replay:
    """Repeat the placement of the instances of the stored decisions.

    All these instances are removed from the copy, and are placed again one after the other, in the
    order of the decisions, on the present fleet. If several decisions concern one instance, the
    last one counts.

    :param policy: the policy for the new decisions.
    :param service_down_time: seconds.
    :param path: an export of a store; None for the present store.
    :raises DroverError: there is no store, or the file is not an export.
    """
    with copied(store, path) as (copy, now):
        kept = decisions.placed(copy, claims.PURPOSE)
        spec_of = specs_of(copy, [each["instance_uuid"] for each in kept])
        decided = [each for each in kept if each["instance_uuid"] in spec_of]
        before = rebalance(copy, policy, 0, service_down_time)["score_before"]
        host_copies.drop(copy, spec_of, now)
        specs = [spec_of[each["instance_uuid"]] for each in decided]
        # Two instances of a fleet may have equal names, and a batch takes each name once.
        unique = [replace(spec, name=f"{spec.name} {spec.uuid}") for spec in specs]
        chosen, refused = placing.place(copy, unique, "replay", policy, now, service_down_time)
        hosts = {each["uuid"]: each["host"] for each in chosen}
        elsewhere: list[OtherPlacement] = [
            {"uuid": spec.key, "name": spec.name, "host": each["host"], "would": hosts[spec.key]}
            for spec, each in zip(specs, decided)
            if spec.key in hosts and hosts[spec.key] != each["host"]
        ]
        left_out: list[LeftOut] = [
            {"name": spec.name.rpartition(" ")[0], "count": 1, "reason": why}
            for run, why in refused
            for spec in run
        ]
        return {
            "decided": len(decided),
            "skipped": len(kept) - len(decided),
            "elsewhere": elsewhere,
            "refused": left_out,
            "score_before": before,
            "score_after": rebalance(copy, policy, 0, service_down_time)["score_before"],
        }

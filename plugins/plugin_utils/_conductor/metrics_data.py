# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of metrics, from the store."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping

from .._placement import quotas
from .._placement.audit import audit
from .._planner.capacity import unbearable_losses
from .._report import view
from .._scheduler.policy import Policy
from .._store.engine import Connection
from .._store.instances import evacuations, instances
from .._store.reports import hosts, totals
from .._store.runs import recent
from . import scheduling

#: Seconds of the past that rates, durations and refusals cover.
WINDOW = 86400


def read(
    connection: Connection, policy: Policy, now: float, service_down_time: float = 0
) -> dict[str, object]:
    """Collect the figures of one moment, see metrics.text().

    :param policy: the policy that would place the instances of a lost host.
    """
    columns, placed = scheduling.read_for_losses(connection, [], policy, now, service_down_time)
    rows = hosts.listing(connection, now, service_down_time, columns=columns)
    lost = set(unbearable_losses(columns, policy, placed))
    zones = {each["host"]: totals.zone_of(each["zones"]) for each in rows}
    recently = recent.read(connection, now - WINDOW)
    return {
        "hosts": [
            {
                key: each[key]
                for key in (
                    "host",
                    "state",
                    "status",
                    "maintenance",
                    "last_seen_up",
                    "zones",
                    "instances",
                )
            }
            | {"kind": view.kind(each)}
            for each in rows
            # The host has left the fleet, so there is no alert for it.
            if each["state"] != "unreported"
        ],
        "totals": [
            each._asdict()
            for each in totals.read(
                connection, {each["host"] for each in rows if view.takes_instances(each)}
            )
        ],
        "projects": quotas.listing(connection),
        "instances": _by_zone(instances.counts(connection), zones),
        "unbearable": {
            zone: sum(zones[host] == zone for host in lost) for zone in sorted(set(zones.values()))
        },
        "left_by_evacuation": _of_zones(evacuations.with_local_disks(connection), zones),
        "migrations": recently.migrations,
        "open_migrations": recently.open_migrations,
        "durations": {
            key: (len(each), sum(each), statistics.median(each))
            for key, each in recently.durations.items()
        },
        "decisions": recently.decisions,
        "refusals": recently.refusals,
        "findings": Counter(
            (each["kind"], each["level"]) for each in audit(connection, now)["findings"]
        ),
        "time": now,
    }


def _of_zones(counts: Mapping[str, int], zones: Mapping[str, str]) -> dict[str, int]:
    totals_by_zone: Counter[str] = Counter(dict.fromkeys(zones.values(), 0))
    for host, count in counts.items():
        totals_by_zone[zones.get(host, totals.NO_ZONE)] += count
    return dict(totals_by_zone)


def _by_zone(
    counts: Mapping[tuple[str | None, str], int], zones: Mapping[str, str]
) -> dict[tuple[str, str], int]:
    totals_by_zone: Counter[tuple[str, str]] = Counter()
    for (host, state), count in counts.items():
        totals_by_zone[
            totals.NO_ZONE if host is None else zones.get(host, totals.NO_ZONE), state
        ] += count
    return totals_by_zone

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a fleet as OpenMetrics. Data in, data out.

All are gauges: any controller reads them from the store at one moment. So the text is the same in
the older format of Prometheus, which the textfile collector of node_exporter and the Pushgateway
read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._common.errors import require

try:
    from prometheus_client.core import CollectorRegistry, GaugeMetricFamily
    from prometheus_client.openmetrics.exposition import generate_latest
except ImportError:
    GaugeMetricFamily = None  # type: ignore[assignment,misc]  # require() says that it is missing

#: The exclusive states of a host, as in the report.
KINDS = {
    "well": "up",
    "down": "down",
    "maintenance": "maintenance",
    "disabled": "disabled",
    "unreported": "unreported",
}

_TIME = re.compile(rb"^drover_metrics_timestamp_seconds .*$", re.MULTILINE)

#: A sample: the values of its labels, and its value.
Sample = tuple[Sequence[str], float]


def text(figures: Mapping[str, object]) -> bytes:
    """Write figures as OpenMetrics.

    :param figures: the result of conductor.metrics_data.read().
    :raises DroverError: prometheus_client is not installed.
    """
    require("prometheus_client", GaugeMetricFamily)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(figures))
    return bytes(generate_latest(registry))  # type: ignore[no-untyped-call]


def differ(one: bytes, other: bytes) -> bool:
    """Return True if two texts differ in more than their time."""
    return _TIME.sub(b"", one) != _TIME.sub(b"", other)


class _Collector:
    def __init__(self, figures: Mapping[str, object]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Any]:
        for name, words, labels, samples in _families(self._figures):
            family = GaugeMetricFamily(f"drover_{name}", words, labels=labels)
            for values, value in samples:
                family.add_metric([str(each) for each in values], value)
            yield family


def _families(
    figures: Mapping[str, Any],
) -> Iterator[tuple[str, str, Sequence[str], Iterable[Sample]]]:
    yield from _of_hosts(figures["hosts"])
    totals = figures["totals"]
    for name, words in (
        (
            "capacity",
            "What may be allocated of a resource class: (total - reserved) x allocation ratio.",
        ),
        ("used", "What is allocated of a resource class."),
        ("free", "The part of the capacity that is free on hosts that take instances."),
    ):
        samples = [((each["zone"], each["resource_class"]), each[name]) for each in totals]
        yield f"resource_{name}", words, ("zone", "resource_class"), samples
    in_projects = [
        (project["project"], each)
        for project in figures["projects"]
        for each in project["resources"]
    ]
    yield (
        "project_used",
        "What a project has claimed, in Nova's names of resources.",
        ("project", "resource"),
        [((project, each["resource"]), each["in_use"]) for project, each in in_projects],
    )
    yield (
        "project_limit",
        "The limit of a project, if it has one.",
        ("project", "resource"),
        [
            ((project, each["resource"]), each["limit"])
            for project, each in in_projects
            if each["limit"] is not None
        ],
    )
    yield (
        "instances",
        "Instances by zone and state.",
        ("zone", "state"),
        _sorted(figures["instances"]),
    )
    yield (
        "unbearable_losses",
        (
            "Hosts of a zone whose instances would not all fit on the other hosts if this host"
            " alone was lost (N+1)."
        ),
        ("zone",),
        _sorted(figures["unbearable"]),
    )
    yield (
        "instances_left_by_evacuation",
        (
            "Instances with disks that their host alone has: an evacuation leaves them, whatever"
            " room there is."
        ),
        ("zone",),
        _sorted(figures["left_by_evacuation"]),
    )
    yield (
        "migrations_open",
        "Moves of instances that have not ended.",
        ("type",),
        _sorted(figures["open_migrations"]),
    )
    yield (
        "migrations_last_day",
        "Moves that began in the last 24 hours.",
        ("type", "status"),
        _sorted(figures["migrations"]),
    )
    for place, (name, words) in enumerate(
        (
            ("count", "Moves completed in the last 24 hours whose time is known."),
            ("seconds", "The time that these moves took together."),
            ("median_seconds", "The median of the time that one of these moves took."),
        )
    ):
        yield (
            f"migration_{name}_last_day",
            words,
            ("type",),
            [((kind,), each[place]) for kind, each in sorted(figures["durations"].items())],
        )
    yield (
        "decisions_last_day",
        "Decisions of the scheduler in the last 24 hours.",
        ("purpose", "result"),
        [
            ((purpose, "placed" if placed else "refused"), count)
            for (purpose, placed), count in sorted(figures["decisions"].items())
        ],
    )
    yield (
        "rejected_hosts_last_day",
        "Hosts that a host filter rejected in decisions of the last 24 hours that found no host.",
        ("host_filter",),
        _sorted(figures["refusals"]),
    )
    yield (
        "audit_findings",
        "Contradictions that the audit finds.",
        ("kind", "level"),
        _sorted(figures["findings"]),
    )
    yield (
        "metrics_timestamp_seconds",
        "When these figures were read from the store, in seconds since 1970.",
        (),
        [((), figures["time"])],
    )


def _of_hosts(
    hosts: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, str, Sequence[str], Iterable[Sample]]]:
    counts = dict.fromkeys(KINDS, 0)
    for each in hosts:
        counts[each["kind"]] += 1
    yield (
        "hosts",
        "Hosts by state.",
        ("state",),
        [((KINDS[kind],), count) for kind, count in counts.items()],
    )
    yield (
        "host_up",
        "Whether the last discovery reached the host.",
        ("host", "zone"),
        [((each["host"], ",".join(each["zones"])), each["state"] == "up") for each in hosts],
    )
    yield (
        "host_enabled",
        "Whether the host takes new instances when it is up.",
        ("host",),
        [((each["host"],), each["status"] == "enabled") for each in hosts],
    )
    yield (
        "host_maintenance",
        "Whether the host is in maintenance.",
        ("host",),
        [((each["host"],), bool(each["maintenance"])) for each in hosts],
    )
    yield (
        "host_instances",
        "Instances of the host.",
        ("host",),
        [((each["host"],), each["instances"]) for each in hosts],
    )
    yield (
        "host_seen_timestamp_seconds",
        "When a discovery last reached the host, in seconds since 1970.",
        ("host",),
        [
            ((each["host"],), each["last_seen_up"])
            for each in hosts
            if each["last_seen_up"] is not None
        ],
    )


def _sorted(counts: Mapping[Any, float]) -> list[Sample]:
    return [
        (key if isinstance(key, tuple) else (key,), count) for key, count in sorted(counts.items())
    ]

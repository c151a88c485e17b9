# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a page about a fleet, made of the rows of the store. Data in, data out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._common.errors import natural
from .._records.hosts import FurtherPool, HostAggregate, ListedHost
from .._records.instances import ListedInstance
from .._records.overview import Overview, PhysicalNode, ShownHost
from . import formatting, text
from .anchor import host_anchor
from .attention import attention
from .decision import decision
from .heat import heat_map
from .history import where, who
from .migrations import days, migration
from .parts import (
    AggregateRow,
    Figure,
    FurtherPoolFigure,
    HeatGroup,
    HostKind,
    HostView,
    InstanceRow,
    NewestRow,
    PoolFigure,
    Seen,
    Summary,
    View,
    Zone,
)

#: The figures of a host, with their unit in words.
FIGURES = (
    ("vcpus", "vCPU", formatting.number),
    ("memory_mb", "memory", formatting.memory),
    ("disk_gb", "disk", formatting.disk),
)
#: The kinds of hosts in the order of the page.
KINDS: tuple[HostKind, ...] = ("down", "disabled", "unreported", "maintenance", "well")
#: The age in this text would make another page every second.
_AGE = re.compile(r"^last seen \d+ s ago")


def view(overview: Overview, fatal: Sequence[str] = ()) -> View:
    """Make all parts of the page, except capacity and plans.

    :param fatal: the hosts that the others cannot replace.
    """
    hosts = [_host(each, number) for number, each in enumerate(overview["hosts"])]
    hosts.sort(key=lambda host: (KINDS.index(host["kind"]), natural(host["host"])))
    _add_instance_rows(hosts, overview["instances"])
    lost = [each for each in overview["instances"] if each["host"] is None]
    pools = _pools(hosts)
    return {
        "summary": _summary(hosts, pools, overview["instances"]),
        "seen": _discovery_times(hosts),
        "attention": attention(hosts, overview["instances"], overview, fatal),
        "hosts": hosts,
        "nowhere": [_instance(each) for each in lost],
        "decisions": [decision(each) for each in overview["decisions"]],
        "map": heat_map(hosts),
        "pools": pools,
        "further_pools": [_further_pool(each) for each in overview["further_pools"]],
        "zones": _zones(hosts),
        "aggregates": [_aggregate(each) for each in overview["aggregates"]],
        "migrations": [migration(each) for each in overview["migrations"]],
        "days": days(overview["days"]),
        "power_events": overview["power_events"],
        "actions": [
            {**each, "who": who(each), "where": where(each)} for each in overview["actions"]
        ],
        "newest": _newest(overview),
        "rolling": sorted(overview["rolling"], key=lambda each: natural(each["host"])),
    }


def hosts_map(hosts: Sequence[ShownHost]) -> list[HeatGroup]:
    """Make the heat map alone.

    :param hosts: the result of overview.read_hosts().
    """
    return heat_map([_host(each, number) for number, each in enumerate(hosts)])


def kind(host: ListedHost | ShownHost) -> HostKind:
    """Return the kind in KINDS that decides the place and the colour of a host.

    A host that is down in a maintenance and has no instances is only in maintenance. A host that
    has left has only that kind, in any case.
    """
    if host["state"] == "unreported":
        return "unreported"
    if host["state"] == "down" and (host["instances"] or not host["maintenance"]):
        return "down"
    if host["maintenance"]:
        return "maintenance"
    if host["status"] == "disabled":
        return "disabled"
    return "well" if all(node["reported"] for node in host["nodes"]) else "unreported"


def takes_instances(host: Mapping[str, object]) -> bool:
    """Return True if the scheduler may place an instance on a host."""
    return host["state"] == "up" and host["status"] == "enabled"


def _host(host: ShownHost, number: int) -> HostView:
    figures = [_figure(host, *each) for each in FIGURES]
    # The fill of a shared pool is not a property of this host.
    own = [
        (percent, each["label"])
        for each in figures
        if (percent := each["percent"]) is not None and not each["shared"]
    ]
    full, fullest = max(own, key=lambda each: each[0], default=(None, None))
    return {
        "host": host["host"],
        "zones": host["zones"],
        "instances": host["instances"],
        "disk_pool": host["disk_pool"],
        "maintenance": host["maintenance"],
        "drained": host["drained"],
        "last_seen_up": host["last_seen_up"],
        "nodes": host["nodes"],
        "id": host_anchor(host["host"], number),
        "kind": kind(host),
        "down": host["state"] == "down",
        "left": host["state"] == "unreported",
        "disabled": host["status"] == "disabled",
        "state": text.state(host),
        "reason": "; ".join(_reasons(host)),
        "figures": figures,
        "full": full,
        "fullest": fullest,
        "instance_rows": [],
    }


def _discovery_times(hosts: Sequence[HostView]) -> Seen:
    """Return the times of discovery of the hosts.

    Hosts that have left are not discovered, so they do not count.
    """
    hosts = [host for host in hosts if not host["left"]]
    seen = [(at, host) for host in hosts if (at := host["last_seen_up"]) is not None]
    oldest = min(seen, key=lambda each: (each[0], natural(each[1]["host"])), default=None)
    return {
        "newest": max((at for at, _host in seen), default=None),
        "oldest": oldest and oldest[1],
        "never": len(hosts) - len(seen),
    }


def _reasons(host: ShownHost) -> list[str]:
    reasons = [host["disabled_reason"]] if host["disabled_reason"] else []
    if host["down_reason"]:
        reasons.append(
            _AGE.sub(f"last seen {formatting.moment(host['last_seen_up'])}", host["down_reason"])
        )
    reasons += [
        f"{node['node']} is no longer reported by its host"
        for node in host["nodes"]
        if not node["reported"]
    ]
    return reasons


def _figure(
    host: Mapping[str, Any], name: str, label: str, text_of: Callable[[Any], str | None]
) -> Figure:
    """Return one figure of a host, see sums()."""
    shared = name == "disk_gb" and bool(host["disk_pool"])
    amounts = {
        "used": host[f"{name}_used"],
        "capacity": host[f"{name}_capacity"],
        "total": host[name],
    }
    return _figure_of(name, label, text_of, amounts, _physical(host["nodes"], name), shared)


def _figure_of(
    name: str,
    label: str,
    text_of: Callable[[Any], str | None],
    amounts: Mapping[str, float],
    physical: tuple[float | None, float | None],
    shared: bool,
) -> Figure:
    used, whole = physical
    return {
        "name": name,
        "label": label,
        "used": amounts["used"],
        "capacity": amounts["capacity"],
        "total": amounts["total"],
        "physical": used,
        "physical_total": whole,
        "percent": formatting.percent(amounts["used"], amounts["capacity"]),
        "physical_percent": formatting.percent(used, whole),
        "shared": shared,
        "text": f"{text_of(amounts['used'])} of {text_of(amounts['capacity'])}",
        "physical_text": None if used is None else f"{text_of(used)} of {text_of(whole)}",
    }


def _physical(
    nodes: Iterable[Mapping[str, object]], name: str
) -> tuple[float | None, float | None]:
    """Return the amounts in use and in total on the nodes that report them, each None if none does;
    no node reports vCPUs.
    """
    amounts = {}
    for node in nodes:
        value = node.get(f"{name}_physical")
        if value is not None:
            # Nodes on one pool report the same disk.
            amounts[_disk(node, name) or node["uuid"]] = (value, node[name])
    if not amounts:
        return None, None
    return tuple(sum(each) for each in zip(*amounts.values()))


def _disk(node: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """Return the shared pool of a figure of a node, None if the figure is the node's own."""
    return ("pool", node["disk_pool"]) if name == "disk_gb" and node["disk_pool"] else None


def _add_instance_rows(hosts: Iterable[HostView], instances: Iterable[ListedInstance]) -> None:
    on: dict[str | None, list[InstanceRow]] = {}
    for each in sorted(instances, key=lambda each: natural(each["name"])):
        on.setdefault(each["host"], []).append(_instance(each))
    for host in hosts:
        host["instance_rows"] = on.get(host["host"], [])


def _instance(each: ListedInstance) -> InstanceRow:
    return {
        **each,
        "memory": formatting.memory(each["memory_mb"]),
        "disk": formatting.disk(each["disk_gb"]),
        "address": ", ".join(each.get("addresses") or ()) or None,
    }


def _pools(hosts: Sequence[HostView]) -> list[PoolFigure]:
    """Return the pools that several nodes share, each once."""
    pools: dict[str, tuple[PhysicalNode, set[str]]] = {}
    for host in hosts:
        for node in host["nodes"]:
            if node["disk_pool"]:
                pools.setdefault(node["disk_pool"], (node, set()))[1].add(host["host"])
    return [
        {
            **_figure({**node, "nodes": [node]}, "disk_gb", "disk", formatting.disk),
            "name": name,
            "hosts": len(names),
        }
        for name, (node, names) in sorted(pools.items(), key=lambda each: natural(each[0]))
    ]


def _further_pool(each: FurtherPool) -> FurtherPoolFigure:
    amounts = {"used": each["used_gb"], "capacity": each["capacity_gb"], "total": each["total_gb"]}
    return {
        **each,
        **_figure_of("disk_gb", "disk", formatting.disk, amounts, (None, None), False),
        "name": each["name"],
    }


def sums(hosts: Iterable[Mapping[str, Any]]) -> list[Figure]:
    """Add up the figures of hosts, each shared pool once."""
    nodes = [node for host in hosts for node in host["nodes"]]
    figures = []
    for name, label, text_of in FIGURES:
        once = {_disk(node, name) or node["uuid"]: node for node in nodes}.values()
        amounts = {
            key: sum(node[source] for node in once)
            for key, source in (
                ("used", f"{name}_used"),
                ("capacity", f"{name}_capacity"),
                ("total", name),
            )
        }
        figures.append(_figure_of(name, label, text_of, amounts, _physical(nodes, name), False))
    return figures


def _summary(
    hosts: Sequence[HostView],
    pools: Sequence[PoolFigure],
    instances: Sequence[ListedInstance],
) -> Summary:
    return {
        "hosts": len(hosts),
        "left": sum(host["left"] for host in hosts),
        "up": sum(not host["down"] and not host["left"] for host in hosts),
        "down": sum(host["down"] for host in hosts),
        "disabled": sum(host["disabled"] and not host["maintenance"] for host in hosts),
        "maintenance": sum(bool(host["maintenance"]) for host in hosts),
        "instances": len(instances),
        "missing": sum(each["state"] == "missing" for each in instances),
        "building": sum(each["state"] == "building" for each in instances),
        "pools": len(pools),
        "figures": sums(hosts),
    }


def _aggregate(each: HostAggregate) -> AggregateRow:
    return {
        "name": each["name"],
        "metadata": sorted(each["metadata"].items()),
        "hosts": sorted(each["hosts"], key=natural),
    }


def _zones(hosts: Sequence[HostView]) -> list[Zone]:
    zones: dict[str, list[HostView]] = {}
    for host in hosts:
        for zone in host["zones"]:
            zones.setdefault(zone, []).append(host)
    return [
        {
            "zone": zone,
            "hosts": len(members),
            "up": sum(not host["down"] for host in members),
            "instances": sum(host["instances"] for host in members),
            "figures": sums(members),
        }
        for zone, members in sorted(zones.items(), key=lambda each: natural(each[0]))
    ]


def _newest(overview: Overview) -> list[NewestRow]:
    by_uuid = {each["uuid"]: each for each in overview["instances"]}
    rows: list[NewestRow] = [
        {**_instance(by_uuid[each["uuid"]]), "created_at": each["created_at"]}
        for each in overview["newest"]
        if each["uuid"] in by_uuid
    ]
    return rows[:20]

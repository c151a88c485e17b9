# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a page shows of a fleet: from the rows of the store to figures. Data in, data out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from ansible_collections.drover.compute.plugins.plugin_utils.report import formatting, text
from ansible_collections.drover.compute.plugins.plugin_utils.report.decision import decision

#: The figures of a host, with their unit in words.
FIGURES = (("vcpus", "vCPU", formatting.number), ("memory_mb", "memory", formatting.memory), ("disk_gb", "disk", formatting.disk))
#: From so many percent on a host is in the next band of the heat map.
BANDS = (50, 70, 85, 95)
#: So many days of migrations are drawn.
DAYS = 30
#: Where their bars stand.
HEIGHT = 106
ENDED_WELL = ("completed", "confirmed", "done")
UNDER_WAY = ("accepted", "running", "finished")
#: The age in it would make another page every second.
_AGE = re.compile(r"^last seen \d+ s ago")


class Figure(TypedDict):
    """Allocated (used) and usable (capacity) amounts of one resource, and their share of each other in percent.

    physical, physical_total: in use and there, on the nodes that reported it; None when none did. text, physical_text: for people.
    """

    name: str
    label: str
    used: float
    capacity: float
    total: float
    physical: float | None
    physical_total: float | None
    percent: int | None
    physical_percent: int | None
    shared: bool
    text: str
    physical_text: str | None


def view(overview: Mapping[str, Any]) -> dict[str, Any]:
    """Everything the page shows but capacity and a plan.

    :param overview: what the store's overview.read() returns, and instances (of instances.listing()).
    :returns: a dict: summary, attention, hosts, nowhere (instances on no host), map (hosts by zone), pools, zones,
        aggregates, migrations, days, decisions (see decision.py), power_events, newest (instances), leases, rolling.
    """
    hosts = [_host(each, number) for number, each in enumerate(_in_order(overview["hosts"]))]
    _fill(hosts, overview["instances"])
    lost = [each for each in overview["instances"] if each["host"] is None]
    pools = _pools(hosts)
    return {
        "summary": _summary(hosts, pools, overview["instances"]),
        "attention": _attention(hosts, overview),
        "hosts": hosts,
        "nowhere": [_instance(each) for each in lost],
        "decisions": [decision(each) for each in overview["decisions"]],
        "map": _by_zone(hosts),
        "pools": pools,
        "zones": _zones(hosts),
        "aggregates": [_aggregate(each) for each in overview["aggregates"]],
        "migrations": [_migration(each) for each in overview["migrations"]],
        "days": days(overview["days"]),
        "power_events": overview["power_events"],
        "newest": _newest(overview),
        "leases": sorted(overview["leases"], key=lambda each: formatting.natural(each["name"])),
        "rolling": sorted(overview["rolling"], key=lambda each: formatting.natural(each["host"])),
    }


def is_well(host: Mapping[str, Any]) -> bool:
    """Whether a host is up, enabled and in use."""
    return takes_instances(host) and not host["maintenance"] and all(node["reported"] for node in host["nodes"])


def takes_instances(host: Mapping[str, Any]) -> bool:
    """Whether the scheduler may place an instance there."""
    return host["state"] == "up" and host["status"] == "enabled"


def _in_order(hosts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """First those that are down, then those that take nothing, then the others; each by name."""
    return sorted(hosts, key=lambda host: (is_well(host), host["state"] == "up", formatting.natural(host["host"])))


def _host(host: Mapping[str, Any], number: int) -> dict[str, Any]:
    found = {
        **{key: host[key] for key in ("host", "zones", "instances", "disk_pool", "maintenance")},
        "id": f"host-{number}",
        "well": is_well(host),
        "down": host["state"] == "down",
        "disabled": host["status"] == "disabled",
        "state": text.state(host),
        "reason": "; ".join(_reasons(host)),
        "nodes": host["nodes"],
        "cells": sorted({node["cell"] for node in host["nodes"] if node["cell"]}),
        "figures": [_figure(host, *each) for each in FIGURES],
    }
    # A shared pool that is full says nothing of this host.
    own = [each for each in found["figures"] if each["percent"] is not None and not each["shared"]]
    fullest = max(own, key=lambda each: each["percent"], default=None)
    found["full"] = fullest["percent"] if fullest else None
    found["fullest"] = fullest["label"] if fullest else None
    found["band"] = band(found["full"])
    return found


def _reasons(host: Mapping[str, Any]) -> list[str]:
    found = [host["disabled_reason"]] if host["disabled_reason"] else []
    if host["down_reason"]:
        found.append(_AGE.sub(f"last seen {formatting.moment(host['last_seen_up'])}", host["down_reason"]))
    found += [f"{node['node']} is no longer reported by its host" for node in host["nodes"] if not node["reported"]]
    return found


def _figure(host: Mapping[str, Any], name: str, label: str, text_of: Callable[[Any], str | None]) -> Figure:
    """One figure of a host, see sums()."""
    shared = name == "disk_gb" and bool(host["disk_pool"])
    amounts = {"used": host[f"{name}_used"], "capacity": host[f"{name}_capacity"], "total": host[name]}
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


def _physical(nodes: Iterable[Mapping[str, Any]], name: str) -> tuple[float | None, float | None]:
    """Amounts in use and in all on the nodes that report them, each None where none does; no node reports vCPUs."""
    found = {}
    for node in nodes:
        value = node.get(f"{name}_physical")
        if value is not None:
            # Nodes on one pool look at the same disk.
            found[_disk(node, name) or node["uuid"]] = (value, node[name])
    if not found:
        return None, None
    return tuple(sum(each) for each in zip(*found.values()))


def _disk(node: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """The shared pool that a figure of a node is of, None when it is the node's own."""
    return ("pool", node["disk_pool"]) if name == "disk_gb" and node["disk_pool"] else None


def band(full: int | None) -> int | None:
    """The band of the heat map, 0 to 4; None where nothing is known."""
    return None if full is None else sum(full >= each for each in BANDS)


def _fill(hosts: Iterable[dict[str, Any]], instances: Iterable[Mapping[str, Any]]) -> None:
    on: dict[str | None, list[dict[str, Any]]] = {}
    for each in sorted(instances, key=lambda each: formatting.natural(each["name"])):
        on.setdefault(each["host"], []).append(_instance(each))
    for host in hosts:
        host["instance_rows"] = on.get(host["host"], [])


def _instance(each: Mapping[str, Any]) -> dict[str, Any]:
    return {**each, "memory": formatting.memory(each["memory_mb"]), "disk": formatting.disk(each["disk_gb"])}


def _pools(hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pools that several nodes share, each once."""
    found: dict[str, dict[str, Any]] = {}
    for host in hosts:
        for node in host["nodes"]:
            if node["disk_pool"]:
                pool = found.setdefault(node["disk_pool"], {"node": node, "hosts": set()})
                pool["hosts"].add(host["host"])
    return [
        {
            "name": name,
            "hosts": len(pool["hosts"]),
            **_figure({**pool["node"], "nodes": [pool["node"]]}, "disk_gb", "disk", formatting.disk),
        }
        for name, pool in sorted(found.items(), key=lambda each: formatting.natural(each[0]))
    ]


def sums(hosts: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """The figures of hosts together, each shared pool once."""
    nodes = [node for host in hosts for node in host["nodes"]]
    found = []
    for name, label, text_of in FIGURES:
        once = {_disk(node, name) or node["uuid"]: node for node in nodes}.values()
        amounts = {
            key: sum(node[source] for node in once)
            for key, source in (("used", f"{name}_used"), ("capacity", f"{name}_capacity"), ("total", name))
        }
        found.append(_figure_of(name, label, text_of, amounts, _physical(nodes, name), False))
    return found


def _summary(
    hosts: Sequence[Mapping[str, Any]], pools: Sequence[Mapping[str, Any]], instances: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "hosts": len(hosts),
        "up": sum(not host["down"] for host in hosts),
        "down": sum(host["down"] for host in hosts),
        "disabled": sum(host["disabled"] and not host["maintenance"] for host in hosts),
        "maintenance": sum(bool(host["maintenance"]) for host in hosts),
        "instances": len(instances),
        "missing": sum(each["state"] == "missing" for each in instances),
        "building": sum(each["state"] == "building" for each in instances),
        "pools": len(pools),
        "figures": sums(hosts),
    }


def _attention(hosts: Sequence[Mapping[str, Any]], overview: Mapping[str, Any]) -> dict[str, Any]:
    """What needs a look: hosts that are not well, instances that are missing, moves and power actions not at their end."""
    return {
        "hosts": [host for host in hosts if not host["well"]],
        "missing": [_instance(each) for each in overview["instances"] if each["state"] == "missing"],
        "migrations": [_migration(each) for each in overview["migrations"] if each["status"] in UNDER_WAY],
        "power_events": [each for each in overview["power_events"] if each["status"] == "running"],
    }


def _aggregate(each: Mapping[str, Any]) -> dict[str, Any]:
    return {**each, "metadata": sorted(each["metadata"].items()), "hosts": sorted(each["hosts"], key=formatting.natural)}


def _by_zone(hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """[{zone, hosts}] for the heat map; one entry without a zone where nobody has any."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for host in sorted(hosts, key=lambda each: formatting.natural(each["host"])):
        found.setdefault(", ".join(host["zones"]), []).append(host)
    return [{"zone": zone, "hosts": found[zone]} for zone in sorted(found, key=lambda zone: (zone == "", formatting.natural(zone)))]


def _zones(hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for host in hosts:
        for zone in host["zones"]:
            found.setdefault(zone, []).append(host)
    return [
        {
            "zone": zone,
            "hosts": len(members),
            "up": sum(not host["down"] for host in members),
            "instances": sum(host["instances"] for host in members),
            "figures": sums(members),
        }
        for zone, members in sorted(found.items(), key=lambda each: formatting.natural(each[0]))
    ]


def _migration(each: Mapping[str, Any]) -> dict[str, Any]:
    took = each["updated_at"] - each["created_at"]
    return {**each, "outcome": outcome(each["status"]), "took": None if each["status"] in UNDER_WAY else took}


def outcome(status: str) -> str:
    """well, open (under way) or failed (or undone)."""
    return "well" if status in ENDED_WELL else "open" if status in UNDER_WAY else "failed"


def days(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Migrations by day, up to the newest.

    :param rows: dicts day, status, count.
    :returns: a dict days [{day, date, well, open, failed, total, x, bars [{outcome, y, height}]}], most (on one day) and
        dropped (how many are older); bars are drawn in a picture 360 wide, upwards from HEIGHT.
    """
    if not rows:
        return {"days": [], "most": 0, "dropped": 0}
    last = max(row["day"] for row in rows)
    found: dict[int, dict[str, Any]] = {
        day: {"day": day, "date": formatting.date(day), "well": 0, "open": 0, "failed": 0, "total": 0}
        for day in range(last - DAYS + 1, last + 1)
    }
    dropped = 0
    for row in rows:
        if row["day"] not in found:
            dropped += row["count"]
            continue
        found[row["day"]][outcome(row["status"])] += row["count"]
        found[row["day"]]["total"] += row["count"]
    most = max(each["total"] for each in found.values())
    for number, each in enumerate(found.values()):
        each["x"] = round(26 + number * 11.1, 1)
        each["bars"] = _bars(each, most)
    return {"days": list(found.values()), "most": most, "dropped": dropped}


def _bars(day: Mapping[str, Any], most: int) -> list[dict[str, Any]]:
    bars, top = [], HEIGHT
    for name in ("well", "open", "failed"):
        if day[name]:
            height = (HEIGHT - 8) * day[name] / most
            top -= height
            bars.append({"outcome": name, "y": round(top, 1), "height": round(height, 1)})
    return bars


def _newest(overview: Mapping[str, Any]) -> list[dict[str, Any]]:
    known = {each["uuid"]: each for each in overview["instances"]}
    return [{**_instance(known[each["uuid"]]), "created_at": each["created_at"]} for each in overview["newest"] if each["uuid"] in known][
        :20
    ]

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets for tests: columns as the store's read_fleet returns them, from a few words."""

from __future__ import annotations

import uuid

from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
    RequestSpec,
)

CLASSES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}
SPACE = uuid.UUID("8d5f2f0e-5d1c-4a33-9c59-6a3a0f6b7f11")


def uuid_of(name):
    """Return the same uuid for the same name, every time."""
    return str(uuid.uuid5(SPACE, name))


def host(name="kvm1", vcpus=8, memory_mb=8192, disk_gb=100, **more):
    """Return one compute node. ``used``, ``reserved``, ``ratio``, ``max_unit``...: dicts by request
    key."""
    return {"host": name, "vcpus": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb, **more}


#: Columns that a fleet may leave out.
OPTIONAL = (
    "num_io_ops",
    "failed_builds",
    "hypervisor_version",
    "host_ip",
    "hypervisor_type",
    "cpu_info",
    "supported_instances",
    "stats",
    "metrics",
    "traits",
    "numa",
    "free_pci_devices",
    "service",
)


def fleet(*hosts, instances=(), groups=None, aggregates=None):
    """Return the columns. ``instances``: dicts with name, host (and node), vcpus, memory_mb,
    disk_gb, group, flavor and image (properties); ``aggregates``: {name: metadata}. The members of
    an aggregate are the hosts that name it under ``aggregates``."""
    rows = sorted(hosts, key=lambda each: (each["host"], each.get("node", each["host"])))
    names = [each["host"] for each in rows]
    nodes = [each.get("node", each["host"]) for each in rows]
    columns = {
        "host": names,
        "node": nodes,
        "uuid": [uuid_of(f"{name}/{node}") for name, node in zip(names, nodes)],
        "cell": [each.get("cell") for each in rows],
        "zones": [list(each.get("zones", ())) for each in rows],
        "disabled": ["disabled" in each for each in rows],
        "disabled_reason": [each.get("disabled") for each in rows],
        "up": ["down" not in each for each in rows],
        "down_reason": [each.get("down") for each in rows],
        "disk_available_least": [each.get("disk_available_least_gb") for each in rows],
        "num_instances": [0] * len(rows),
        "instances": {},
        "instance_names": {},
        "server_groups": {
            name: {
                "uuid": uuid_of(name),
                "policy": policy,
                "max_server_per_host": most,
                "members": [],
            }
            for name, (policy, most) in (groups or {}).items()
        },
        "resources": {},
    }
    columns.update(
        {
            key: [each.get(key) for each in rows]
            for key in OPTIONAL
            if any(key in each for each in rows)
        }
    )
    if aggregates:
        columns["aggregates"] = [
            {
                "name": name,
                "metadata": metadata,
                "hosts": [each["host"] for each in rows if name in each.get("aggregates", ())],
            }
            for name, metadata in aggregates.items()
        ]
    for rc, key in CLASSES.items():
        columns["resources"][rc] = {
            "total": [each[key] for each in rows],
            "reserved": [each.get("reserved", {}).get(key, 0) for each in rows],
            "ratio": [each.get("ratio", {}).get(key, 1.0) for each in rows],
            "used": [each.get("used", {}).get(key, 0) for each in rows],
            "min_unit": [each.get("min_unit", {}).get(key, 1) for each in rows],
            "max_unit": [each.get("max_unit", {}).get(key, each[key]) for each in rows],
            "step_size": [each.get("step_size", {}).get(key, 1) for each in rows],
        }
    for instance in instances:
        index = next(
            i
            for i in range(len(rows))
            if names[i] == instance["host"] and instance.get("node", nodes[i]) == nodes[i]
        )
        key = instance.get("uuid") or uuid_of(instance["name"])
        columns["instances"][key] = index
        columns["instance_names"].setdefault(instance["name"], []).append(key)
        columns["num_instances"][index] += 1
        if instance.get("flavor"):
            columns.setdefault("node_flavors", []).append((index, instance["flavor"], 1))
        if instance.get("image"):
            columns.setdefault("node_images", []).append((index, instance["image"], 1))
        for rc, amount in CLASSES.items():
            columns["resources"][rc]["used"][index] += instance.get(amount, 0)
        if instance.get("group"):
            columns["server_groups"][instance["group"]]["members"].append(key)
    return columns


def provide(columns, rc, *providers):
    """Let nodes take a class from nested and sharing providers as well as from their own,
    and show the values of the store.

    :param providers: dicts name, total, used, hosts (rows of the nodes), shared (bool), and more
        fields of an inventory.
    """
    column = columns["resources"].setdefault(rc, {})
    size = len(columns["host"])
    usual = {
        "total": 0,
        "reserved": 0,
        "used": 0,
        "min_unit": 1,
        "max_unit": 10**6,
        "step_size": 1,
        "ratio": 1.0,
    }
    for key, value in usual.items():
        column.setdefault(key, [value] * size)
    provider_columns = {"uuid": [], "name": [], **{key: [] for key in usual}}
    pairs, shown = [], [-1] * size

    def add(uuid, name, values):
        provider_columns["uuid"].append(uuid)
        provider_columns["name"].append(name)
        for key, value in usual.items():
            provider_columns[key].append(values.get(key, value))
        return len(provider_columns["uuid"]) - 1

    for row in range(size):
        if column["total"][row]:
            own = add(
                columns["uuid"][row], columns["host"][row], {key: column[key][row] for key in usual}
            )
            pairs.append((row, own, False))
            shown[row] = own
    for entry in providers:
        number = add(uuid_of(entry["name"]), entry["name"], entry)
        for name in entry["hosts"]:
            row = columns["host"].index(name)
            pairs.append((row, number, bool(entry.get("shared"))))
            if entry.get("shared") and shown[row] < 0:
                shown[row] = number
                for key in usual:
                    column[key][row] = provider_columns[key][number]
    pairs.sort(key=lambda pair: pair[0])
    provider_columns.update(zip(("row", "provider", "lent"), map(list, zip(*pairs))))
    column["providers"] = {**provider_columns, "shown": shown}
    return columns


def request(name="web1", vcpus=1, memory_mb=64, disk_gb=1, aliases=None, **more):
    """Return a RequestSpec, made from the mapping that users write.

    :param aliases: names of PCI devices, as a policy has them.
    """
    return RequestSpec.from_request(
        {"name": name, "vcpus": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb, **more},
        aliases=aliases,
    )


# Fleets for property tests. Small numbers, so that hosts are often nearly full.

ratios = st.sampled_from([1.0, 1.5, 2.0, 0.5])


@st.composite
def hosts(draw, most=8):
    """Return a list of compute nodes of assorted sizes, some disabled or down, in two cells and
    zones."""
    host_list = []
    for number in range(draw(st.integers(1, most))):
        more = {
            "cell": draw(st.sampled_from([None, None, "a"])),
            "zones": draw(st.sampled_from([(), ("az1",), ("az1", "az2")])),
            "ratio": {key: draw(ratios) for key in CLASSES.values()},
            "reserved": {"memory_mb": draw(st.integers(0, 4))},
        }
        fate = draw(st.integers(0, 9))
        if fate == 0:
            more["disabled"] = "patching"
        if fate == 1:
            more["down"] = "unreachable"
        host_list.append(
            host(
                f"kvm{number}",
                vcpus=draw(st.integers(0, 8)),
                memory_mb=draw(st.integers(4, 16)),
                disk_gb=draw(st.integers(0, 12)),
                **more,
            )
        )
    return host_list


@st.composite
def requests(draw, most=8):
    """Return a batch; some requests are members of two new server groups."""
    policies = {"apart": draw(st.integers(1, 2)), "close": None}
    batch = []
    for number in range(draw(st.integers(1, most))):
        more = {}
        group = draw(st.sampled_from([None, None, "apart", "close"]))
        if group == "apart":
            more["server_group"] = {
                "name": group,
                "policy": "anti-affinity",
                "max_server_per_host": policies["apart"],
            }
        elif group == "close":
            more["server_group"] = {"name": group, "policy": "affinity"}
        batch.append(
            request(
                f"vm{number}",
                vcpus=draw(st.integers(1, 3)),
                memory_mb=draw(st.integers(1, 5)),
                disk_gb=draw(st.integers(0, 3)),
                **more,
            )
        )
    return batch

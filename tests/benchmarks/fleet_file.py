# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleet files as the peers' gen_fleet.py writes them, loaded into a store; their requests in our
form."""

from __future__ import annotations

import math
import time
import uuid

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables

#: The uuids that the peers give to objects.
SPACE = uuid.UUID("8d5f2f0e-5d1c-4a33-9c59-6a3a0f6b7f11")
CLASSES = {
    "VCPU": ("vcpus", "cpu"),
    "MEMORY_MB": ("memory_mb", "ram"),
    "DISK_GB": ("local_gb", "disk"),
}


def named_uuid(kind, name):
    return str(uuid.uuid5(SPACE, f"{kind}/{name}"))


def load(store, fleet):
    """Write a fleet file into an empty store."""
    now = time.time()
    hosts = fleet["hosts"]
    with store.write() as connection:

        def insert(table, rows):
            for start in range(0, len(rows), 20000):
                connection.execute(sa.insert(table), rows[start : start + 20000])

        insert(
            tables.services, [_service(number, host, now) for number, host in enumerate(hosts, 1)]
        )
        insert(
            tables.compute_nodes, [_node(number, host, now) for number, host in enumerate(hosts, 1)]
        )
        insert(
            tables.resource_classes, [{"id": n, "name": name} for n, name in enumerate(CLASSES, 1)]
        )
        insert(
            tables.resource_providers,
            [
                {
                    "id": n,
                    "uuid": _provider(host),
                    "name": f"{host['host']}/{host['node']}",
                    "generation": 0,
                }
                for n, host in enumerate(hosts, 1)
            ],
        )
        insert(
            tables.inventories,
            [row for n, host in enumerate(hosts, 1) for row in _inventories(n, host)],
        )
        insert(
            tables.consumers,
            [
                {
                    "id": n,
                    "uuid": named_uuid("used", f"{host['host']}/{host['node']}"),
                    "type": "INSTANCE",
                    "created_at": now,
                    "generation": 0,
                }
                for n, host in enumerate(hosts, 1)
            ],
        )
        insert(
            tables.allocations,
            [row for n, host in enumerate(hosts, 1) for row in _allocations(n, host)],
        )
        members = _aggregates(hosts)
        insert(
            tables.aggregates,
            [
                {"id": n, "uuid": named_uuid("agg", name), "name": name, "metadata": metadata}
                for n, (name, (metadata, _hosts)) in enumerate(members.items(), 1)
            ],
        )
        insert(
            tables.aggregate_hosts,
            [
                {"aggregate_id": n, "host": host}
                for n, (_metadata, names) in enumerate(members.values(), 1)
                for host in names
            ],
        )
        insert(
            tables.instances,
            [
                {
                    "uuid": each,
                    "name": each,
                    "compute_node_id": n,
                    "state": "active",
                    "vcpus": 1,
                    "memory_mb": 1,
                    "disk_gb": 0,
                    "image": (host.get("instance_images") or {}).get(each),
                    "created_at": now,
                }
                for n, host in enumerate(hosts, 1)
                for each in host.get("instances") or ()
            ],
        )
    with store.write() as connection:
        connection.execute(sa.text("ANALYZE"))


def _service(number, host, now):
    return {
        "id": number,
        "uuid": named_uuid("service", host["host"]),
        "host": host["host"],
        "binary": "libvirtd",
        "disabled": not host.get("enabled", True),
        "forced_down": bool(host.get("forced_down")),
        "last_seen_up": now,
        "last_error": None if host.get("up", True) else "unreachable",
        "created_at": now,
    }


def _node(number, host, now):
    arch, kind = host.get("arch", "x86_64"), (host.get("hypervisor_type") or "QEMU").lower()
    return {
        "id": number,
        "uuid": _provider(host),
        "service_id": number,
        "host": host["host"],
        "hypervisor_hostname": host["node"],
        "cell": host.get("cell"),
        "reported": True,
        "hypervisor_type": host.get("hypervisor_type", "QEMU"),
        "hypervisor_version": host.get("hypervisor_version", 8000000),
        "disk_available_least": host.get("disk_available_least"),
        "cpu_info": host.get("cpu_info"),
        "supported_instances": (
            host.get("supported_instances")
            or [[arch, "qemu" if kind == "kvm" else kind, "hvm"], [arch, "kvm", "hvm"]]
        ),
        "host_ip": host.get("host_ip"),
        "stats": {key: str(value) for key, value in (host.get("stats") or {}).items()} or None,
        "metrics": host.get("metrics"),
        "num_io_ops": host.get("num_io_ops", 0),
        "failed_builds": host.get("failed_builds", 0),
        "created_at": now,
        "updated_at": now,
    }


def _provider(host):
    return host.get("uuid") or named_uuid("rp", f"{host['host']}/{host['node']}")


def _inventories(number, host):
    for class_id, (total, ratio) in enumerate(CLASSES.values(), 1):
        yield {
            "provider_id": number,
            "class_id": class_id,
            "total": host[total],
            "reserved": 0,
            "min_unit": 1,
            "max_unit": max(host[total], 1),
            "step_size": 1,
            "allocation_ratio": host[f"{ratio}_allocation_ratio"],
            "used": host[f"{total}_used"],
        }


def _allocations(number, host):
    for class_id, (total, _ratio) in enumerate(CLASSES.values(), 1):
        if host[f"{total}_used"]:
            yield {
                "provider_id": number,
                "class_id": class_id,
                "consumer_id": number,
                "used": host[f"{total}_used"],
            }


def _aggregates(hosts):
    """Return {name: (metadata, hosts)}; a zone is a separate aggregate."""
    by_name = {}
    for host in hosts:
        mine = list(host.get("aggregates") or [])
        if host.get("availability_zone"):
            zone = host["availability_zone"]
            mine.append({"name": f"az-{zone}", "metadata": {"availability_zone": zone}})
        for aggregate in mine:
            metadata, names = by_name.setdefault(aggregate["name"], ({}, []))
            metadata.update(
                {key: str(value) for key, value in (aggregate.get("metadata") or {}).items()}
            )
            names.append(host["host"])
    return by_name


def request(number, asked):
    """Return a request of the peers' file as a request mapping of ours."""
    count = asked.get("num_instances", 1)
    identity = asked.get("id", str(number))
    disk = asked["root_gb"] + asked.get("ephemeral_gb", 0) + math.ceil(asked.get("swap", 0) / 1024)
    image = asked.get("image") or {}
    mapping = {
        "name": f"request{number}",
        "vcpus": asked["vcpus"],
        "memory_mb": asked["memory_mb"],
        "disk_gb": disk,
        "flavor": {
            "name": asked.get("flavor", "m1"),
            "extra_specs": asked.get("extra_specs") or {},
        },
        "image": {
            "id": image.get("id", str(uuid.UUID(int=2))),
            "properties": image.get("properties") or {},
        },
        "hints": asked.get("scheduler_hints") or {},
        "availability_zone": asked.get("availability_zone"),
        "project": asked.get("project_id", "p0"),
        "user": asked.get("user_id", "u0"),
        "ignore_hosts": asked.get("ignore_hosts") or [],
        "force_hosts": asked.get("force_hosts") or [],
        "force_nodes": asked.get("force_nodes") or [],
        "requested_destination": asked.get("requested_destination"),
        "num_instances": count,
        "uuids": (
            asked.get("instance_uuids")
            or [named_uuid("instance", f"{identity}/{n}") for n in range(count)]
        ),
    }
    if asked.get("group"):
        mapping["server_group"] = f"group{number}"
    return mapping


def group(asked):
    """Return the server group of a request of the peers' file as read_columns has it; None without
    one."""
    server_group = asked.get("group")
    if not server_group:
        return None
    return {
        "uuid": None,
        "policy": server_group["policy"],
        "max_server_per_host": int((server_group.get("rules") or {}).get("max_server_per_host", 1)),
        "members": list(server_group.get("members") or []),
    }

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stores to make pages of."""

from __future__ import annotations

import contextlib
import tempfile

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    refusals,
    report_data,
    scheduling,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._report.heat import heat_map
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import NoValidHost
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    aggregates,
    power,
    services,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import decisions
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

NOW = fleets.NOW
NASTY = "<script>alert('x')</script>\"&\u202eevil データ"


def view(url, now=NOW, service_down_time=0, plans=()):
    """Return the data that the page of a store shows."""
    with Store.open(url).read() as connection:
        return report_data.read(connection, Policy.from_mapping({}), now, service_down_time, plans)


def small(url):
    """Fill a store with six hosts: one down, one disabled, one in maintenance, one without
    instances; with zones, moves, power actions."""
    fleets.discover(
        url,
        host("kvm1", domain("web1", 2, 1024, 10), domain("db1", 1, 2048, 40)),
        host(
            "kvm2", domain("web2", 2, 1024, 10), domain(NASTY, 1, 64, 0), availability_zone="east"
        ),
        host("kvm3", domain("old", 4, 4096, 90, state="shutoff"), availability_zone="east"),
        host("kvm4"),
        host("kvm5", domain("cache", 1, 512, 0), availability_zone="west"),
        host("kvm6", domain("batch", 3, 3500, 5), availability_zone="west"),
    )
    with Store.open(url).write() as connection:
        nodes = tables.compute_nodes
        connection.execute(
            sa.update(nodes)
            .where(nodes.c.host == "kvm1")
            .values(memory_mb_used=3000, local_gb_used=61)
        )
        services.record_unreachable(connection, "kvm5", "no route to <kvm5>", NOW)
        for name, values in (
            ("kvm3", {"disabled": True, "disabled_reason": "new fan & more"}),
            ("kvm4", {"disabled": True, "disabled_reason": "patches", "maintenance": True}),
        ):
            services.change(connection, services.get(connection, name), values)
        aggregates.ensure(connection, "ssd", {"ssd": "true", "note": NASTY}, ["kvm1", "kvm2"])
        flavors.ensure(connection, "small", {"vcpus": 1, "memory_mb": 512, "disk_gb": 5}, NOW)
        flavors.ensure(connection, "large", {"vcpus": 2, "memory_mb": 1024, "disk_gb": 10}, NOW)
        event = power.begin(connection, "kvm4", "reboot", "ipmi", None, NOW)
        power.finish(connection, event["uuid"], "completed", "on", None, "came back", NOW + 90)
        power.begin(connection, "kvm1", "cycle", "redfish", None, NOW + 100)
        ids = {row.host: row.id for row in connection.execute(sa.select(nodes.c.id, nodes.c.host))}
        moves = [
            ("web1", "kvm2", "kvm1", "completed", None, 0),
            ("web2", "kvm1", "kvm2", "failed", NASTY, 1),
            ("db1", "kvm3", "kvm1", "completed", None, 1),
            ("cache", "kvm6", "kvm5", "confirmed", None, 40),
            ("batch", "kvm5", "kvm6", "running", None, 0),
        ]
        bulk.insert(
            connection,
            tables.migrations,
            [
                {
                    "uuid": bulk.new_uuid(),
                    "instance_uuid": uuid_of(name),
                    "instance_name": name,
                    "source_node_id": ids[source],
                    "destination_node_id": ids[target],
                    "source": source,
                    "destination": target,
                    "type": "live-migration",
                    "status": status,
                    "message": message,
                    "created_at": NOW - age * 86400,
                    "updated_at": NOW - age * 86400 + 12.5,
                }
                for name, source, target, status, message, age in moves
            ],
        )
    return url


def decided(url):
    """Fill the small store with decisions: by the scheduler, of an alternate, of unknown origin,
    refused."""
    small(url)
    store = Store.open(url)
    with store.read() as connection:
        wanted = {"name": "new", "vcpus": 1, "memory_mb": 512, "disk_gb": 5}
        picked = scheduling.decide(connection, [wanted], Policy.from_mapping({}), NOW)
    # The first choice of the second instance has no room now.
    why = picked[0]["explanation"]
    other = fleets.selection(
        "other", "kvm6", "kvm1", "kvm2", vcpus=1, memory_mb=1000, explanation=why
    )
    picked.append({**other, "name": NASTY})
    with store.write(together=True) as connection:
        claims.claim(connection, picked, NOW + 1, actor="ada@desk, process 7")
    with (
        contextlib.suppress(NoValidHost),
        refusals.kept(store, "place", "bob@<desk>", NOW + 2),
        store.read() as connection,
    ):
        too_big = {"name": "big", "vcpus": 64, "memory_mb": 65536}
        scheduling.decide(connection, [too_big], Policy.from_mapping({}), NOW)
    with store.write() as connection:
        unknown = decisions.row(
            "resize", None, (uuid_of("web1"), "web1"), NOW + 3, ("kvm2", "kvm2")
        )
        decisions.record(connection, [unknown])
    return url


def large(url, hosts=1000, instances=10):
    """Fill a store with many hosts, each with some instances."""
    sizes = [(1, 512, 5), (2, 2048, 20), (4, 8192, 40)]
    fleets.discover(
        url,
        *[
            host(
                f"kvm{number:04}",
                *[
                    domain(f"vm-{number:04}-{each}", *sizes[(number + each) % 3])
                    for each in range(number % (2 * instances + 1))
                ],
                vcpus=64,
                memory_mb=131072,
                local_gb=1000,
                availability_zone=f"az{number % 3}",
            )
            for number in range(hosts)
        ],
    )
    return url


def four_hundred(url):
    """Fill a store with so many instances that its page has the hosts as text."""
    return large(url, 400, 14)


def many(hosts, instances):
    """Return the data of a page of many hosts, copied from one host, because a store of this size
    takes a minute."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        fleets.discover(
            url,
            host(
                "kvm",
                *(domain(f"vm-{n}", 2, 2048, 20) for n in range(instances)),
                vcpus=64,
                memory_mb=131072,
            ),
        )
        page_data = view(url)
    (one,) = page_data["hosts"]
    page_data["hosts"] = [
        {
            **one,
            "host": f"kvm{number:04}",
            "id": f"host-kvm{number:04}",
            "instance_rows": [
                {
                    **row,
                    "uuid": uuid_of(f"{number}-{row['name']}"),
                    "name": f"vm-{number:04}-{place}",
                    "address": f"10.{number // 256}.{number % 256}.{place}",
                }
                for place, row in enumerate(one["instance_rows"])
            ],
        }
        for number in range(hosts)
    ]
    page_data["map"] = heat_map(page_data["hosts"])
    page_data["summary"] = {
        **page_data["summary"],
        "hosts": hosts,
        "up": hosts,
        "instances": hosts * instances,
    }
    page_data["seen"] = {**page_data["seen"], "oldest": page_data["hosts"][0]}
    return page_data


def pooled(url):
    """Fill a store with three hosts on one shared pool and one host with its own disk."""
    pool = {"name": "nfs", "path": "/srv/vms", "shared_id": "nfs:filer:/vms", "state": "running"}
    shared = {"pools": [pool], "instances_path": "/srv/vms/images", "local_gb": 500}
    fleets.discover(
        url,
        *[
            host(f"kvm{number}", domain(f"vm{number}", 1, 512, 20 * number), **shared)
            for number in (1, 2, 3)
        ],
        host("kvm4", domain("vm4", 1, 512, 7), local_gb=200),
    )
    return url


def plan():
    """Return a drain of kvm1 as plan_drain_info returns it."""
    moves = [
        {
            "uuid": uuid_of(name),
            "name": name,
            "state": "running",
            "live": True,
            "from_host": "kvm1",
            "from_node": "kvm1",
            "host": target,
            "node": target,
            "provider": "p",
            "vcpus": vcpus,
            "memory_mb": memory,
            "disk_gb": disk,
            "server_group": None,
            "wave": wave,
            "order": wave,
            "seconds": 12.0,
        }
        for name, target, vcpus, memory, disk, wave in (
            ("web1", "kvm2", 2, 1024, 10, 1),
            ("db1", "kvm6", 1, 2048, 40, 2),
        )
    ]
    return {
        "host": "kvm1",
        "status": "partial",
        "moves": moves,
        "extra_moves": 0,
        "shutdowns": [],
        "waves": 2,
        "seconds": 24.0,
        "unmovable": [
            {
                "uuid": "u",
                "name": NASTY,
                "state": "paused",
                "reason": "a PCI device is passed through\u0007",
            }
        ],
        "proof": None,
        "lines": [],
    }

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of plans about the time of moves: the copies of earlier moves, and the data that these
moves must copy."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    DrainQuestion,
    count_disks,
    plan_home,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._records.outcomes import MeasuredMove
from ansible_collections.drover.compute.plugins.plugin_utils._records.plans import LocalDisks
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    local_disks,
    measured_moves,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances.instances_for_plans import (
    read_instances,
)
from ansible_collections.drover.compute.tests.unit.placement.test_sharing import on_pool
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, domain, host, uuid_of

GIB = 1024**3
POLICY = Policy.from_mapping(None)
PROOF = certainty.word("a test")


def moved(url, name, to, memory_mib=None, disk_mib=0, seconds=None, kind="live-migration"):
    """Open and finish a migration of an instance."""
    copies = None if memory_mib is None else {"memory_mib": memory_mib, "disk_mib": disk_mib}
    with Store.open(url).write() as connection:
        opened = migration_claims.begin(connection, uuid_of(name), to, None, kind, NOW)
        migration_claims.finish(connection, opened["uuid"], PROOF, "running", NOW, copies, seconds)


def measured(url):
    with Store.open(url).read() as connection:
        return measured_moves.read(connection)


def drain(url, *names, limits=1, **more):
    with Store.open(url).read() as connection:
        return DrainQuestion(POLICY, MigrationLimits(limits), **more).plan(
            connection, names or ["kvm1"]
        )


def seen(uuid, mib, **disks):
    """Return a hypervisor's view of the disks of an instance that moves."""
    return {"uuid": uuid, "copies_disk_mib": mib, "copied_disks": disks}


def test_the_drain_of_two_hosts_takes_as_long_as_one_after_the_other(prepared_url):
    """StagedMoves carries the moves out one after the other, although the waves show both hosts at
    the same time."""
    hosts = [
        host(name, domain(f"{name}-a", memory_mb=4096), domain(f"{name}-b", memory_mb=1024))
        for name in ("kvm1", "kvm2")
    ]
    fleets.discover(prepared_url, *hosts, host("kvm3", memory_mb=65536))
    one, both = drain(prepared_url, "kvm1", limits=2), drain(prepared_url, "kvm1", "kvm2", limits=2)
    assert {move["host"] for move in both["moves"]} == {"kvm3"} and both["waves"] == one[
        "waves"
    ] == 1
    assert both["seconds"] == pytest.approx(2 * one["seconds"])
    assert both["estimate"][0] in both["lines"]


def test_what_a_move_copied_is_recorded_where_it_is_known(prepared_url):
    fleets.discover(
        prepared_url, host("kvm1", domain("a"), domain("b"), domain("c"), domain("d")), host("kvm2")
    )
    moved(prepared_url, "a", "kvm2", 4096, 0, 40.5)
    moved(prepared_url, "b", "kvm2", 0, 20480, 300.0, "migration")
    # The record comes from an older module, or the move ended before the first look.
    moved(prepared_url, "c", "kvm2", None, 0, 40.0)
    moved(prepared_url, "d", "kvm2", 64, 0, None)
    assert measured(prepared_url) == [
        MeasuredMove("kvm1", "kvm2", False, 0, 20480, 300.0),
        MeasuredMove("kvm1", "kvm2", True, 4096, 0, 40.5),
    ]


def test_the_newest_moves_count(prepared_url, monkeypatch):
    monkeypatch.setattr(measured_moves, "NEWEST", 3)
    fleets.discover(prepared_url, host("kvm1", domain("a")), host("kvm2"))
    for number in range(4):
        moved(prepared_url, "a", ("kvm2", "kvm1")[number % 2], 4096, 0, 40.0 + number)
    assert [each.seconds for each in measured(prepared_url)] == [43.0, 42.0, 41.0]


def test_which_disks_are_copied(prepared_url):
    def disk(path, **more):
        return {
            "target": "vda",
            "device": "disk",
            "type": "file",
            "path": path,
            "source": path,
            **more,
        }

    size = {"capacity_bytes": 20 * GIB, "allocation_bytes": 5 * GIB}
    base = {"path": "/var/base.qcow2", "real_path": None, "shared_id": None}
    disks = {
        "local": [disk("/var/a.qcow2", **size)],
        "whole": [disk("/var/b.qcow2", capacity_bytes=20 * GIB, allocation_bytes=None)],
        "shared": [disk("/srv/c.qcow2", shared_id="nfs:filer:/c.qcow2", **size)],
        "media": [disk("/var/d.iso", device="cdrom", readonly=True, **size)],
        "unknown": [disk("/var/e.qcow2", **size), disk("/var/f.qcow2", target="vdb")],
        "backed": [disk("/var/g.qcow2", chain=[base], **size)],
        "volume": [
            {"target": "vda", "device": "disk", "type": "volume", "source": "pool/h", **size}
        ],
        "device": [disk("/dev/vms/i", **size)],
        "network": [
            {"target": "vda", "device": "disk", "type": "network", "source": "rbd/i", **size}
        ],
    }
    guests = [domain(name, disks=found, disk_gb=20 * len(found)) for name, found in disks.items()]
    # Hosts that are recorded as data may have only sizes.
    fleets.discover(
        prepared_url,
        host("kvm1", *guests, domain("size", disk_gb=30), domain("none"), vcpus=20, local_gb=500),
    )
    with Store.open(prepared_url).read() as connection:
        instances = read_instances(connection)
        by_uuid = local_disks.read(connection, instances)
    names = {each["uuid"]: each["name"] for each in instances}
    assert {names[uuid]: each[:2] for uuid, each in by_uuid.items()} == {
        "local": (5120, ()),
        "whole": (20480, ()),
        "shared": (0, ()),
        "media": (0, ()),
        "unknown": (5120, ("the size of its disk vdb",)),
        "backed": (5120, ("the size of the images behind its disk vda",)),
        "volume": (0, ("where its disk vda is",)),
        "device": (20480, ()),
        "network": (0, ()),
        "size": (30 * 1024, ()),
    }
    assert {
        names[uuid]: [(disk["target"], disk["how"], disk["mib"]) for disk in each.disks]
        for uuid, each in by_uuid.items()
    } == {
        "local": [("vda", "copied", 5120)],
        "whole": [("vda", "copied", 20480)],
        "shared": [("vda", "shared", 0)],
        "media": [],
        "unknown": [("vda", "copied", 5120), ("vdb", "copied", None)],
        "backed": [("vda", "copied", 5120)],
        "volume": [("vda", "unknown", None)],
        "device": [("vda", "copied", 20480)],
        "network": [("vda", "shared", 0)],
        "size": [],
    }


def test_sizes_on_a_shared_pool_are_not_copied(prepared_url):
    fleets.discover(prepared_url, on_pool("kvm1", domain("a", disk_gb=30)), on_pool("kvm2"))
    with Store.open(prepared_url).read() as connection:
        instances = read_instances(connection)
        assert instances[0]["resources"]["DISK_GB"] == 30
        assert local_disks.read(connection, instances) == {uuid_of("a"): LocalDisks(0)}


def test_a_drain_counts_disks_and_cold_moves_by_measured_rates(prepared_url):
    """1,240 GiB of local disks take hours, and a cold move is not over in 2 s."""
    guests = [domain(f"vm{number}", memory_mb=4096, disk_gb=620) for number in (1, 2)]
    guests[1]["state"] = "shutoff"
    size = {"memory_mb": 65536, "local_gb": 4000}
    fleets.discover(
        prepared_url,
        host("kvm1", *guests, **size),
        host("kvm2", domain("old", memory_mb=4096), **size),
    )
    plan = drain(prepared_url)
    live, cold = plan["moves"]
    assert (live["copies_mib"], cold["copies_mib"]) == (4096 + 620 * 1024, 620 * 1024)
    assert (
        cold["seconds"] == pytest.approx(620 * 1024 / 110 + 2, abs=0.1)
        and plan["seconds"] > 3.2 * 3600
    )
    assert (
        plan["lines"][-2:]
        == plan["estimate"]
        == [
            "Expected to take about 3 h 13 min.",
            (
                "Copies 1.21 TiB: memory, disks of running instances, disks of instances that are"
                " shut off at 110 MiB/s, assumed."
            ),
        ]
    )
    for to, disk_mib in (("kvm1", 0), ("kvm2", 50_000), ("kvm1", 0)):
        moved(prepared_url, "old", to, 4096, disk_mib, 42.0 if not disk_mib else 2 + 54_096 / 200)
    moved(prepared_url, "old", "kvm2", 0, 100_000, 1002.0, "migration")
    plan = drain(prepared_url)
    assert (
        plan["estimate"][1]
        == "Copies 1.21 TiB: memory at 102 MiB/s, measured over 2 moves of the fleet; "
        "disks of running instances at 200 MiB/s, measured over 1 move of the fleet; "
        "disks of instances that are shut off at 100 MiB/s, measured over 1 move of the fleet."
    )
    assert plan["moves"][1]["seconds"] == pytest.approx(620 * 1024 / 100 + 2, abs=0.1)
    # The hypervisors have measured: their values replace the store's values, each time.
    with Store.open(prepared_url).read() as connection:
        for mib in (10, 20480):
            count_disks(connection, plan, [seen(cold["uuid"], mib)])
    live, cold = plan["moves"]
    assert (live["copies_disk_mib"], cold["copies_disk_mib"], cold["seconds"]) == (
        620 * 1024,
        20480,
        206.8,
    )
    assert any(line.endswith("cold, copies 20 GiB") for line in plan["lines"])


def test_what_is_not_known_is_named_until_the_hypervisors_know_it(prepared_url):
    disk = {
        "target": "vda",
        "device": "disk",
        "type": "file",
        "path": "/var/a.qcow2",
        "source": "/var/a.qcow2",
    }
    fleets.discover(prepared_url, host("kvm1", domain("web3", disks=[disk])), host("kvm2"))
    plan = drain(prepared_url)
    assert plan["lines"][-1] == "Not known, so not counted: the size of its disk vda (web3)."
    assert plan["moves"][0]["unknown"] == ["the size of its disk vda"]
    with Store.open(prepared_url).read() as connection:
        count_disks(connection, plan, [])
        assert plan["moves"][0]["disks"] == [
            {
                "target": "vda",
                "source": "/var/a.qcow2",
                "how": "copied",
                "mib": None,
                "virtual_mib": None,
            }
        ]
        assert plan["lines"][-1].startswith("Not known")
        count_disks(connection, plan, [seen(uuid_of("web3"), 1024, vda=1024)])
        assert plan["moves"][0]["disks"] == [
            {
                "target": "vda",
                "source": "/var/a.qcow2",
                "how": "copied",
                "mib": 1024,
                "virtual_mib": None,
            }
        ]
        count_disks(connection, plan, [seen(uuid_of("web3"), 0)])
        assert plan["moves"][0]["disks"] == [
            {
                "target": "vda",
                "source": "/var/a.qcow2",
                "how": "shared",
                "mib": 0,
                "virtual_mib": None,
            }
        ]
    assert (
        not any("Not known" in line for line in plan["lines"]) and plan["moves"][0]["unknown"] == []
    )


def test_the_way_home_counts_disks(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("a", disk_gb=30)), host("kvm2"))
    with Store.open(prepared_url).read() as connection:
        plan = plan_home(connection, {uuid_of("a"): ("kvm2", "kvm2")}, POLICY, None, 0, {})
    assert plan["moves"][0]["copies_disk_mib"] == 30 * 1024 and plan["seconds"] > 250
    assert plan["lines"][-2] == "Expected to take about 5 min."

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No claim gets space in a drained storage pool. The undrain gives back the space that was reserved
before.
"""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import drained_pools
from ansible_collections.drover.compute.plugins.plugin_utils._placement import pool_drains
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import pool_domains
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import record_device
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.placement.test_sharing import at_hand
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, uuid_of
from ansible_collections.drover.compute.tests.unit.tracker.test_storage_pools import (
    CEPH,
    SSD,
    ceph,
    disk,
    guest,
    machine,
    network,
    pool,
)

RESERVED = {"name": "ssd", "reserved_gb": 100}


def places(url, name="ssd", *hosts):
    """Return the places that count a pool; without a name those are the places of the instances'
    path."""
    with Store.open(url).read() as connection:
        if name is None:
            return [(node.uuid, "DISK_GB") for node in pool_domains.nodes(connection, hosts)]
        return drained_pools.places_of(drained_pools.find(connection, name, hosts))


def drain(url, name="ssd", *hosts, reason="new disks"):
    there = places(url, name, *hosts)
    with Store.open(url).write() as connection:
        return pool_drains.begin(connection, there, reason)


def undrain(url, name="ssd", *hosts):
    there = places(url, name, *hosts)
    with Store.open(url).write() as connection:
        return pool_drains.end(connection, there)


def reasons(url, name="ssd", *hosts):
    there = places(url, name, *hosts)
    with Store.open(url).read() as connection:
        return list(pool_drains.reasons(connection, there).values())


def attach(url, name, *disks):
    """Claim space as an instance does before it gets disks."""
    facts = guest(name, *({**each, "target": f"vd{'abcd'[at]}"} for at, each in enumerate(disks)))
    with Store.open(url).write() as connection:
        record_device.claim(connection, uuid_of(name), "kvm1", facts, NOW)


def test_all_of_it_is_reserved_and_given_back(prepared_url):
    fleets.discover(
        prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 20)), wanted=[RESERVED])
    )
    assert drain(prepared_url)
    assert at_hand(prepared_url)["kvm1_pool_ssd"] == {SSD: (500, 500, 1.0, 20)} and reasons(
        prepared_url
    ) == ["new disks"]
    # The first reason stays.
    assert not drain(prepared_url, reason="another") and reasons(prepared_url) == ["new disks"]
    assert undrain(prepared_url) == set(places(prepared_url))
    assert (
        at_hand(prepared_url)["kvm1_pool_ssd"] == {SSD: (500, 100, 1.0, 20)}
        and reasons(prepared_url) == []
    )
    assert undrain(prepared_url) == set()


@pytest.mark.parametrize("kind", ["own", "shared", "instances"])
def test_discovery_keeps_it_closed_and_remembers_what_is_new(prepared_url, kind):
    """The pool belongs to one host, to several, or is the pool of the instances' path. A new size
    and a new reserve are recorded."""

    def nodes(size, kept):
        wanted = [{"name": name, "reserved_gb": kept} for name in ("ssd", "ceph")]
        return [
            machine(name, wanted=wanted, pools=[pool("ssd", size), ceph(size)], local_gb=size)
            for name in ("kvm1", "kvm2")
        ]

    name, provider, resource = {
        "own": ("ssd", "kvm1_pool_ssd", SSD),
        "shared": ("ceph", "pool/ceph", CEPH),
        "instances": (None, "kvm1", "DISK_GB"),
    }[kind]
    hosts = () if kind == "shared" else ("kvm1",)
    fleets.discover(prepared_url, *nodes(500, 100))
    before = at_hand(prepared_url)[provider][resource][1]
    assert drain(prepared_url, name, *hosts)
    for size in (500, 600):
        fleets.discover(prepared_url, *nodes(size, 100))
        assert at_hand(prepared_url)[provider][resource][:2] == (size, size)
    if kind != "instances":
        fleets.discover(prepared_url, *nodes(600, 50))
        before = 50
    assert undrain(prepared_url, name, *hosts)
    assert at_hand(prepared_url)[provider][resource][:2] == (600, before)
    # The pool of the other host was never closed.
    assert (
        kind == "shared"
        or at_hand(prepared_url)[provider.replace("kvm1", "kvm2")][resource][1] == before
    )


def test_a_disk_more_gets_no_space(prepared_url):
    fleets.discover(prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 20))))
    drain(prepared_url)
    with pytest.raises(
        DroverError, match="its storage pool is drained, which drover.compute.undrain ends"
    ):
        attach(prepared_url, "web", disk("/srv/ssd/a", 20), disk("/srv/ssd/b", 1))
    # The instance keeps its disk in the pool, and may get disks on other storage.
    attach(prepared_url, "web", disk("/srv/ssd/a", 20), disk("/var/lib/libvirt/images/b", 1))
    undrain(prepared_url)
    attach(prepared_url, "web", disk("/srv/ssd/a", 20), disk("/srv/ssd/b", 1))


def test_a_claim_and_a_drain_at_the_same_moment(prepared_url):
    """In both orders, a claim after the drain is refused."""
    fleets.discover(prepared_url, machine("kvm1", guest("web")))

    def claim():
        try:
            attach(prepared_url, "web", disk("/srv/ssd/a", 20))
        except DroverError as problem:
            return str(problem)
        return None

    refused, closed = fleets.race(claim, lambda: drain(prepared_url))
    assert closed and at_hand(prepared_url)["kvm1_pool_ssd"] == {
        SSD: (500, 500, 1.0, 0 if refused else 20)
    }


def test_a_host_shows_that_its_pool_is_drained(prepared_url):
    fleets.discover(prepared_url, machine("kvm1", wanted=[RESERVED]))
    drain(prepared_url)
    host_info = run("host_info", {}, store_url=prepared_url, host="kvm1")
    (shown,) = host_info["storage_pools"]
    assert (shown["drained"], shown["reserved_gb"], shown["capacity_gb"]) == (True, 100, 400)
    assert " ".join(host_info["table"][-1].split()).startswith("ssd running, drained 0/400 GiB")


def test_pools_that_cannot_be_drained_are_refused_with_a_way_out(prepared_url):
    fleets.discover(
        prepared_url,
        machine("kvm1", wanted=["ssd", "ceph"], pools=[pool("ssd"), ceph()]),
        machine("kvm2", wanted=["ceph"], pools=[pool("ssd"), ceph()]),
    )
    for name, hosts, sentence in (
        ("sdd", (), r"No host has a storage pool sdd \(did you mean ssd\?\); they have ceph, ssd"),
        ("ssd", ("kvm1", "kvm2"), "is not counted on kvm2"),
        ("ceph", ("kvm1",), "leave drover_host out"),
    ):
        with pytest.raises(DroverError, match=sentence):
            places(prepared_url, name, *hosts)
    # Without hosts, a local pool is found on the hosts that count it.
    assert len(places(prepared_url, "ssd")) == 1 and len(places(prepared_url, "ceph")) == 1


def test_a_shared_pool_that_a_host_does_not_count_is_refused(prepared_url):
    fleets.discover(
        prepared_url,
        machine("kvm1", wanted=["ceph"], pools=[ceph()]),
        machine("kvm2", guest("web", network("a", 8)), wanted=[], pools=[ceph()]),
    )
    with pytest.raises(DroverError, match="kvm2 has it too but does not count it"):
        places(prepared_url, "ceph")


def test_whose_a_file_is_by_its_name_and_who_is_not_seen(prepared_url):
    fleets.discover(
        prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 20)), guest("db"))
    )
    fleets.discover(prepared_url, machine("kvm1", guest("db")))
    mine, stranger = f"/srv/ssd/{uuid_of('web')}-vda", f"/srv/ssd/{uuid_of('nobody')}-vda"
    with Store.open(prepared_url).read() as connection:
        assert pool_domains.named_for(
            connection, [mine, stranger, f"/srv/{uuid_of('web')}/base"]
        ) == {mine: "web"}
        ids = [node.id for node in pool_domains.nodes(connection, ["kvm1"])]
        assert pool_domains.unseen(connection, ids) == [(uuid_of("web"), "web", "missing")]

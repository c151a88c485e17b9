# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof that a storage pool is empty: a file of an instance never counts as unused, and an
unknown pool never as empty."""

from __future__ import annotations

import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    HostTimeout,
    Unreachable,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    drained_pools,
    pool_proof,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.placement.test_sharing import held
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of
from ansible_collections.drover.compute.tests.unit.tracker.test_storage_pools import (
    disk,
    guest,
    machine,
    pool,
)

NFS = "nfs:filer:/export/ssd"
NOTHING = {"needed": [], "others": [], "doubts": []}


class Hand:
    """A host that lists its pool."""

    def __init__(self, answer, users=None):
        self.answer, self.users = answer, users or {}

    def read(self, module, args):
        if module == "_file_users":
            return {
                "names": [file_name(path) for path in args.get("paths") or ()],
                "users": self.users,
            }
        assert module == "_pool_contents"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Hosts:
    """A stand-in for conductor.ports.Hosts: the pool lists of hosts, their use of other hosts'
    files, and hosts without an answer."""

    def __init__(self, answers, users, silent):
        self.answers, self.users, self.silent = answers, users, silent

    def names(self):
        return []

    def hand(self, host):
        return Hand(self.answers.get(host, NOTHING), self.users.get(host))

    def at_once(self, questions, limit):
        return {
            host: HostTimeout(host, limit) if host in self.silent else question(self.hand(host))
            for host, question in questions.items()
        }


def file_name(path):
    share = f"{NFS}{path.removeprefix('/srv/ssd')}" if path.startswith("/srv/ssd/") else None
    return {"path": path, "real_path": path, "shared_id": share, "inode": None, "mount": "/"}


def look(url, answers, hosts=(), users=None, silent=()):
    """Return the content of the pool ssd."""
    store = Store.open(url)
    ports = Ports(store, Hosts(answers, users or {}, silent), None, str, time)
    with store.read() as connection:
        pools = drained_pools.find(connection, "ssd", hosts)
        contents = drained_pools.Contents(connection, pools)
    return {left.pool.node.host: left for left in pool_proof.look(ports, contents, pools)}


def others(*names):
    return {**NOTHING, "others": [{"path": f"/srv/ssd/{name}", "reason": None} for name in names]}


def names(found):
    return [each["path"].rpartition("/")[2] for each in found]


def test_nothing_in_it_and_files_of_nobody(prepared_url):
    fleets.discover(
        prepared_url, machine("kvm1", guest("web", disk("/var/lib/libvirt/images/a", 10)))
    )
    assert look(prepared_url, {})["kvm1"].is_empty
    left = look(prepared_url, {"kvm1": others("notes.txt")})["kvm1"]
    assert left.is_empty and names(left.others) == ["notes.txt"]


def test_what_is_an_instances_is_not_taken_for_nobodys(prepared_url):
    """The proof counts the host's list, its last report, files named for an instance, and files
    that another host uses under another path."""
    fleets.discover(prepared_url, machine("kvm1", guest("web", disk("/srv/ssd/a", 10))))
    contents = look(
        prepared_url,
        {
            "kvm1": {
                **NOTHING,
                "needed": [{"path": "/srv/ssd/b", "reason": "the domain db uses it"}],
            }
        },
    )["kvm1"]
    assert not contents.is_empty and names(contents.needed) == ["a", "b"]

    fleets.discover(
        prepared_url, machine("kvm1", guest("web", disk("/var/lib/libvirt/images/a", 10)))
    )
    contents = look(prepared_url, {"kvm1": others(f"{uuid_of('web')}-vda", "notes.txt")})["kvm1"]
    assert not contents.is_empty and names(contents.others) == ["notes.txt"]
    assert [each["reason"] for each in contents.needed] == [
        "it is named for the instance web, whose domain does not have it"
    ]


def test_a_file_that_a_host_uses_by_its_mount_alone(prepared_url):
    """kvm2 has the same NFS export mounted, and no libvirt pool on it."""
    shared = pool("ssd", kind="netfs", shared_id=NFS)
    mount = {"path": "/mnt/ssd", "source": "filer:/export/ssd", "shared_id": NFS}
    fleets.discover(
        prepared_url,
        machine("kvm1", pools=[shared]),
        machine(
            "kvm2",
            guest("far", disk("/mnt/ssd/far.qcow2", 10)),
            wanted=[],
            pools=[],
            mounts=[mount],
        ),
    )
    contents = look(prepared_url, {"kvm1": others("far.qcow2", "notes.txt")})["kvm1"]
    assert (
        not contents.is_empty
        and names(contents.needed) == ["far.qcow2"]
        and names(contents.others) == ["notes.txt"]
    )


def test_b3_a_file_that_another_host_has_come_to_need(prepared_url):
    """The other host needs the file since its last discovery. A file that a host without an answer
    may need does not count as unused."""
    shared = pool("ssd", kind="netfs", shared_id=NFS)
    mount = {"path": "/mnt/ssd", "source": "filer:/export/ssd", "shared_id": NFS}
    fleets.discover(
        prepared_url,
        machine("kvm1", pools=[shared]),
        machine("kvm2", wanted=[], pools=[], mounts=[mount]),
        machine("kvm3"),
    )
    listings = {"kvm1": others("far.qcow2", "notes.txt")}
    contents = look(
        prepared_url, listings, users={"kvm2": {"/srv/ssd/far.qcow2": "the domain far uses it"}}
    )["kvm1"]
    assert contents.needed == [
        {"path": "/srv/ssd/far.qcow2", "reason": "on kvm2 the domain far uses it"}
    ] and names(contents.others) == ["notes.txt"]
    contents = look(prepared_url, listings, silent=("kvm2",))["kvm1"]
    assert (
        not contents.is_empty
        and "kvm2 does not answer" in contents.needed[0]["reason"]
        and contents.others == []
    )
    # kvm3 has another pool of that name, so it sees none of these files.
    assert look(prepared_url, listings, silent=("kvm3",))["kvm1"].is_empty


@pytest.mark.parametrize(
    "answer, words",
    [
        ({"failed": True, "msg": "The folder /srv/ssd of kvm1 cannot be read."}, "cannot be read"),
        (Unreachable("kvm1", "no route to host"), "no route"),
        (HostTimeout("kvm1", 60), "in time"),
        ({**NOTHING, "doubts": ["what /srv/x is backed by cannot be read"]}, "is backed by"),
    ],
)
def test_what_is_not_known_is_not_empty(prepared_url, answer, words):
    fleets.discover(prepared_url, machine("kvm1"))
    left = look(prepared_url, {"kvm1": answer})["kvm1"]
    assert not left.is_empty and not left.needed and words in left.doubts[0]


def test_an_instance_that_is_missing_may_have_its_disk_there(prepared_url):
    fleets.discover(
        prepared_url,
        machine(
            "kvm1",
            guest("web", disk("/srv/ssd/a", 10)),
            guest("db", disk("/var/lib/libvirt/images/a", 10)),
        ),
    )
    fleets.discover(prepared_url, machine("kvm1"))
    left = look(prepared_url, {})["kvm1"]
    assert left.doubts == [
        "where the disks of the instance web are, which has space in the pool and is missing on"
        " kvm1"
    ]


def contents_of(url, name="ssd"):
    with Store.open(url).read() as connection:
        return drained_pools.Contents(connection, drained_pools.find(connection, name, []))


def test_a_pool_inside_the_drained_one_is_no_destination(prepared_url):
    pools = [
        pool("ssd"),
        pool("inside", path="/srv/ssd/inside"),
        pool("linked", path="/srv/linked", real_path="/srv/ssd/other"),
        pool("hdd"),
    ]
    fleets.discover(
        prepared_url,
        machine(
            "kvm1",
            guest("web", disk("/srv/ssd/a", 1)),
            pools=pools,
            wanted=("ssd", "inside", "linked", "hdd"),
        ),
    )
    refused = {
        space.name: space.refused
        for space in contents_of(prepared_url).spaces
        if space.name in ("inside", "linked", "hdd")
    }
    assert refused == {
        "inside": "its folder is in the pool that is drained",
        "linked": "its folder is in the pool that is drained",
        "hdd": None,
    }
    # In the other direction it is a destination.
    assert {space.name: space.refused for space in contents_of(prepared_url, "inside").spaces}[
        "ssd"
    ] is None


def test_a_pool_that_does_not_run_is_not_drained(prepared_url):
    fleets.discover(
        prepared_url,
        machine("kvm1", pools=[pool("ssd", state="inactive"), pool("hdd")]),
        machine("kvm2"),
    )
    with Store.open(prepared_url).read() as connection:
        pools = drained_pools.find(connection, "ssd", [])
        with pytest.raises(DroverError, match="The storage pool ssd on kvm1 does not run"):
            drained_pools.refuse_stopped(pools)
        drained_pools.refuse_stopped([each for each in pools if each.node.host == "kvm2"])


def test_a_disk_by_another_name_of_the_pool_is_in_it(prepared_url):
    """A second pool of libvirt, which does not count, has the same folder through a link; its name
    comes last, and first."""
    for alias in ("zz", "aa"):
        pools = [pool("ssd"), pool(alias, path="/srv/alias", real_path="/srv/ssd"), pool("hdd")]
        named = disk("/srv/alias/a", 1, real_path="/srv/ssd/a")
        fleets.discover(
            prepared_url, machine("kvm1", guest("web", named), pools=pools, wanted=("ssd", "hdd"))
        )
        assert [each.source for each in contents_of(prepared_url).disks] == ["/srv/alias/a"]
        assert held(prepared_url)["web"]["kvm1_pool_ssd"] == {"CUSTOM_DISK_GB_SSD": 1}

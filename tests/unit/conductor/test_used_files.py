# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The users of each file, over all hosts: discovery records them, writes only changes, and one
query finds them."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import used_files
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import files
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import domain as domain_facts
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import record_domain
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, domain, host, uuid_of

NFS = {"path": "/srv/vms", "shared_id": "nfs:filer:/vms"}


def disk(path, *behind, **more):
    chain = [{"path": each, "shared_id": None} for each in behind]
    return {
        "target": "vda",
        "type": "file",
        "source": path,
        "path": path,
        "shared_id": None,
        "chain": chain,
        **more,
    }


def vm(name, *disks, **more):
    return domain(name, disks=list(disks), **more)


def rows(url):
    with Store.open(url).read() as connection:
        table, nodes = tables.domain_files, tables.compute_nodes
        query = sa.select(
            nodes.c.host, table.c.uuid, table.c.path, table.c.identity, table.c.id
        ).join(nodes, nodes.c.id == table.c.compute_node_id)
        return sorted(map(tuple, connection.execute(query)), key=str)


def seen(url):
    """Return host -> set of (path, identity)."""
    by_host = {}
    for place, _dummy, path, identity, _dummy2 in rows(url):
        by_host.setdefault(place, set()).add((path, identity))
    return by_host


def elsewhere(url, name, place, *paths):
    with Store.open(url).read() as connection:
        return used_files.elsewhere(connection, uuid_of(name), place, paths)


def test_disks_and_all_behind_them_are_recorded(prepared_url):
    volume = {"target": "vdb", "type": "volume", "source": "san/data"}
    web = vm(
        "web",
        disk("/srv/vms/web.qcow2", "/img/base.qcow2"),
        volume,
        {"target": "vdc", "type": "network", "source": "rbd:p/x"},
    )
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            web,
            mounts=[NFS],
            pools=[{"name": "san", "path": "/san", "shared_id": "declared:rack"}],
        ),
    )
    files_used = {
        ("/srv/vms/web.qcow2", "nfs:filer:/vms/web.qcow2"),
        ("/img/base.qcow2", None),
        ("rbd:p/x", None),
        ("san/data", "declared:rack/data"),
    }
    assert seen(prepared_url) == {"kvm1": files_used}
    used_volume = {**volume, "path": "/san/data"}
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            vm("web", used_volume),
            pools=[{"name": "san", "path": "/san", "shared_id": "declared:rack"}],
        ),
    )
    assert seen(prepared_url) == {"kvm1": {("/san/data", "declared:rack/data")}}


@pytest.mark.parametrize("way", ["disk", "behind", "pool"])
def test_safety_04_a_link_is_no_other_file(prepared_url, way):
    """The domain reaches the disk of another host's instance through a link: in its own path, in a
    backing file's path, or above its pool."""
    pool = {"name": "san", "path": "/san", "shared_id": "declared:rack"}
    theirs = {
        "disk": disk("/links/web.qcow2", real_path="/san/web.qcow2"),
        "behind": disk(
            "/elsewhere/b.qcow2",
            chain=[{"path": "/links/web.qcow2", "real_path": "/san/web.qcow2", "shared_id": None}],
        ),
        "pool": disk("/links/web.qcow2", real_path="/mnt/7/web.qcow2"),
    }[way]
    their_pool = {**pool, "real_path": "/mnt/7"} if way == "pool" else pool
    fleets.discover(
        prepared_url,
        host("kvm1", vm("web", disk("/san/web.qcow2", real_path="/san/web.qcow2")), pools=[pool]),
        host("kvm2", vm("db", theirs), pools=[their_pool]),
    )
    assert elsewhere(prepared_url, "web", "kvm1") == ["/san/web.qcow2"]
    if way != "behind":
        assert set(elsewhere(prepared_url, "db", "kvm2")) == {theirs["real_path"]}


def test_a_discovery_that_finds_nothing_new_writes_nothing(prepared_url):
    nodes = [
        host("kvm1", vm("web", disk("/a", "/base")), vm("db", disk("/b"))),
        host("kvm2", vm("app", disk("/c"))),
    ]
    fleets.discover(prepared_url, *nodes)
    before = rows(prepared_url)
    fleets.discover(prepared_url, *nodes, now=NOW + 60)
    assert rows(prepared_url) == before
    # Only the changes are written.
    fleets.discover(
        prepared_url,
        host("kvm1", vm("web", disk("/a", "/base2")), vm("db", disk("/b"))),
        now=NOW + 120,
    )
    after = rows(prepared_url)
    assert set(before) - set(after) == {row for row in before if row[2] == "/base"}
    assert [row[2] for row in set(after) - set(before)] == ["/base2"]
    fleets.discover(prepared_url, host("kvm1"), now=NOW + 180)
    assert seen(prepared_url) == {"kvm2": {("/c", None)}}


def test_storage_who_needs_a_file_of_an_instance_on_another_host(prepared_url):
    """The file is found by its path, and by its place on shared storage, for any path there."""
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            vm("base", disk("/srv/vms/base"), disk("/srv/vms/own"), disk("/local/x")),
            vm("near", disk("/y", "/srv/vms/own")),
            mounts=[NFS],
        ),
        host(
            "kvm2",
            vm("clone", disk("/mnt/clone", "/mnt/base")),
            mounts=[{"path": "/mnt", "shared_id": "nfs:filer:/vms"}],
        ),
        host("kvm3", vm("same-name", disk("/local/x"))),
    )
    # The hypervisor knows the users on its own host better.
    assert elsewhere(prepared_url, "base", "kvm1") == ["/local/x", "/srv/vms/base"]
    assert elsewhere(prepared_url, "near", "kvm1") == []
    # A disk that was added after the last discovery.
    assert elsewhere(prepared_url, "near", "kvm1", "/srv/vms/clone") == ["/srv/vms/clone"]


def rbd(image, servers="mon1"):
    return {
        "target": "vda",
        "type": "network",
        "source": f"rbd:vms/{image}",
        "path": None,
        "origin": servers and f"rbd:{servers}:/vms/{image}",
    }


@pytest.mark.parametrize(
    "theirs",
    [
        rbd("x"),
        rbd("x", "mon2,mon3:6790"),
        rbd("x", None),
        {"target": "vda", "type": "volume", "source": "their-name/x", "path": None},
    ],
    ids=["the same", "other monitors", "monitors of ceph.conf", "by its pool"],
)
def test_an_image_on_the_network_is_needed_by_a_domain_of_another_host(prepared_url, theirs):
    pool = {"name": "their-name", "path": None, "shared_id": "rbd:mon2:/vms"}
    fleets.discover(
        prepared_url,
        host("kvm1", vm("web", rbd("x"), rbd("own"))),
        host("kvm2", vm("thief", theirs), pools=[pool]),
    )
    assert elsewhere(prepared_url, "web", "kvm1") == ["rbd:vms/x"]
    assert elsewhere(prepared_url, "thief", "kvm2")


def other(path, kind="file", written=True, **more):
    return {
        "type": kind,
        "source": path,
        "path": path,
        "format": "raw",
        "written": written,
        "shared_id": None,
        "chain": [],
        **more,
    }


def test_files_that_are_no_disks_are_needed_too(prepared_url):
    """UEFI variables, kernels, logs, and disks that only the running guest has."""
    hot = other("/mnt/hot", chain=[{"path": "/mnt/behind", "shared_id": None}])
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            vm("web", disk("/srv/vms/vars"), disk("/srv/vms/hot"), disk("/srv/vms/own")),
            mounts=[NFS],
        ),
        host(
            "kvm2",
            vm("uefi", other_files=[other("/mnt/vars"), other("/mnt/kernel", written=False), hot]),
            mounts=[{"path": "/mnt", "shared_id": "nfs:filer:/vms"}],
        ),
    )
    assert elsewhere(prepared_url, "web", "kvm1") == ["/srv/vms/hot", "/srv/vms/vars"]
    with Store.open(prepared_url).read() as connection:
        for name in ("vars", "kernel", "hot", "behind"):
            with pytest.raises(DroverError, match="is a file that uefi on kvm2 uses"):
                used_files.refuse_taken(
                    connection, uuid_of("web"), "web", "kvm1", [f"/srv/vms/{name}"]
                )
        for name in ("vars", "hot"):
            with pytest.raises(DroverError, match="is a file that uefi on kvm2 writes to"):
                used_files.refuse_read(
                    connection, uuid_of("web"), "web", "kvm1", [f"/srv/vms/{name}"]
                )
        used_files.refuse_read(
            connection, uuid_of("web"), "web", "kvm1", ["/srv/vms/kernel", "/srv/vms/behind"]
        )
    # Backing files and read-only files are not removed with an instance, so the query leaves
    # them out.
    fleets.discover(
        prepared_url, host("kvm3", vm("same", disk("/mnt/kernel"), disk("/mnt/behind")))
    )
    assert elsewhere(prepared_url, "uefi", "kvm2") == ["/mnt/hot", "/mnt/vars"]


@pytest.mark.parametrize("given", ["/mnt/fs", "/mnt", "/", "/by-link"])
def test_a_folder_is_given_away_with_all_that_is_in_it(prepared_url, given):
    """File systems that are mounted in the folder are included, for any path on other hosts."""
    folder = other(given, "dir", real_path="/mnt/fs" if given == "/by-link" else given)
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            vm("web", disk("/srv/vms/fs/deep/disk"), disk("/local/disk"), disk("/srv/vms/fsx")),
            mounts=[NFS],
        ),
        host(
            "kvm2",
            vm("reader", other_files=[folder]),
            mounts=[{"path": "/mnt", "shared_id": "nfs:filer:/vms"}],
        ),
    )
    expected = {
        "/mnt": ["/srv/vms/fs/deep/disk", "/srv/vms/fsx"],
        "/": ["/local/disk", "/srv/vms/fs/deep/disk", "/srv/vms/fsx"],
    }
    assert elsewhere(prepared_url, "web", "kvm1") == expected.get(given, ["/srv/vms/fs/deep/disk"])
    with Store.open(prepared_url).read() as connection:
        for place, path in (("kvm1", "/srv/vms/fs/new"), ("kvm2", "/mnt/fs/new")):
            with pytest.raises(DroverError, match="is a file that reader on kvm2 uses"):
                used_files.refuse_taken(connection, uuid_of("new"), "new", place, [path])
        used_files.refuse_taken(connection, uuid_of("reader"), "reader", "kvm2", ["/mnt/fs/new"])
        if given != "/":
            used_files.refuse_taken(
                connection, uuid_of("new"), "new", "kvm1", ["/srv/other", "/srv/vms"]
            )


def test_a_floppy_disk_is_written_to(prepared_url):
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            vm(
                "old",
                {**disk("/floppy"), "device": "floppy"},
                {**disk("/medium"), "device": "cdrom"},
            ),
        ),
    )
    with Store.open(prepared_url).read() as connection:
        assert files.user(connection, "/floppy", None, uuid_of("new"), writes=True)
        assert files.user(connection, "/medium", None, uuid_of("new"), writes=True) is None


def test_what_is_behind_the_disks_of_all_is_not_looked_for(prepared_url):
    """The golden image is never removed with an instance, and thousands need it."""
    fleets.discover(
        prepared_url,
        *[host(f"kvm{each}", vm(f"vm{each}", disk(f"/vm{each}", "/golden"))) for each in range(3)],
    )
    assert elsewhere(prepared_url, "vm0", "kvm0") == []


def test_safety_22_a_disk_of_another_is_not_built_on(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", vm("db1", disk("/srv/vms/db", "/srv/vms/base")), mounts=[NFS]),
        host("kvm2", mounts=[{"path": "/mnt", "shared_id": "nfs:filer:/vms"}]),
    )
    with Store.open(prepared_url).read() as connection:
        for place, path in (
            ("kvm1", "/srv/vms/db"),
            ("kvm2", "/srv/vms/db"),
            ("kvm2", "/mnt/db"),
            ("kvm2", "/mnt/base"),
        ):
            with pytest.raises(
                DroverError,
                match=f"Instance db2 on {place}: its disk {path} is a file that db1 on kvm1 uses",
            ) as refused:
                used_files.refuse_taken(connection, uuid_of("db2"), "db2", place, [path])
            assert refused.value.details["uncertain"] is False
        used_files.refuse_taken(connection, uuid_of("db1"), "db1", "kvm2", ["/srv/vms/db"])
        used_files.refuse_taken(connection, uuid_of("db2"), "db2", "kvm2", ["/mnt/other"])


def test_an_image_that_an_instance_writes_to_is_no_image(prepared_url):
    """The instance may run or be off, on any host: its next write destroys every image that is
    backed by the file."""
    written = {**vm("db1", disk("/srv/vms/db", "/srv/vms/base")), "state": "shutoff"}
    template = vm("template", {**disk("/srv/vms/golden"), "readonly": True})
    fleets.discover(
        prepared_url,
        host("kvm1", written, template, mounts=[NFS]),
        host("kvm2", mounts=[{"path": "/mnt", "shared_id": "nfs:filer:/vms"}]),
    )
    with Store.open(prepared_url).read() as connection:
        for place, path in (("kvm1", "/srv/vms/db"), ("kvm2", "/mnt/db")):
            said = (
                f"Instance new on {place}: the image {path} is a file that db1 on kvm1 writes"
                " to.*Nothing was begun"
            )
            with pytest.raises(DroverError, match=said) as refused:
                used_files.refuse_written(connection, uuid_of("new"), "new", place, [path])
            assert refused.value.details["uncertain"] is False
        used_files.refuse_written(
            connection, uuid_of("new"), "new", "kvm2", ["/mnt/base", "/mnt/golden", "/mnt/other"]
        )


def test_files_go_with_the_instance(prepared_url):
    """A move takes them along, a deletion removes them, and a look at one instance replaces the
    files of that instance."""
    fleets.discover(
        prepared_url, host("kvm1", vm("web", disk("/a")), vm("db", disk("/b"))), host("kvm2")
    )
    with Store.open(prepared_url).write() as connection:
        opened = migration_claims.begin(
            connection, uuid_of("web"), "kvm2", "kvm2", "migration", NOW, "kvm1"
        )
    # During a move its host may no longer show it.
    fleets.discover(prepared_url, host("kvm1", vm("db", disk("/b"))), now=NOW + 1)
    assert seen(prepared_url) == {"kvm1": {("/a", None), ("/b", None)}}
    with Store.open(prepared_url).write() as connection:
        migration_claims.finish(
            connection, opened["uuid"], certainty.word("a test"), "running", NOW
        )
    assert seen(prepared_url) == {"kvm1": {("/b", None)}, "kvm2": {("/a", None)}}
    with Store.open(prepared_url).write() as connection:
        told = domain_facts.describe(vm("web", disk("/a2"), vcpus=1))
        record_domain.record_seen(connection, uuid_of("web"), "kvm2", told, NOW)
    assert seen(prepared_url)["kvm2"] == {("/a2", None)}
    with Store.open(prepared_url).write(together=True) as connection:
        claims.forget(connection, [uuid_of("db")], certainty.word("a test"), NOW)
    assert seen(prepared_url) == {"kvm2": {("/a2", None)}}


def test_names_that_are_too_long_for_an_index(prepared_url):
    long = "/" + "/".join(["x" * 250] * 15)
    fleets.discover(
        prepared_url,
        host("kvm1", vm("web", disk(long))),
        host("kvm2", vm("other", disk(f"{long}y"))),
    )
    with Store.open(prepared_url).read() as connection:
        for path, taken in ((long, True), (f"{long}z", False)):
            assert bool(files.user(connection, path, None, uuid_of("new"))) is taken


def test_what_a_move_has_to_know(prepared_url):
    image = {"path": "/img/base", "digest": "d", "size": 1, "modified": "1.0", "changed": "1.0"}
    block = {
        "target": "vdb",
        "type": "block",
        "source": "/dev/sdb",
        "path": "/dev/sdb",
        "chain": [],
    }
    san = {
        "target": "vdc",
        "type": "block",
        "source": "/dev/mapper/san-1",
        "path": "/dev/mapper/san-1",
        "chain": [],
    }
    lone = {"target": "vdd", "type": "block", "source": "/dev/sdz", "path": "/dev/sdz", "chain": []}
    pools = [
        {"name": "vms", "path": "/srv/vms", "shared_id": "declared:vms"},
        {"name": "default", "path": "/img", "shared_id": None},
    ]
    pools = [{**pool, "folder_id": f"b12c/{number}"} for number, pool in enumerate(pools)]
    facts = {"uri": "qemu:///system", "cpu": {"count": 4}, "memory_mb": 4096}

    def node(name, *domains, **more):
        hypervisor = {
            **facts,
            "hypervisor_hostname": name,
            "domains": list(domains),
            "pools": pools,
            **more,
        }
        return {
            "host": name,
            "hypervisor": hypervisor,
            "shared_block_devices": ["/dev/mapper/san-*"],
        }

    fleets.discover(
        prepared_url,
        node("kvm1", vm("web", disk("/img/web", "/img/base"), block, san, lone)),
        node(
            "kvm2",
            vm("other", disk("/img/web")),
            block_devices=[{"id": "naa.7", "names": ["/dev/disk/by-id/x", "/dev/sdb"]}],
            images=[image, {**image, "path": "/img/else"}],
        ),
    )
    with Store.open(prepared_url).read() as connection:
        ways = {uuid_of("web"): ("kvm1", "kvm2")}
        found, needed = used_files.of_ways(connection, ways), used_files.on_ways(connection, ways)
    assert needed == {uuid_of("web"): ["/img/web"]}
    assert found == {
        uuid_of("web"): {
            "file_systems_there": {"/img": "b12c", "/srv/vms": "b12c"},
            "shared_folders": ["/srv/vms"],
            "devices_there": {"/dev/sdb": "naa.7", "/dev/mapper/san-1": "declared"},
            "images_there": [image],
        }
    }


@pytest.mark.parametrize("pattern", ["/dev/*", "/dev/mapper/*", "san-*", "*"])
def test_a_pattern_that_means_everything_is_refused(prepared_url, pattern):
    with pytest.raises(DroverError, match="shared_block_devices .drover_shared_block_devices. has"):
        fleets.discover(prepared_url, host("kvm1", shared_block_devices=[pattern]))


def test_one_look_however_many_there_are(prepared_url):
    """Twelve thousand instances over one golden image: a constant number of queries, and no more
    time than a search for a few rows."""
    nodes = [
        host(
            f"kvm{number}",
            *[
                vm(f"vm{number}-{each}", disk(f"/vms/{number}-{each}", "/golden"))
                for each in range(120)
            ],
        )
        for number in range(100)
    ]
    fleets.discover(prepared_url, *nodes)
    with Store.open(prepared_url).read() as connection:
        sent = fleets.count_queries(
            connection, lambda each: used_files.elsewhere(each, uuid_of("vm7-7"), "kvm7")
        )
        began = time.perf_counter()
        assert used_files.elsewhere(connection, uuid_of("vm7-7"), "kvm7") == []
        assert files.user(connection, "/vms/9-9", None, uuid_of("vm7-7"))["name"] == "vm9-9"
        took = time.perf_counter() - began
    assert sent == 3 and took < 0.5


def test_an_image_in_ceph_behind_a_file_of_another_host_is_needed(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", vm("web", rbd("x"))),
        host("kvm2", vm("clone", disk("/c", behind_on_network=["rbd:vms/x"]))),
    )
    assert elsewhere(prepared_url, "web", "kvm1") == ["rbd:vms/x"]

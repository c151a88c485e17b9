# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions instance_disk, instance_interface and instance_cdrom on a real store and hypervisors
in this process.
"""

from __future__ import annotations

import os
import subprocess

import pytest
import sqlalchemy as sa
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import hotplug
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import instance_devices
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import orders
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import is_plain, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(hotplug, "POLL", 0.01)
    monkeypatch.setattr(instance_devices, "GRACE", 0)


@pytest.fixture
def url(fleet_url, there, tmp_path):
    """Fill the store by discoveries of the hosts. Their disks are on storage that they share; web
    runs on kvm1, and db on kvm2."""
    db = there.hosts["kvm1"].domains()[uuid_of("db")]
    there.moved(there.hosts["kvm1"], there.hosts["kvm2"], db)
    there.variables["drover_instances_path"] = str(tmp_path)
    discover(fleet_url)
    yield fleet_url
    with Store.open(fleet_url).read() as connection:
        assert leases.read(connection) == []


def discover(url):
    for host in ("kvm1", "kvm2", "kvm3"):
        run("compute_node", {"inventory_hostname": host, **VARIABLES}, store_url=url)


VARIABLES: dict = {}


@pytest.fixture(autouse=True)
def variables(there):
    VARIABLES.clear()
    yield
    VARIABLES.clear()


def disk(url, state="present", /, **args):
    args.setdefault("name", "web")
    return run("instance_disk", store_url=url, state=state, timeout=0, **args)


def refused(url, state="present", /, **args):
    before = fleets.snapshot(url)
    with pytest.raises(AnsibleActionFail) as caught:
        disk(url, state, **args)
    assert fleets.snapshot(url) == before
    return str(caught.value)


def files(url, name="web"):
    with Store.open(url).read() as connection:
        table = tables.domain_files
        return {
            row.path
            for row in connection.execute(
                sa.select(table.c.path).where(table.c.uuid == uuid_of(name))
            )
        }


def row(url, name="web"):
    with Store.open(url).read() as connection:
        return orders.read(connection, uuid_of(name))


def gib(url, name="web"):
    (amounts,) = fleets.holdings(url)[uuid_of(name)].values()
    return amounts["DISK_GB"], row(url, name).disk_gb


def image(path, size="2G"):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), size], check=True)
    return str(path)


def targets(there, host="kvm1", name="web"):
    domain = there.hosts[host].domains()[uuid_of(name)]
    return [
        hypervisors.disks_of(domain),
        domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE).count("<disk "),
    ]


def test_a_disk_is_attached_and_counted_and_the_next_discovery_says_the_same(url, there, tmp_path):
    path = str(tmp_path / "data.qcow2")
    before = fleets.snapshot(url)
    dry_run = disk(url, path=path, size="2GiB", check=True, diff=True)
    assert (
        dry_run["changed"]
        and dry_run["created_disks"] == [path]
        and fleets.snapshot(url) == before
        and not os.path.exists(path)
    )
    done = disk(url, path=path, size="2GiB", diff=True)
    assert (
        done["changed"]
        and done["host"] == "kvm1"
        and done["name"] == "web"
        and done["uuid"] == uuid_of("web")
        and is_plain(done)
    )
    assert (
        done["diff"] == dry_run["diff"] and f"vdb: {path} (virtio, qcow2)" in done["diff"]["after"]
    )
    assert gib(url) == (3, 3) and path in files(url) and row(url).order_uuid is None
    recorded = fleets.snapshot(url)
    assert not disk(url, path=path, size="2GiB")["changed"] and fleets.snapshot(url) == recorded
    discover(url)
    assert gib(url) == (3, 3) and path in files(url)
    assert (
        disk(url, "absent", path=path)["changed"]
        and gib(url) == (1, 1)
        and path not in files(url)
        and os.path.exists(path)
    )
    discover(url)
    assert gib(url) == (1, 1) and not disk(url, "absent", path=path)["changed"]


def test_a_disk_to_read_takes_no_room(url, tmp_path):
    path = image(tmp_path / "data.qcow2")
    assert (
        disk(url, path=path, readonly=True)["changed"] and gib(url) == (1, 1) and path in files(url)
    )
    assert disk(url, name="db", path=path, readonly=True)["changed"], "several may read it"
    assert disk(url, "absent", path=path)["changed"]
    assert "is a file that db on kvm2 uses" in refused(url, path=path)


def test_a_disk_of_an_instance_of_another_host_is_refused(url, there, tmp_path):
    path = image(tmp_path / "data.qcow2")
    overlay = str(tmp_path / "overlay.qcow2")
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", path, "-F", "qcow2", overlay], check=True
    )
    os.unlink(overlay)
    disk(url, name="db", path=path)
    link = str(tmp_path / "link.qcow2")
    os.symlink(path, link)
    # The store knows the disk by its path; the host knows it by all its names.
    for used_path, user, verb_end in (
        (path, "is a file that db on kvm2", ""),
        (link, "the domain db", " it"),
    ):
        assert f"{user} uses{verb_end}" in refused(url, path=used_path)
        assert f"{user} writes to{verb_end}" in refused(url, path=used_path, readonly=True)
    # kvm1 does not see the domain of kvm2, but it sees that its image is backed by the file of that
    # domain.
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", path, "-F", "qcow2", overlay], check=True
    )
    assert f"the image {path} is a file that db on kvm2 writes to" in refused(url, path=overlay)
    assert targets(there)[1] == 1


def test_a_file_that_an_instance_of_another_host_uses_otherwise_is_refused(url, there, tmp_path):
    """A discovery knows it, and a later look at that instance keeps it."""
    for name in ("vars", "kernel", "log"):
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "raw", str(tmp_path / name), "1M"], check=True
        )
    (tmp_path / "given").mkdir()
    inside = image(tmp_path / "given" / "data.qcow2")
    db = there.hosts["kvm2"].domains()[uuid_of("db")]
    text = db.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    boot = f"<loader>/usr/share/code.fd</loader><kernel>{tmp_path}/kernel</kernel><nvram>{tmp_path}/vars</nvram>"
    text = text.replace("</type>", f"</type>{boot}", 1)
    folder = (
        f"<filesystem type='mount'><source dir='{tmp_path}/given'/><target dir='x'/></filesystem>"
    )
    serial = f"<serial type='file'><source path='{tmp_path}/log'/></serial>"
    there.hosts["kvm2"].connection.defineXML(
        text.replace("</devices>", f"{folder}{serial}</devices>")
    )
    discover(url)
    disk(url, name="db", path=image(tmp_path / "more.qcow2"))
    for name in ("vars", "kernel", "log"):
        assert "is a file that db on kvm2 uses" in refused(
            url, path=str(tmp_path / name), format="raw"
        )
    assert "is a file that db on kvm2 uses" in refused(url, path=inside)
    assert "is a file that db on kvm2 writes to" in refused(
        url, path=str(tmp_path / "log"), format="raw", readonly=True
    )


def test_of_two_runs_at_once_one_gets_the_disk(url, there, tmp_path):
    """The second request comes when the first has its order and the hypervisor has not."""
    path, messages = image(tmp_path / "data.qcow2"), []

    def other(host, module, arguments):
        if host == "kvm1" and arguments.get("order") and not messages:
            messages.append(None)
            with pytest.raises(AnsibleActionFail) as caught:
                disk(url, name="db", path=path)
            messages.append(str(caught.value))
            # A discovery keeps the claim too.
            discover(url)
            assert gib(url) == (3, 3) and path in files(url)

    there.before.append(other)
    assert disk(url, path=path)["changed"]
    assert "is a file that web on kvm1 uses" in messages[1] and targets(there, "kvm2", "db")[1] == 1


def test_a_disk_for_which_there_is_no_room_is_refused(url, there, tmp_path):
    path = str(tmp_path / "data.qcow2")
    for check in (True, False):
        said = refused(url, path=path, size="2000000T", check=check)
        assert "there is no room for the disk (DISK_GB: asked" in said
    assert not os.path.exists(path) and targets(there)[1] == 1


def test_what_the_host_refuses_is_told_and_nothing_is_left(url, there, tmp_path):
    there.devices.ports = 0
    path = str(tmp_path / "data.qcow2")
    before = fleets.holdings(url)
    with pytest.raises(
        AnsibleActionFail,
        match=r"Instance web on kvm1: libvirt on kvm1 refused: No more available PCI slots\.",
    ):
        disk(url, path=path, size=2)
    assert (
        fleets.holdings(url) == before
        and row(url).order_uuid is None
        and path not in files(url)
        and not os.path.exists(path)
    )


def test_a_guest_that_keeps_its_disk_keeps_its_room(url, there, tmp_path):
    path = image(tmp_path / "data.qcow2")
    disk(url, path=path)
    there.devices.releases = False
    with pytest.raises(AnsibleActionFail, match="did not release the device within 0 s"):
        disk(url, "absent", path=path)
    assert gib(url) == (3, 3) and path in files(url) and row(url).order_uuid is None
    assert "is a file that web on kvm1 uses" in refused(url, name="db", path=path)
    there.devices.release()
    discover(url)
    assert path in files(url), "its definition has it"
    assert disk(url, "absent", path=path)["changed"] and path not in files(url)


def test_a_lost_host_leaves_it_open_and_the_next_run_ends_it(url, there, tmp_path):
    path = image(tmp_path / "data.qcow2")

    def lost(host, module, result):
        if module.endswith("_domain_device") and there.calls[-1][2].get("order"):
            there.hosts["kvm1"].reached = False
            raise AnsibleConnectionFailure("Connection to kvm1 closed by remote host")

    there.after.append(lost)
    with pytest.raises(
        AnsibleActionFail, match="kvm1 does not show what became of it, so it may be done"
    ) as caught:
        disk(url, path=path)
    assert caught.value.result["uncertain"] is True
    there.after.clear()
    there.hosts["kvm1"].reached = True
    assert row(url).task_state == "attaching" and gib(url)[0] == 3 and path in files(url)
    for module, args in (
        ("instance", {"instances": ["web"], "state": "stopped"}),
        ("instance_migrate", {"instances": ["web"], "host": "kvm3"}),
        ("instance_resize", {"instances": ["web"], "flavor": "big"}),
    ):
        with pytest.raises(
            AnsibleActionFail, match="has a device attached.*the task that attaches it again"
        ):
            run(module, store_url=url, timeout=1, **args)
    discover(url)
    assert row(url).task_state == "attaching", "a discovery does not end it"
    assert not disk(url, path=path)["changed"], "it was done"
    assert row(url).order_uuid is None and gib(url) == (3, 3)
    run("instance", store_url=url, instances=["web"], state="stopped", timeout=1)


def test_an_order_that_never_came_is_withdrawn_by_the_opposite(url, there, tmp_path):
    path = image(tmp_path / "data.qcow2")
    with Store.open(url).write() as connection:
        orders.begin(connection, uuid_of("web"), orders.ATTACHING, "late")
    assert not disk(url, "absent", path=path)["changed"] and row(url).order_uuid is None
    result = there.hand("kvm1").act(
        "_domain_device",
        {"uuid": uuid_of("web"), "disk": {"path": path}, "order": "late", "uri": "test:///default"},
    )
    assert "was withdrawn" in result.message and targets(there)[1] == 1


def test_an_instance_that_is_deleted_meanwhile_is_gone(url, there, tmp_path):
    with Store.open(url).write() as connection:
        orders.begin(connection, uuid_of("web"), orders.ATTACHING, "late")
    done = run("instance", store_url=url, instances=["web"], state="absent", timeout=1, force=True)
    assert [each["name"] for each in done["gone"]] == ["web"] and row(url) is None


def test_which_instances_are_refused(url, there, tmp_path):
    path = image(tmp_path / "data.qcow2")
    assert "No instance wbe is in the store" in refused(url, name="wbe", path=path)
    assert "disagree" in refused(url, uuid=uuid_of("db"), path=path)
    with Store.open(url).write() as connection:
        migration_claims.begin(
            connection, uuid_of("web"), "kvm3", "kvm3", "live-migration", fleets.NOW, "kvm1"
        )
    said = refused(url, path=path)
    assert (
        "has an open live-migration from kvm1 to kvm3. Nothing is attached" in said
        and targets(there)[1] == 1
    )


def test_sizes_and_options_are_checked(url, tmp_path):
    assert "size must be a whole number of GiB" in refused(
        url, path=str(tmp_path / "data.qcow2"), size="much"
    )
    for module, args, words in (
        ("instance_disk", {"name": "web"}, "path"),
        ("instance_disk", {"path": "/a"}, "one of the following is required"),
        ("instance_interface", {"name": "web"}, "one of the following is required"),
        (
            "instance_interface",
            {"name": "web", "mac": "52:54:00:00:00:01"},
            "neither a network nor a bridge",
        ),
        (
            "instance_interface",
            {"name": "web", "bridge": "br0", "model": "virtoi"},
            "did you mean virtio",
        ),
        (
            "instance_interface",
            {"name": "web", "network": "a", "bridge": "b"},
            "mutually exclusive",
        ),
        ("instance_cdrom", {"name": "web"}, "one of the following is required"),
        ("instance_cdrom", {"name": "web", "target": "sda"}, "has no path"),
    ):
        with pytest.raises(AnsibleActionFail, match=words):
            run(module, store_url=url, **args)


def test_an_interface_and_a_medium_are_recorded(url, there, tmp_path):
    there.hosts["kvm1"].connection.networkDefineXML(
        "<network><name>default</name><bridge name='virbr0'/></network>"
    ).create()
    assert run("instance_interface", store_url=url, name="web", network="default", check=True)[
        "changed"
    ]
    done = run("instance_interface", store_url=url, name="web", network="default")
    assert done["changed"] and done["device"]["source"] == "default"
    assert not run("instance_interface", store_url=url, name="web", network="default")["changed"]

    def facts():
        with Store.open(url).read() as connection:
            return connection.execute(
                sa.select(tables.domains.c.facts).where(tables.domains.c.uuid == uuid_of("web"))
            ).scalar_one()

    assert [each["mac"] for each in facts()["interfaces"]] == [done["device"]["mac"]]
    iso = str(tmp_path / "tools.iso")
    with open(iso, "wb") as handle:
        handle.write(b"medium")
    with pytest.raises(
        AnsibleActionFail, match="has no CD-ROM drive, and a running guest gets none"
    ):
        run("instance_cdrom", store_url=url, name="web", path=iso)
    run("instance", store_url=url, instances=["web"], state="stopped", timeout=1)
    assert (
        run("instance_cdrom", store_url=url, name="web", path=iso)["changed"]
        and iso in files(url)
        and gib(url) == (1, 1)
    )
    assert "is a file that web on kvm1 uses" in refused(url, name="db", path=iso, format="raw")
    run("instance", store_url=url, instances=["web"], state="running", timeout=1)
    ejected = run("instance_cdrom", store_url=url, name="web", path=iso, state="absent")
    assert ejected["changed"] and ejected["device"]["source"] is None and iso not in files(url)
    assert run("instance_interface", store_url=url, name="web", network="default", state="absent")[
        "changed"
    ]
    assert facts().get("interfaces") in (None, []) and gib(url) == (1, 1)

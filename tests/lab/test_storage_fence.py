# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that the controller does not reach, with guests that still write to Ceph: the blocklist
cuts it off, and its guests run on other hosts."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest
from lablib.layout import SWITCH_ADDRESS, LabError
from lablib.storage import beside, ceph
from test_ceph import VARIABLES, OnCeph
from test_fleet import changed, said
from test_sharing import holdings

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ceph.PROGRAMS),
        reason="Ceph is not here: run tests/setup/setup.sh storage",
    ),
]

pytest_plugins = ["test_fleet"]


def cut_off(*ports):
    """Return the kernel's rules for sent packets of a host, as words for ip: packets to these ports
    pass, all others are lost."""
    to_storage = [
        f"rule add priority {number} ipproto tcp dport {port} lookup main"
        for number, port in enumerate(ports, 10)
    ]
    return [*to_storage, "rule add priority 30 from all blackhole"]


CUT_OFF = cut_off("6789", "6800-7300")


class Inside:
    """A host from the inside, for any state of its network."""

    def __init__(self, fleet, host):
        #: Its libvirtd: the one in the network of this host of this lab, because other labs have
        #: the same names and addresses.
        mark = f"lablib.host\0{fleet.lab.layout.folder}\0{host}\0".encode()
        networks, daemons = set(), {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                network = os.readlink(path / "ns/net")
                if mark in (path / "cmdline").read_bytes():
                    networks.add(network)
                if (path / "comm").read_text().strip() == "libvirtd":
                    daemons[network] = path.name
        own = os.readlink("/proc/self/ns/net")
        (self.pid,) = [pid for network, pid in daemons.items() if network in networks - {own}]

    def run(self, *words, check=True):
        done = subprocess.run(
            ["nsenter", "--target", self.pid, "--all", "--", *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def write(self, name, pattern):
        """Write as the guest would; only QEMU's log has the result."""
        block = (
            f'qemu-io -d /machine/peripheral/virtio-disk0/virtio-backend "write -P {pattern} 0 64k"'
        )
        self.run("virsh", "qemu-monitor-command", name, "--hmp", block, check=False)


def removed(on_ceph, image):
    try:
        on_ceph.cluster.rbd("rm", image)
    except LabError:
        return False
    return True


@pytest.fixture(scope="module")
def cluster(own_lab):
    own_lab.command("up", "--with", "ceph")
    return own_lab


@pytest.fixture
def on_ceph(cluster, fleet):
    ceph.up(fleet.lab.layout)
    storage = OnCeph(fleet)
    yield storage
    for host in ("kvm1", "kvm2"):
        fleet.lab.command("kill", host, check=False)
        fleet.lab.command("start", host)
    storage.cluster.ceph("osd", "blocklist", "clear")
    fleet.everywhere(
        "for each in $(virsh list --all --name); do virsh destroy $each; virsh undefine $each;"
        " done; true"
    )
    for image in storage.images():
        # Ceph takes half a minute to notice the death of a client.
        beside.until("the image can be removed", lambda name=image: removed(storage, name))


def administrator(on_ceph, host):
    """Give a host the key of the documentation; return the arguments of its commands."""
    allowed = ("mon", 'allow r, allow command "osd blocklist"', "osd", "profile rbd-read-only")
    keyring = on_ceph.cluster.ceph("auth", "get-or-create", "client.fence", *allowed)
    config = f"[global]\nmon host = {SWITCH_ADDRESS}:6789\nkeyring = /root/fence.keyring\n"
    for path, text in (("/root/fence.conf", config), ("/root/fence.keyring", keyring)):
        on_ceph.fleet.run(host, f"cat > {path} <<'END'\n{text}\nEND")
    return ["--conf", "/root/fence.conf", "--name", "client.fence"]


def content(on_ceph, image):
    """Return the first 64 KiB of an image."""
    path = on_ceph.cluster.folder / "exported"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    on_ceph.cluster.rbd("export", image, str(path))
    with open(path, "rb") as file:
        return file.read(65536)


def test_a_host_that_still_writes_is_shut_out_and_let_in_again(on_ceph):
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", "web", ("web-root", 1))
    local = fleet.run(
        "kvm1", "mkdir -p /srv/own && qemu-img create -q -f qcow2 /srv/own/x.qcow2 64M && echo ok"
    )
    assert local.strip() == "ok"
    fence = {
        "drover_storage_fence": "ceph",
        "drover_ceph_admin": "kvm2",
        "drover_ceph_arguments": administrator(on_ceph, "kvm2"),
    }
    on_ceph.playbook("discover")
    inside = Inside(fleet, "kvm1")
    inside.write("web", 1)
    assert content(on_ceph, "web-root") == b"\1" * 65536

    for rule in CUT_OFF:
        inside.run("ip", *rule.split())
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False
    )
    inside.write("web", 2)
    before = content(on_ceph, "web-root")
    assert before == b"\2" * 65536, "its guest writes on"
    # Ceph reports that a client has its image open, for any word of a person.
    for word in ({}, {"drover_host_is_off": "kvm1 is powered off"}):
        refused = on_ceph.playbook("evacuate", check=False, drover_host="kvm1", **word)
        assert refused.returncode != 0 and "disks of its instances are in use" in said(refused), (
            said(refused)
        )
    assert set(fleet.where(["kvm2", "kvm3"])) == set()

    done = on_ceph.playbook("evacuate", drover_host="kvm1", **fence)
    destination, state = fleet.where(["kvm2", "kvm3"])["web"]
    assert state == "running", said(done)
    assert "kvm1 is cut off from its storage: rbd:" in said(done)
    assert content(on_ceph, "web-root") == before
    inside.write("web", 3)
    assert content(on_ceph, "web-root") == before
    Inside(fleet, destination).write("web", 4)
    assert content(on_ceph, "web-root") == b"\4" * 65536

    # The network is back, and the guest still runs there.
    for rule in reversed(CUT_OFF):
        inside.run("ip", *rule.replace("add", "del", 1).split())
    on_ceph.playbook("discover", check=False)
    refused = on_ceph.playbook("undrain", check=False, drover_host="kvm1", **fence)
    assert (
        refused.returncode != 0
        and f"kvm1 stays shut out of its storage: web (now on {destination}) still runs there"
        in said(refused)
    ), said(refused)
    inside.write("web", 5)
    time.sleep(5)
    assert content(on_ceph, "web-root") == b"\4" * 65536

    inside.run("virsh", "destroy", "web")
    on_ceph.playbook("discover")
    done = on_ceph.playbook("undrain", drover_host="kvm1", **fence)
    assert "kvm1 has its storage again" in said(done), said(done)
    assert ":0/0" not in on_ceph.cluster.ceph("osd", "blocklist", "ls")
    assert (
        fleet.where()["web"] == (destination, "running")
        and content(on_ceph, "web-root") == b"\4" * 65536
    )
    # The host is a destination again.
    on_ceph.playbook("drain", drover_host=destination)
    assert fleet.settled()["web"][0] != destination


def test_two_hosts_are_shut_out_one_after_the_other(on_ceph):
    """The second host has the restarted guests of the first; both still write. Each is lifted
    separately."""
    fleet, admin = on_ceph.fleet, "kvm3"
    on_ceph.make("kvm1", "web", ("web-root", 1))
    on_ceph.make("kvm2", "db", ("db-root", 1))
    fence = {
        "drover_storage_fence": "ceph",
        "drover_ceph_admin": admin,
        "drover_ceph_arguments": administrator(on_ceph, admin),
    }
    on_ceph.playbook("discover")
    fleet.playbook(
        "host_state.yml",
        "-e",
        json.dumps({"service_host": "kvm3", "state": "disabled", "reason": "for the first"}),
    )

    first = Inside(fleet, "kvm1")
    for rule in CUT_OFF:
        first.run("ip", *rule.split())
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False
    )
    done = on_ceph.playbook("evacuate", drover_host="kvm1", **fence)
    assert fleet.where(["kvm2", "kvm3"]) == {
        "web": ("kvm2", "running"),
        "db": ("kvm2", "running"),
    }, said(done)
    Inside(fleet, "kvm2").write("web", 1)
    assert content(on_ceph, "web-root") == b"\1" * 65536

    fleet.playbook("host_state.yml", "-e", json.dumps({"service_host": "kvm3", "state": "enabled"}))
    second = Inside(fleet, "kvm2")
    for rule in CUT_OFF:
        second.run("ip", *rule.split())
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,kvm2,localhost", check=False
    )
    refused = on_ceph.playbook("evacuate", check=False, drover_host="kvm2", **fence)
    assert refused.returncode != 0 and fleet.where(["kvm3"]) == {}, said(refused)
    assert "quiet_time" in said(refused) or "many_down" in said(refused), said(refused)
    second.write("web", 2)
    assert content(on_ceph, "web-root") == b"\2" * 65536, (
        "it is shut out no sooner than everything was looked at"
    )
    force = ["many_down", "quiet_time"]
    refused = on_ceph.playbook(
        "evacuate", check=False, drover_host="kvm2", drover_evacuate_force=force, **fence
    )
    # The store knows that the first was cut off, and does not know that it still is.
    assert "it may run on kvm1, not read now" in said(
        refused
    ) and "drover_evacuate_force=unread_hosts" in said(refused), said(refused)
    assert fleet.where(["kvm3"]) == {}, said(refused)
    done = on_ceph.playbook(
        "evacuate", drover_host="kvm2", drover_evacuate_force=[*force, "unread_hosts"], **fence
    )
    assert fleet.where(["kvm3"]) == {"web": ("kvm3", "running"), "db": ("kvm3", "running")}, said(
        done
    )
    Inside(fleet, "kvm3").write("web", 4)
    for each in (first, second):
        each.write("web", 3)
    second.write("db", 3)
    assert content(on_ceph, "web-root") == b"\4" * 65536 and content(on_ceph, "db-root") == bytes(
        65536
    )

    # The second is back, and the first is not.
    for host, inside, others in (("kvm2", second, True), ("kvm1", first, False)):
        for rule in reversed(CUT_OFF):
            inside.run("ip", *rule.replace("add", "del", 1).split())
        on_ceph.playbook("discover", check=False)
        refused = on_ceph.playbook("undrain", check=False, drover_host=host, **fence)
        assert refused.returncode != 0 and f"{host} stays shut out of its storage" in said(
            refused
        ), said(refused)
        inside.run("sh", "-c", "for each in $(virsh list --name); do virsh destroy $each; done")
        on_ceph.playbook("discover", check=False)
        done = on_ceph.playbook("undrain", drover_host=host, **fence)
        assert f"{host} has its storage again" in said(done), said(done)
        assert (":0/0" in on_ceph.cluster.ceph("osd", "blocklist", "ls")) == others
    assert {name: state for name, (host, state) in fleet.where().items()} == {
        "web": "running",
        "db": "running",
    }
    assert content(on_ceph, "web-root") == b"\4" * 65536 and content(on_ceph, "db-root") == bytes(
        65536
    )


def out_of_reach(on_ceph):
    """Discover all hosts, then cut the controller's way to kvm1; return kvm1 from the inside, and
    the fence."""
    fence = {
        "drover_host": "kvm1",
        "drover_storage_fence": "ceph",
        "drover_ceph_admin": "kvm2",
        "drover_ceph_arguments": administrator(on_ceph, "kvm2"),
    }
    on_ceph.playbook("discover")
    inside = Inside(on_ceph.fleet, "kvm1")
    for rule in CUT_OFF:
        inside.run("ip", *rule.split())
    return inside, fence


def test_the_word_of_a_fence_that_cuts_nothing_is_not_believed(on_ceph):
    """Its tasks say that all is cut off, and the guest still writes: nothing is started a second
    time before a fence that cuts is used."""
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", "web", ("web-root", 1))
    own = fleet.folder / "own.yml"
    own.write_text(
        '- name: Say what is not so\n  ansible.builtin.set_fact:\n    evacuate_fence_cut: "{{'
        " evacuate_fence_disks }}\"\n  when: evacuate_fence_action == 'verify'\n"
    )
    inside, fence = out_of_reach(on_ceph)
    try:
        fleet.playbook(
            "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False
        )
        inside.write("web", 2)
        refused = on_ceph.playbook(
            "evacuate", check=False, drover_host="kvm1", drover_storage_fence=str(own)
        )
        # The task that has seen it gives the reason, and the end does not repeat it.
        why, dummy, end = said(refused).partition(
            "TASK [drover.compute.evacuate : Refuse to restart the instances]"
        )
        assert refused.returncode != 0 and "but Ceph still has a client that writes there" in why, (
            said(refused)
        )
        assert "say so: -e 'drover_host_is_off" in end and "Ceph" not in end, said(refused)
        assert (
            set(fleet.where(["kvm2", "kvm3"])) == set()
            and content(on_ceph, "web-root") == b"\2" * 65536
        )
        done = on_ceph.playbook("evacuate", **fence)
        destination, state = fleet.where(["kvm2", "kvm3"])["web"]
        assert state == "running", said(done)
        inside.write("web", 3)
        assert content(on_ceph, "web-root") == b"\2" * 65536
        again = on_ceph.playbook("evacuate", **fence)
        assert (
            "nothing is left of it that could be restarted" in said(again) and changed(again) == 0
        ), said(again)
    finally:
        for rule in reversed(CUT_OFF):
            inside.run("ip", *rule.replace("add", "del", 1).split())
    inside.run("virsh", "destroy", "web")
    on_ceph.playbook("discover", check=False)
    # Both are lifted, and the effect of the first cut is not known.
    own.unlink()
    refused = on_ceph.playbook("undrain", check=False, **fence)
    assert (
        refused.returncode != 0
        and f"the tasks {own}, which were to shut it out, are not on the controller"
        in said(refused)
    ), said(refused)
    assert ":0/0" in on_ceph.cluster.ceph("osd", "blocklist", "ls")
    own.write_text("[]\n")
    done = on_ceph.playbook("undrain", **fence)
    assert "kvm1 has its storage again" in said(done) and ":0/0" not in on_ceph.cluster.ceph(
        "osd", "blocklist", "ls"
    ), said(done)
    assert fleet.where()["web"] == (destination, "running")


def without_lock(on_ceph, name):
    """Give the image of a guest no lock of Ceph: only the blocklist keeps two guests from writing
    to it."""
    fleet = on_ceph.fleet
    on_ceph.make("kvm1", name, (f"{name}-root", 1), state="shutoff")
    on_ceph.cluster.rbd(
        "feature",
        "disable",
        f"{name}-root",
        "object-map",
        "fast-diff",
        "deep-flatten",
        "exclusive-lock",
    )
    fleet.run("kvm1", f"virsh start {name}")


def dead(on_ceph):
    """Cut the controller's way to kvm1, with a guest that still writes; return kvm1 from the
    inside, and the fence."""
    fleet = on_ceph.fleet
    without_lock(on_ceph, "web")
    inside, fence = out_of_reach(on_ceph)
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False
    )
    inside.write("web", 2)
    assert content(on_ceph, "web-root") == b"\2" * 65536
    return inside, fence


def test_the_blocklist_is_lifted_by_hand_before_the_restart(on_ceph):
    """Its guest writes again, and no longer watches its image. So nothing is started before a run
    has cut it off again."""
    fleet = on_ceph.fleet
    inside, fence = dead(on_ceph)
    run = fleet.start("evacuate", "-e", json.dumps({**VARIABLES, **fence}))
    run.until("is cut off from its storage: rbd:")
    on_ceph.cluster.ceph("osd", "blocklist", "clear")
    text = run.finish()
    assert (
        run.process.returncode
        and "It is not proven any more that kvm1 is cut off from its storage" in text
        and "Traceback" not in text
    ), text
    assert (
        "is not on the blocklist of Ceph" in text and "run drover.compute.evacuate again" in text
    ), text
    inside.write("web", 3)
    assert fleet.where(["kvm2", "kvm3"]) == {} and content(on_ceph, "web-root") == b"\3" * 65536
    assert fleet.query("SELECT name FROM leases") == []

    done = on_ceph.playbook("evacuate", **fence)
    destination, state = fleet.where(["kvm2", "kvm3"])["web"]
    assert state == "running", said(done)
    inside.write("web", 4)
    assert content(on_ceph, "web-root") == b"\3" * 65536
    Inside(fleet, destination).write("web", 5)
    assert content(on_ceph, "web-root") == b"\5" * 65536


def test_the_host_comes_back_between_its_fence_and_the_restart(on_ceph):
    """Nothing is started on another host, the claims are released, and its guest writes again after
    the lift."""
    fleet = on_ceph.fleet
    inside, fence = dead(on_ceph)
    run = fleet.start("evacuate", "-e", json.dumps({**VARIABLES, **fence}))
    run.until("is cut off from its storage: rbd:")
    for rule in reversed(CUT_OFF):
        inside.run("ip", *rule.replace("add", "del", 1).split())
    text = run.finish()
    assert run.process.returncode and "kvm1 has come back" in text and "Traceback" not in text, text
    assert fleet.where()["web"][0] == "kvm1"
    inside.write("web", 3)
    assert content(on_ceph, "web-root") == b"\2" * 65536
    done = on_ceph.playbook("undrain", **fence)
    assert "kvm1 has its storage again" in said(done) and ":0/0" not in on_ceph.cluster.ceph(
        "osd", "blocklist", "ls"
    ), said(done)
    inside.write("web", 4)
    assert content(on_ceph, "web-root") == b"\4" * 65536
    on_ceph.playbook("discover")
    assert (
        fleet.settled()["web"][0] == "kvm1"
        and holdings(fleet)["web"]["pool/ceph"]
        and fleet.query("SELECT name FROM leases") == []
    )

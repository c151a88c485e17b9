# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store was lost and made again, or restored from an old export: no guest runs twice, and
nothing that a guest needs is removed."""

from __future__ import annotations

import contextlib
import json
import re
import shutil

import pytest
from lablib.storage import beside, ceph
from test_ceph import VARIABLES, OnCeph
from test_fleet import SHARED, Domain, said
from test_storage_fence import CUT_OFF, Inside, administrator, content, removed
from trouble import Losing, hanging

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ceph.PROGRAMS),
        reason="Ceph is not here: run tests/setup/setup.sh storage",
    ),
]

pytest_plugins = ["test_fleet"]

#: Words that never occur in a sentence for an operator.
BAD = ("Traceback", "Unexpected", "None on", "KeyError", "TypeError")


@pytest.fixture(scope="module")
def cluster(own_lab):
    own_lab.command("up", "--with", "ceph")
    return own_lab


class Lost(Losing, OnCeph):
    """A fleet on Ceph with a lost store, and its state as seen from outside."""

    cut = False

    def play(self, name, check=False, **variables):
        """Run a playbook; return its exit status, and its output in one line. No sentence of it may
        come from a program."""
        done = self.playbook(name, check=check, **variables)
        text = said(done)
        lines = [
            line
            for line in (done.stdout + done.stderr).splitlines()
            if line.startswith(("[ERROR]", "[WARN")) or re.search(r"^[^ :]+: [^{]*$|->", line)
        ]
        lines = [
            line
            for line in lines
            if not re.match(r"(ok|changed|skipping|included|Origin|localhost|kvm\d *:)", line)
        ]
        self.note(
            f"### {name} {variables} -> {done.returncode}\n"
            + "\n".join(line[:700] for line in lines)
        )
        assert not any(word in text for word in BAD), text
        return done.returncode, text

    def world(self):
        """Return the domains of the hosts and the images of the storage."""
        by_host = self.fleet.look()
        return {
            host: sorted(
                (each["name"], each["uuid"], each["state"], str(each["disks"])) for each in domains
            )
            for host, domains in by_host.items()
        }, self.images()

    def copy(self, name, source, *hosts, start=None, undefine=False):
        """Copy the definition of a guest to another host, as a person or an earlier run did; the
        guest may run there."""
        xml = self.fleet.run(source, f"virsh dumpxml --inactive {name}")
        self.fleet.run(source, f"virsh destroy {name}; true")
        if undefine:
            self.fleet.run(source, f"virsh undefine {name}")
        for host in hosts:
            begin = f"\nvirsh start {name}" if host == start else ""
            self.fleet.run(
                host, f"virsh pool-refresh ceph\nvirsh define /dev/stdin <<'END'\n{xml}\nEND{begin}"
            )


@pytest.fixture
def lost(cluster, fleet):
    ceph.up(fleet.lab.layout)
    lost_store = Lost(fleet)
    lost_store.playbook("discover")
    yield lost_store
    if lost_store.cut:
        fleet.lab.command("kill", "kvm1", check=False)
    for host in fleet.hosts:
        fleet.lab.command("start", host)
    lost_store.cluster.ceph("osd", "blocklist", "clear")
    fleet.everywhere(
        "for each in $(virsh list --all --name); do virsh destroy $each; virsh undefine $each;"
        " done; true"
    )
    for image in lost_store.images():
        lost_store.cluster.rbd("snap", "purge", image)
        # Ceph takes half a minute to notice the death of a client.
        beside.until("the image can be removed", lambda name=image: removed(lost_store, name))


def place(lost, *names, host="kvm1", check=True, disks=({"size_gb": 1, "pool": "ceph"},), **more):
    """Build instances with volumes that provably belong to them."""
    definitions = [
        {
            "name": name,
            "memory_mb": 64,
            "disks": list(disks),
            "requested_destination": {"host": host},
            **more,
        }
        for name in names
    ]
    return lost.fleet.place(definitions, check=check, **VARIABLES)


#: Commands that a person may try: they start the instance, need its disk alone, or remove the disk:
#: playbook, variables.
ACTS = (
    ("instance_start", {}),
    ("instance_reboot", {"drover_reboot_hard": True}),
    ("instance_disk_move", {"drover_disk": "vda", "drover_pool": SHARED}),
    ("instance_snapshot", {"drover_snapshot_state": "present", "drover_snapshot_name": "one"}),
    ("instance_delete", {"drover_instance_force": True}),
)
KEPT = ("instance_delete", {"drover_instance_force": True, "drover_delete_keep_disks": True})


@pytest.mark.parametrize("seen", ["nothing", "kvm1", "all but kvm2"])
@pytest.mark.parametrize("how", ["new", "restored"])
def test_stale_definitions_are_left_alone_while_a_host_was_not_read(lost, how, seen):
    """web runs on kvm2; the domain off is on kvm2 too, shut off. kvm1 has the earlier definitions,
    and a restored store has both on kvm1."""
    if (how, seen) == ("new", "nothing"):
        pytest.skip("such a store knows no instance")
    fleet = lost.fleet
    place(lost, "web")
    place(lost, "off")
    lost.store("exported")
    for name in ("web", "off"):
        lost.copy(name, "kvm1", "kvm2", start="kvm2" if name == "web" else None)
    before = lost.world()
    lost.lost(how)
    with hanging(fleet, "kvm2") if seen == "all but kvm2" else contextlib.nullcontext():
        if seen == "kvm1":
            lost.fleet.playbook(
                "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost"
            )
        elif seen != "nothing":
            lost.play("discover")
        unread = {
            "nothing": "kvm1, kvm2, kvm3 were",
            "kvm1": "kvm2, kvm3 were",
            "all but kvm2": "kvm2 was",
        }[seen]
        for name in ("off", "web"):
            for act, variables in ACTS:
                code, text = lost.play(
                    act, drover_instance=name, drover_instance_timeout=20, **variables
                )
                assert code, text
                if act in ("instance_start", "instance_reboot", "instance_delete"):
                    assert (
                        f": {unread} not read since the store was made or brought back" in text
                    ), text
    assert lost.world() == before


def off_and_back(lost):
    """Switch kvm2 off, record that in the store, and export the store; then start kvm2 again."""
    fleet = lost.fleet
    fleet.make("kvm2", Domain("other"))
    lost.play("discover", check=True)
    fleet.lab.command("kill", "kvm2")
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm2,localhost", check=False
    )
    lost.play("evacuate", check=True, drover_host="kvm2", drover_host_is_off="kvm2 is powered off")
    lost.store("exported")
    fleet.lab.command("start", "kvm2")
    ceph.up(fleet.lab.layout)
    lost.play("discover", check=True)
    lost.play("undrain", check=True, drover_host="kvm2")


def test_a_host_that_was_off_when_the_store_was_exported_may_run_guests_by_now(lost):
    """kvm2 was off at the export. Since then it came back and got guests that the restored store
    does not know; now its libvirt hangs."""
    fleet = lost.fleet
    fleet.make("kvm1", Domain("web", state="shutoff"))
    off_and_back(lost)
    definitions = [{"name": "db", "memory_mb": 64, "disks": [{"size_gb": 1, "pool": "ceph"}]}]
    fleet.place([{**definitions[0], "requested_destination": {"host": "kvm2"}}], **VARIABLES)
    lost.copy("web", "kvm1", "kvm2", start="kvm2")
    before = lost.world()
    lost.store("imported")
    with hanging(fleet, "kvm2"):
        lost.play("discover")
        started = lost.play("instance_start", drover_instance="web")
        built = fleet.place(definitions, check=False, **VARIABLES)
        lost.note(said(built)[-2500:])
    after = lost.world()
    assert after == before, (before, after, started, said(built))
    assert (
        started[0] and "kvm2 was not read since the store was made or brought back" in started[1]
    ), started
    assert built.returncode and "kvm2 was not read since the store was brought back" in said(
        built
    ), said(built)


def evacuated(lost, *domains):
    """Let kvm1 die, with its guests evacuated to other hosts."""
    fleet = lost.fleet
    fleet.make("kvm1", *domains)
    lost.play("discover", check=True)
    fleet.lab.command("kill", "kvm1")
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False
    )
    lost.play("evacuate", check=True, drover_host="kvm1", drover_host_is_off="kvm1 is powered off")


@pytest.mark.parametrize("limit", ["kvm1,localhost", "all"])
def test_what_has_come_back_to_an_evacuated_host_is_no_stale_definition(lost, limit):
    """The export has the evacuation, and does not have the later move back: these definitions are
    the only ones."""
    fleet = lost.fleet
    evacuated(lost, Domain("web"), Domain("off", state="shutoff"))
    lost.store("exported")
    fleet.lab.command("start", "kvm1")
    ceph.up(fleet.lab.layout)
    lost.play("discover", check=True)
    lost.play("undrain", check=True, drover_host="kvm1")
    lost.play(
        "instance_migrate", check=True, drover_instances=["web", "off"], drover_destination="kvm1"
    )
    fleet.run("kvm1", "virsh destroy web")
    before = lost.world()
    assert sorted(each[0] for each in before[0]["kvm1"]) == ["off", "web"]
    lost.store("imported")
    fleet.playbook(
        "discover",
        "-e",
        json.dumps(VARIABLES),
        *(() if limit == "all" else ("--limit", limit)),
        check=False,
    )
    lost.play("undrain", drover_host="kvm1")
    after = lost.world()
    assert after == before, (before, after)
    lost.play("discover")
    lost.play("undrain", drover_host="kvm1")
    fleet.run("kvm1", "virsh start web")
    lost.play("discover", check=True)
    assert fleet.settled() == {"web": ("kvm1", "running"), "off": ("kvm1", "shutoff")}


def test_an_open_resize_of_the_export_that_was_ended_since(lost):
    """A resize moved it from kvm1 to kvm2 and was confirmed; then the guest moved to kvm3, which no
    run has read since."""
    fleet = lost.fleet
    fleet.make("kvm1", Domain("web", boots=True))
    lost.play("discover", check=True)
    variables = {"drover_instance": "web", "drover_instance_timeout": 30}
    lost.play(
        "instance_resize", check=True, drover_memory_mb=96, drover_destination="kvm2", **variables
    )
    lost.store("exported")
    lost.play("instance_resize", check=True, drover_resize="confirm", **variables)
    lost.play("instance_migrate", check=True, drover_instance="web", drover_destination="kvm3")
    before = lost.world()
    lost.store("imported")
    bookings = fleet.booked()
    texts = {}
    with hanging(fleet, "kvm3"):
        for act, more in (
            ("instance_delete", {"drover_instance_force": True}),
            ("instance_resize", {"drover_resize": "revert"}),
            ("instance_resize", {"drover_resize": "confirm"}),
            ("instance_start", {}),
            ("discover", {}),
            ("instance_delete", {"drover_instance_force": True}),
            ("instance_resize", {"drover_resize": "revert"}),
            ("instance_start", {}),
        ):
            texts[act, str(more), len(texts)] = lost.play(
                act, **({**variables, **more} if act != "discover" else {})
            )
            lost.note(f"holds {fleet.booked()}")
            if fleet.booked() != bookings:
                lost.note("!!! booked")
    after = lost.world()
    assert after == before, (before, after)
    assert fleet.booked() == bookings and fleet.query("SELECT name FROM instances") == [("web",)], (
        bookings,
        fleet.booked(),
        texts,
    )
    # After a reading of all hosts, the commands in the messages settle it.
    lost.play("discover")
    for act, more in (
        ("instance_resize", {"drover_resize": "confirm"}),
        ("instance_resize", {"drover_resize": "revert"}),
        ("discover", {}),
    ):
        lost.play(act, **({**variables, **more} if act != "discover" else {}))
        lost.note(f"holds {fleet.booked()} {fleet.where()}")
    assert lost.world() == before


@pytest.mark.parametrize("ended", ["revert", "open"])
def test_a_resize_and_an_older_export(lost, ended):
    """The export was made during the resize, which was reverted since; or before the resize, which
    is open on the host."""
    fleet = lost.fleet
    fleet.make("kvm1", Domain("web", boots=True))
    lost.play("discover", check=True)
    variables = {"drover_instance": "web", "drover_instance_timeout": 30}
    if ended == "open":
        lost.store("exported")
    lost.play(
        "instance_resize",
        check=True,
        drover_memory_mb=96,
        drover_disk_gb=2,
        drover_destination="kvm2",
        **variables,
    )
    if ended == "revert":
        lost.store("exported")
        lost.play("instance_resize", check=True, drover_resize="revert", **variables)
    before = lost.world()
    lost.store("imported")
    for act, more in (
        ("instance_resize", {"drover_resize": "confirm"}),
        ("instance_start", {}),
        ("instance_delete", {"drover_instance_force": True}),
        ("discover", {}),
        ("instance_resize", {"drover_resize": "confirm"}),
        ("instance_resize", {"drover_resize": "revert"}),
    ):
        lost.play(act, **({**variables, **more} if act != "discover" else {}))
        lost.note(f"holds {fleet.booked()} {fleet.where()}")
        assert lost.world() == before
    lost.play("discover", check=True)
    fleet.settled()


def test_a_guest_moved_by_hand_after_the_export(lost):
    """The instance runs on kvm2. The restored store has it on kvm1, which is read and does not have
    it; kvm2 is not read."""
    fleet = lost.fleet
    place(lost, "web")
    lost.store("exported")
    lost.copy("web", "kvm1", "kvm2", start="kvm2", undefine=True)
    before = lost.world()
    lost.store("imported")
    bookings = fleet.booked()
    fleet.playbook("discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost")
    texts = {}
    for act, more in (*ACTS, KEPT):
        texts[act] = lost.play(act, drover_instance="web", drover_instance_timeout=20, **more)
        lost.note(f"holds {fleet.booked()}")
    done = place(lost, "web", check=False)
    lost.note(said(done)[-1500:])
    done = lost.play("drain", drover_host="kvm1", drover_unmovable="skip")
    assert lost.world() == before, texts
    assert fleet.booked() == bookings and fleet.query("SELECT name FROM instances") == [("web",)], (
        bookings,
        fleet.booked(),
        texts,
    )
    lost.play("undrain", drover_host="kvm1")
    lost.play("discover", check=True)
    assert fleet.settled() == {"web": ("kvm2", "running")} and lost.world() == before


@pytest.mark.parametrize("how", ["new", "restored"])
def test_a_fenced_host_comes_back_after_the_store_was_lost(lost, how):
    """The blocklist cut kvm1 off, its guests run on other hosts, and then the store is lost."""
    fleet = lost.fleet
    place(lost, "web")
    place(lost, "off")
    for name in ("web", "off"):
        fleet.run("kvm1", f"virsh destroy {name}; true")
    for image in lost.images():
        lost.cluster.rbd(
            "feature", "disable", image, "object-map", "fast-diff", "deep-flatten", "exclusive-lock"
        )
    fleet.run("kvm1", "virsh start web")
    fence = {
        "drover_storage_fence": "ceph",
        "drover_ceph_admin": "kvm3",
        "drover_ceph_arguments": administrator(lost, "kvm3"),
    }
    lost.play("discover", check=True)
    lost.store("exported")
    image = next(name for name in lost.images() if name.startswith(uuid_of(lost, "web")))
    inside, lost.cut = Inside(fleet, "kvm1"), True
    for rule in CUT_OFF:
        inside.run("ip", *rule.split())
    fleet.playbook(
        "discover", "-e", json.dumps(VARIABLES), "--limit", "kvm1,localhost", check=False
    )
    lost.play("evacuate", check=True, drover_host="kvm1", **fence)
    hosts_by_name = {name: host for name, (host, dummy) in fleet.where(["kvm2", "kvm3"]).items()}
    fleet.run(hosts_by_name["off"], "virsh destroy off; true")
    Inside(fleet, hosts_by_name["web"]).write("web", 4)

    def safe():
        assert content(lost, image) == b"\4" * 65536
        found = fleet.look(["kvm2", "kvm3"])
        assert sorted(
            (each["name"], host) for host, domains in found.items() for each in domains
        ) == sorted(hosts_by_name.items())
        assert len(lost.images()) == 2

    lost.lost(how)
    lost.play("discover")
    lost.play("audit")
    for act in ("instance_start", "instance_delete"):
        lost.play(act, drover_instance="off")
        lost.play(act, drover_instance="web")
    lost.play("evacuate", drover_host="kvm1", drover_host_is_off="kvm1 is powered off")
    safe()
    # kvm1 comes back; its guest still runs there, without its disk.
    for rule in reversed(CUT_OFF):
        inside.run("ip", *rule.replace("add", "del", 1).split())
    inside.write("web", 5)
    lost.play("discover")
    lost.play("audit")
    for act in ("instance_start", "instance_delete"):
        lost.play(act, drover_instance="off")
        lost.play(act, drover_instance="web")
    for name in ("undrain", "drain"):
        lost.play(name, drover_host="kvm1", **fence)
    safe()
    done = place(lost, "new", host="kvm1", check=False)
    lost.note(said(done)[-2500:])
    assert len(lost.images()) == 2 or done.returncode == 0
    lost.note(str(lost.world()))
    lost.note(lost.cluster.ceph("osd", "blocklist", "ls"))


def uuid_of(lost, name):
    return next(
        each["uuid"]
        for found in lost.fleet.look().values()
        for each in found
        if each["name"] == name
    )

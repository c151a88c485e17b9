# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.evacuate: the guests of a dead host run once on other hosts, and do not start
again with the host."""

from __future__ import annotations

import json
import time

import pytest
from test_fleet import LOCAL, SHARED, Domain, changed, eventually, said
from test_power import runs_somewhere

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

SHARED_POOL = {"drover_shared_pools": ["shared"]}
OFF = {"drover_host_is_off": "kvm1 is powered off"}


@pytest.fixture
def sharing(fleet):
    """Return the hosts, discovered with their pool declared."""
    discover(fleet)
    return fleet


#: The hosts of a test die seconds after their last report, and the machine may have just started.
AT_ONCE = {"drover_evacuate_down_seconds": 0, "drover_evacuate_start_seconds": 0}


def extra(**variables):
    return ("-e", json.dumps({**SHARED_POOL, **AT_ONCE, **variables}))


def discover(fleet, *words, check=True):
    return fleet.playbook("discover", *extra(), *words, check=check)


def evacuate(fleet, *words, check=True, **variables):
    return fleet.playbook("evacuate", *extra(drover_host="kvm1", **variables), *words, check=check)


def refused(fleet, *words, **variables):
    return fleet.refused("evacuate", *extra(drover_host="kvm1", **variables), *words)


def die(fleet):
    """Cause a power failure of kvm1, and discover it."""
    fleet.lab.command("kill", "kvm1")
    discover(fleet, "--limit", "kvm1,localhost", check=False)
    assert fleet.service("kvm1")["last_error"]


def living(fleet):
    """Return the place of each domain on the living hosts."""
    return fleet.where(["kvm2", "kvm3"])


def migrations(fleet):
    return sorted(fleet.query("SELECT instance_name, type, status FROM migrations"))


def copies(*domains):
    """Return for each domain if it has QEMU processes on any host."""
    return [runs_somewhere(domain) for domain in domains]


def test_refusals(sharing):
    fleet = sharing
    fleet.make("kvm1", Domain("web"))
    discover(fleet)
    before, where = fleet.query("SELECT * FROM allocations"), fleet.where()
    # The host is up, in the store and in reality.
    text = refused(fleet, **OFF)
    assert "kvm1 is up in the store" in text and "drover.compute.drain" in text
    # Only the store has the host as down.
    fleet.playbook(
        "host_state.yml", "-e", json.dumps({"service_host": "kvm1", "forced_down": True})
    )
    text = refused(fleet, **OFF)
    assert "kvm1 answers" in text and "drover.compute.drain" in text
    # libvirt is dead, and the guest runs: the word of a person does not outweigh that.
    fleet.run("kvm1", "kill -9 $(cat /run/libvirtd.pid)")
    text = refused(fleet, **OFF)
    assert "it answers over SSH" in text
    assert fleet.query("SELECT * FROM leases") == []
    # The host is dead, and not fenced: there is no driver, and these are not the required words.
    die(fleet)
    text = refused(fleet, drover_power_driver="")
    assert "no power driver" in text and 'drover_host_is_off="kvm1 is powered off"' in text
    for words in ("kvm2 is powered off", "yes", "kvm1 is powered off."):
        text = refused(fleet, drover_host_is_off=words)
        assert "say exactly: -e 'drover_host_is_off=\"kvm1 is powered off\"'" in text
    assert fleet.query("SELECT * FROM allocations") == before and migrations(fleet) == []
    assert living(fleet) == {} and where == {"web": ("kvm1", "running")}
    assert fleet.query("SELECT * FROM leases") == []
    assert "kvm9" in fleet.refused("evacuate", *extra(drover_host="kvm9", **OFF))


def test_there_and_back(sharing):
    fleet = sharing
    domains = [
        Domain("one"),
        Domain("two", memory_mb=96),
        Domain("off", state="shutoff"),
        Domain("local", folder=LOCAL),
    ]
    fleet.make("kvm1", *domains)
    fleet.run("kvm1", "virsh autostart two")
    discover(fleet)
    files = fleet.files(SHARED)
    die(fleet)
    assert copies(*domains) == [False] * 4

    # Only the plan.
    done = evacuate(fleet, "--check", check=False)
    assert (
        done.returncode == 2
        and "nothing would be restarted now. kvm1 has no power driver" in said(done)
    )
    assert "one kvm1 -> kvm" in said(done) and "3 instances would be restarted, 1 not" in said(done)
    done = evacuate(fleet, "--check", check=False, **OFF)
    assert (
        done.returncode == 2
        and "nothing would be" not in said(done)
        and "3 instances would be restarted, 1 not" in said(done)
    )
    done = evacuate(fleet, "--check", drover_unmovable="skip", **OFF)
    assert "3 instances would be restarted, 1 not" in said(done)
    assert (
        living(fleet) == {} and migrations(fleet) == [] and not fleet.service("kvm1")["forced_down"]
    )

    done = evacuate(fleet, check=False, **OFF)
    text = said(done)
    assert (
        done.returncode == 2
        and f"local: its disk {LOCAL}/local-0.qcow2 is on the dead host alone" in text
    ), text
    assert "drover_unmovable=skip" in text
    where = living(fleet)
    assert {name: state for name, (dummy, state) in where.items()} == {
        "one": "running",
        "two": "running",
        "off": "shutoff",
    }
    assert fleet.run(where["two"][0], "virsh dominfo two | grep Autostart").split()[1] == "enable"
    service = fleet.service("kvm1")
    assert (
        service["disabled"]
        and service["forced_down"]
        and service["reason"] == "evacuated by drover.compute"
    )
    (event,) = fleet.query("SELECT action, driver, status, power_state, message FROM power_events")
    assert event[:4] == ("fence", "operator", "completed", "off") and event[4].endswith(
        "says: kvm1 is powered off"
    )
    assert migrations(fleet) == [(name, "evacuation", "done") for name in ("off", "one", "two")]
    booked = fleet.booked()
    for name in ("one", "two", "off"):
        assert set(booked[name]) == {"kvm1", where[name][0]}, booked
    assert set(booked["local"]) == {"kvm1"}

    # A second run does nothing twice.
    done = evacuate(fleet, drover_unmovable="skip", **OFF)
    assert "0 instances restarted, 1 not" in said(done) and living(fleet) == where

    # The host counts as up only after the removal of its old definitions, and its discovery removes
    # them.
    fleet.lab.command("start", "kvm1")
    assert len(fleet.run("kvm1", "virsh list --all --name").split()) == 4
    done = discover(fleet)
    assert "removed the stale definition of one" in said(done)
    # A guest that could not be restarted on another host is off now, and named with the command
    # until a person acts.
    went_down = (
        "kvm1 was restarted: local ran before and went down with it. To start them:"
        " ansible-playbook drover.compute.instance_start"
    )
    assert went_down in said(done)
    where["local"] = ("kvm1", "shutoff")
    assert fleet.settled() == where and fleet.files(SHARED) == files
    assert fleet.files(LOCAL) == ["local-0.qcow2"]
    assert {status for dummy, kind, status in migrations(fleet)} == {"completed"}
    assert fleet.service("kvm1")["forced_down"]
    done = fleet.playbook("undrain", *extra(drover_host="kvm1"))
    assert went_down in said(done) and "local ran before" in said(fleet.playbook("audit"))
    assert fleet.service("kvm1") == {
        "disabled": False,
        "reason": None,
        "maintenance": False,
        "forced_down": False,
        "last_error": None,
    }
    assert changed(discover(fleet)) == 0
    fleet.playbook("instance_start", "-e", "drover_instances=local")
    assert went_down not in said(discover(fleet))


def test_fenced_by_redfish(with_bmcs, sharing):
    """Its libvirt is dead and does not start again: its guests run until the power is cut."""
    fleet, domain = sharing, Domain("web")
    fleet.make("kvm1", domain)
    discover(fleet)
    fleet.run(
        "kvm1", "mount --bind /bin/false /usr/sbin/libvirtd; kill -9 $(cat /run/libvirtd.pid)"
    )
    discover(fleet, "--limit", "kvm1,localhost", check=False)
    assert fleet.service("kvm1")["last_error"] and runs_somewhere(domain)
    done = evacuate(fleet)
    assert "1 instance restarted, 0 not" in said(done)
    (where,) = living(fleet).values()
    assert where[1] == "running" and where[0] in ("kvm2", "kvm3")
    with pytest.raises(RuntimeError):  # no host answers
        fleet.lab.host("kvm1").run("true")
    assert ("fence", "redfish", "completed") in fleet.query(
        "SELECT action, driver, status FROM power_events"
    )


def test_already_started_elsewhere(sharing):
    fleet = sharing
    one, two, both = Domain("one"), Domain("two", state="shutoff"), Domain("both", state="shutoff")
    fleet.make("kvm1", one, two, both)
    discover(fleet)
    xml = {
        name: fleet.run("kvm1", f"virsh dumpxml --inactive {name}")
        for name in ("one", "two", "both")
    }
    die(fleet)
    for host, name in (("kvm2", "one"), ("kvm2", "both"), ("kvm3", "both")):
        fleet.run(host, f"virsh define /dev/stdin <<'END'\n{xml[name]}\nEND")
    fleet.run("kvm2", "virsh start one")
    text = refused(fleet, **OFF)
    assert (
        "disks of its instances are in use" in text and "run drover.compute.discover first" in text
    )
    discover(fleet, check=False)
    done = evacuate(fleet, check=False, **OFF)
    text = said(done)
    assert done.returncode == 2 and "one: it is running on kvm2 already" in text
    assert "both: it is on kvm2 and kvm3 at once" in text
    looked = fleet.look(["kvm2", "kvm3"])
    names = {
        host: sorted((domain["name"], domain["state"]) for domain in found)
        for host, found in looked.items()
    }
    assert ("one", "running") in names["kvm2"] and ("one", "running") not in names["kvm3"]
    assert sum(("two", "shutoff") in found for found in names.values()) == 1
    assert ("one", "evacuation", "done") in migrations(fleet)
    assert not [row for row in migrations(fleet) if row[0] == "both"]


def test_a_domain_that_runs_on_both_is_not_touched(sharing):
    fleet, domain = sharing, Domain("web")
    fleet.make("kvm1", domain)
    discover(fleet)
    die(fleet)
    evacuate(fleet, **OFF)
    (place,) = living(fleet).values()
    fleet.lab.command("start", "kvm1")
    # QEMU's own lock would prevent a start here; most shared storage has no such lock.
    fleet.run(
        "kvm1",
        "virsh dumpxml --inactive web | sed 's,/srv/shared/instances/web-0.qcow2,/tmp/web.qcow2,' >"
        " /tmp/web.xml; qemu-img create -q -f qcow2 /tmp/web.qcow2 1G; virsh define /tmp/web.xml;"
        " virsh start web",
    )
    text = said(discover(fleet))
    assert "web" in text and "destroy and undefine the wrong one, but keep its disks" in text
    looked = fleet.look()
    assert [each["state"] for each in looked["kvm1"]] == ["running"]
    assert [each["state"] for each in looked[place[0]]] == ["running"]
    assert fleet.service("kvm1")["forced_down"] and fleet.service("kvm1")["disabled"]
    text = fleet.refused("undrain", *extra(drover_host="kvm1"))
    assert "kvm1 stays forced down: web" in text
    assert migrations(fleet) == [("web", "evacuation", "done")]
    fleet.run("kvm1", "virsh destroy web")
    fleet.playbook("undrain", *extra(drover_host="kvm1"))
    assert fleet.settled() == {"web": place}


def test_a_destination_that_does_not_start_it(sharing):
    """The best destination has a guest of that name: the claim is released, and the other
    destination has it."""
    fleet = sharing
    fleet.make("kvm1", Domain("web"))
    discover(fleet)
    die(fleet)
    done = evacuate(fleet, "--check", **OFF)
    first = "kvm2" if "web kvm1 -> kvm2" in said(done) else "kvm3"
    (other,) = {"kvm2", "kvm3"} - {first}
    fleet.make(first, Domain("web", state="shutoff", folder=LOCAL, memory_mb=8))
    done = evacuate(fleet, **OFF)
    assert "did not start: another domain named web" in said(done)
    states = {
        host: [each["state"] for each in found]
        for host, found in fleet.look(["kvm2", "kvm3"]).items()
    }
    assert states == {first: ["shutoff"], other: ["running"]}
    assert sorted(row[2] for row in migrations(fleet)) == ["done", "failed"]


#: Run on a host: the start of a guest takes half a minute.
SLOW_START = """
mkdir -p /run/real && mount --bind /usr /run/real
cat > /run/slow <<'END'
#!/bin/sh
case "$*" in *guest=*) sleep 30 ;; esac
exec /run/real/bin/qemu-system-x86_64 "$@"
END
chmod 755 /run/slow && mount --bind /run/slow /usr/bin/qemu-system-x86_64
"""
AS_BEFORE = "umount --lazy /usr/bin/qemu-system-x86_64; umount --lazy /run/real"


def test_safety_09_a_destination_that_does_not_answer_in_time(sharing):
    """The start continues there without a waiting run: nothing of it is begun on another host, and
    the next run finds the guest."""
    fleet, domain = sharing, Domain("web")
    fleet.make("kvm1", domain)
    discover(fleet)
    die(fleet)
    others = ["kvm2", "kvm3"]
    fleet.everywhere(SLOW_START, others)
    try:
        text = refused(fleet, evacuate_look_seconds=14, drover_start_timeout=1, **OFF)
        assert "did not answer in time" in text and "1 instance of kvm1 is not restarted" in text
        assert migrations(fleet) == [("web", "evacuation", "running")]
        assert fleet.query("SELECT * FROM leases") == []
        # The guest is paused for a moment before it runs.
        eventually(lambda: [state for _host, state in fleet.where(others).values()] == ["running"])
        ((where, _state),) = fleet.where(others).values()
    finally:
        fleet.everywhere(AS_BEFORE, others)
    assert f"web: it runs on {where}." in said(evacuate(fleet, **OFF))
    assert living(fleet) == {"web": (where, "running")}
    assert migrations(fleet) == [("web", "evacuation", "done")]


@pytest.mark.parametrize("moment", ["claimed", "started", "some seconds"])
def test_killed_and_run_again(sharing, moment):
    fleet = sharing
    domains = [Domain(f"web{number}") for number in range(6)]
    fleet.make("kvm1", *domains)
    discover(fleet)
    die(fleet)
    run = fleet.start("evacuate", *extra(drover_host="kvm1", drover_max_evacuations=1, **OFF))
    try:
        if moment == "claimed":
            eventually(lambda: len(migrations(fleet)) >= 3)
        elif moment == "started":
            eventually(lambda: any(copies(*domains)))
        else:
            run.until(r"^web0: kvm1 -> kvm\d")
            time.sleep(3)
    finally:
        run.kill()
    done = evacuate(fleet, **OFF)
    where = living(fleet)  # none is on two hosts
    assert {name: state for name, (dummy, state) in where.items()} == {
        each.name: "running" for each in domains
    }, said(done)
    closed = [row[2] for row in migrations(fleet)]
    assert closed.count("done") == 6 and set(closed) <= {"done", "failed", "cancelled"}
    fleet.lab.command("start", "kvm1")
    discover(fleet)
    assert fleet.settled() == where


def test_suspected_3_the_next_run_withdraws_what_a_killed_one_had_ordered(sharing):
    """Its call may still be on its way to the destination: a late call begins nothing."""
    fleet, domain = sharing, Domain("web")
    fleet.make("kvm1", domain)
    discover(fleet)
    die(fleet)
    begun = "SELECT destination, details FROM migrations WHERE status = 'running'"
    run = fleet.start("evacuate", *extra(drover_host="kvm1", **OFF))
    try:
        eventually(lambda: fleet.query(begun) != [])
    finally:
        run.kill()
    ((where, details),) = fleet.query(begun)
    done = evacuate(fleet, **OFF)
    ((host, state),) = living(fleet).values()
    assert state == "running" and [row[2] for row in migrations(fleet)].count("done") == 1, said(
        done
    )
    assert json.loads(details)["orders"][-1] in json.loads(
        fleet.run(where, f"cat /var/lib/drover/migrations/{domain.uuid}.withdrawn")
    )


def test_suspected_2_a_host_that_was_not_read_may_have_it(sharing):
    """A person may have moved it there with virsh."""
    fleet = sharing
    fleet.make("kvm1", Domain("web"))
    discover(fleet)
    die(fleet)
    fleet.run("kvm3", "kill -9 $(cat /run/libvirtd.pid)")
    text = refused(fleet, **OFF)
    assert (
        "web: it may run on kvm3, not read now" in text
        and "drover_evacuate_force=unread_hosts" in text
    )
    assert fleet.where(["kvm2"]) == {} and migrations(fleet) == []
    evacuate(fleet, drover_evacuate_force="unread_hosts", **OFF)
    assert fleet.where(["kvm2"]) == {"web": ("kvm2", "running")}
    fleet.run("kvm3", "/usr/sbin/libvirtd -d")
    assert living(fleet) == {"web": ("kvm2", "running")}


def test_safety_01_a_host_that_comes_back_while_the_others_are_read(sharing):
    """A person has said that it is off, and that was true. Its guest starts with it."""
    fleet, domain = sharing, Domain("web")
    fleet.make("kvm1", domain)
    fleet.run("kvm1", "virsh autostart web")
    discover(fleet)
    die(fleet)
    fleet.run("kvm3", "kill -STOP $(cat /run/libvirtd.pid)")
    try:
        run = fleet.start("evacuate", *extra(drover_host="kvm1", **OFF))
        run.until("Read the hypervisor, and record its facts")
        fleet.lab.command("start", "kvm1")
    finally:
        fleet.run("kvm3", "kill -CONT $(cat /run/libvirtd.pid)")
    text = run.finish()
    assert "kvm1 has come back while its instances were to be started elsewhere" in " ".join(
        text.split()
    ), text
    assert (
        living(fleet) == {}
        and fleet.where(["kvm1"])["web"][0] == "kvm1"
        and fleet.query("SELECT * FROM leases") == []
    )
    fleet.playbook("undrain", *extra(drover_host="kvm1"))
    assert fleet.settled() == {"web": ("kvm1", "running")}


def test_back_before_a_killed_run_was_run_again(sharing):
    fleet = sharing
    fleet.make("kvm1", Domain("one"), Domain("two"))
    discover(fleet)
    die(fleet)
    run = fleet.start("evacuate", *extra(drover_host="kvm1", drover_max_evacuations=1, **OFF))
    try:
        eventually(lambda: len(migrations(fleet)) == 2)
    finally:
        run.kill()
    time.sleep(5)  # the calls at a destination continue
    fleet.lab.command("start", "kvm1")
    text = refused(fleet, **OFF)
    assert "kvm1 answers" in text
    fleet.playbook("undrain", *extra(drover_host="kvm1"))
    where = fleet.settled()
    assert set(where) == {"one", "two"} and not fleet.service("kvm1")["forced_down"]
    assert all((host == "kvm1") == (state == "shutoff") for host, state in where.values())

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.rolling_maintenance: hosts that really go down and come up again."""

from __future__ import annotations

import json

import pytest
from test_fleet import Domain, changed, said

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

SENTINEL = "/run/reboot-required"
NOTE = [
    {
        "name": "Note it",
        "ansible.builtin.shell": "cat /proc/sys/kernel/random/boot_id >> /root/hooked",
        "changed_when": False,
    }
]
ENABLED = {
    "disabled": False,
    "reason": None,
    "maintenance": False,
    "forced_down": False,
    "last_error": None,
}


@pytest.fixture
def powered(with_bmcs, fleet):
    fleet.everywhere(f"rm -f {SENTINEL} /root/hooked")
    return fleet


def roll(fleet, *words, check=True, **variables):
    return fleet.playbook("rolling_maintenance", "-e", json.dumps(variables), *words, check=check)


def hooks(fleet, **tasks):
    """Write hook files with these tasks; return the variable."""
    paths = {}
    for name, content in tasks.items():
        file = fleet.folder / f"{name}.yml"
        file.write_text(json.dumps(content))
        paths[name] = str(file)
    return paths


def boots(fleet):
    return {
        host: said.strip()
        for host, said in fleet.everywhere("cat /proc/sys/kernel/random/boot_id").items()
    }


def rolling(fleet):
    """Return the store's record: host -> stage."""
    return dict(fleet.query("SELECT host, stage FROM rolling_hosts"))


def reboots(fleet):
    return sorted(fleet.query("SELECT host, status FROM power_events"))


def test_all_hosts_with_a_hook_and_everything_comes_back(powered):
    fleet = powered
    for host in fleet.hosts:
        fleet.make(host, Domain(f"on-{host}", memory_mb=128))
    fleet.playbook("discover")
    where, before = fleet.settled(), boots(fleet)
    fleet.everywhere(f"touch {SENTINEL}")

    done = roll(fleet, "--check")
    assert changed(done) == 1 and "3 hosts in" in said(done)
    assert boots(fleet) == before and fleet.settled() == where and rolling(fleet) == {}

    done = roll(
        fleet, drover_rolling_bring_back=True, drover_rolling_hooks=hooks(fleet, after_reboot=NOTE)
    )
    after = boots(fleet)
    assert not set(after.values()) & set(before.values())
    # The hook ran once on each, after the reboot.
    assert {host: text.split() for host, text in fleet.everywhere("cat /root/hooked").items()} == {
        host: [boot] for host, boot in after.items()
    }
    assert fleet.settled() == where
    assert all(fleet.service(host) == ENABLED for host in fleet.hosts)
    assert reboots(fleet) == [(host, "completed") for host in fleet.hosts]
    assert rolling(fleet) == {} and fleet.query("SELECT name FROM leases") == []
    for host in fleet.hosts:
        assert f"{host}: done, up, enabled, 1 instance" in said(done)

    again = roll(fleet, drover_rolling_bring_back=True)
    assert "There is nothing to do" in said(again) and boots(fleet) == after


def test_it_stops_at_the_first_failure_and_goes_on_there(powered):
    fleet = powered
    fleet.make("kvm1", Domain("one"))
    fleet.make("kvm2", Domain("two"))
    fleet.playbook("discover")
    fleet.playbook(
        "host_state.yml",
        "-e",
        json.dumps({"service_host": "kvm1", "state": "disabled", "reason": "bad fan"}),
    )
    fleet.everywhere(f"touch {SENTINEL}", ["kvm1", "kvm2"])
    before = boots(fleet)
    variables = {
        "drover_rolling_batch_size": 1,
        "drover_power_driver": "ssh",
        "drover_reason": "new kernel",
    }
    refusing = [
        {
            "name": "Refuse",
            "ansible.builtin.fail": {"msg": "the mirror is down"},
            "when": "inventory_hostname == 'kvm1'",
        }
    ]
    done = roll(
        fleet, check=False, drover_rolling_hooks=hooks(fleet, after_drain=refusing), **variables
    )
    text = said(done)
    assert done.returncode and "Traceback" not in text
    assert (
        "kvm1: stopped at after_drain, up, in maintenance, 0 instances (Refuse: the mirror is down)"
        in text
    ), text
    assert "Correct the cause and run the same command again" in text
    assert "kvm3" not in rolling(fleet)
    assert rolling(fleet)["kvm1"] == "after_drain" and boots(fleet)["kvm1"] == before["kvm1"]
    assert fleet.service("kvm1")["maintenance"] and fleet.query("SELECT name FROM leases") == []
    assert {name: state for name, (dummy, state) in fleet.settled().items()} == {
        "one": "running",
        "two": "running",
    }
    was_done = rolling(fleet)["kvm2"] == "done"
    assert (boots(fleet)["kvm2"] != before["kvm2"]) == was_done
    # A rebalance does not use these hosts.
    assert "kvm1 is drained, and nothing moves until it is back" in said(
        fleet.playbook("rebalance")
    )

    done = roll(fleet, drover_rolling_hooks=hooks(fleet, after_drain=NOTE), **variables)
    assert "Going on with a maintenance that was not finished: kvm1 was begun with" in said(done)
    after = boots(fleet)
    assert (
        after["kvm3"] == before["kvm3"]
        and after["kvm1"] != before["kvm1"]
        and after["kvm2"] != before["kvm2"]
    )
    assert reboots(fleet) == [("kvm1", "completed"), ("kvm2", "completed")]
    assert rolling(fleet) == {}
    # Rule S5: each host has its earlier state.
    assert fleet.service("kvm1") == {**ENABLED, "disabled": True, "reason": "bad fan"}
    assert fleet.service("kvm2") == ENABLED
    fleet.settled()


def test_killed_while_a_host_reboots(powered):
    """Rules S10, S14 and S17: the next run sees the newer boot and does not reboot again."""
    fleet = powered
    fleet.make("kvm1", Domain("one"))
    fleet.playbook("discover")
    fleet.run("kvm1", f"touch {SENTINEL}")
    before = boots(fleet)
    run = fleet.start("rolling_maintenance", "-e", json.dumps({"drover_rolling_bring_back": True}))
    run.until(r"TASK \[drover.compute.power : Switch it on\]")
    run.kill()
    assert rolling(fleet) == {"kvm1": "reboot"}
    done = roll(fleet, drover_rolling_bring_back=True)
    after = boots(fleet)
    assert after["kvm1"] != before["kvm1"] and after["kvm2"] == before["kvm2"], said(done)
    assert [row[0] for row in fleet.query("SELECT action FROM power_events ORDER BY id")][:1] == [
        "reboot"
    ]
    assert fleet.query("SELECT count(*) FROM power_events WHERE action = 'reboot'") == [(1,)]
    assert fleet.settled() == {"one": ("kvm1", "running")}
    assert fleet.service("kvm1") == ENABLED and rolling(fleet) == {}


def test_hosts_that_cannot_be_emptied_are_named_first(powered):
    fleet = powered
    fleet.make("kvm1", Domain("saved"))
    fleet.run("kvm1", "virsh managedsave saved")
    fleet.playbook("discover")
    fleet.everywhere(f"touch {SENTINEL}", ["kvm1", "kvm2"])
    before = boots(fleet)
    text = fleet.refused("rolling_maintenance")
    assert "so nothing was changed. kvm1: saved cannot move: it has a saved memory image" in text
    assert (
        boots(fleet) == before
        and rolling(fleet) == {}
        and fleet.query("SELECT name FROM leases") == []
    )
    done = roll(fleet, drover_rolling_blocked="skip", drover_power_driver="ssh")
    assert "kvm1: left out: saved cannot move" in said(done) and "kvm2: done, up, enabled" in said(
        done
    )
    assert boots(fleet)["kvm1"] == before["kvm1"] and boots(fleet)["kvm2"] != before["kvm2"]

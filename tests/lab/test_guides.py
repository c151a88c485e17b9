# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guides, followed: their files and commands are taken from the pages and run unchanged, in
their order.

A command that is added to a guide must be unpacked here, with a check after it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
from guests import Full
from test_evacuate import AT_ONCE, SHARED_POOL
from test_fleet import BOOT_SECTOR, LOCAL, Domain

from ansible_collections.drover.compute.tests.unit import pages

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

UNREACHABLE = 4
# The image in the pages, with an operating system that obeys the power button.
IMAGE = f"""set -e
qemu-img create -q -f qcow2 {LOCAL}/debian-12.qcow2 64M
echo {base64.b64encode(BOOT_SECTOR).decode()} | base64 -d > /tmp/boot
qemu-io -f qcow2 -c 'write -q -s /tmp/boot 0 512' {LOCAL}/debian-12.qcow2"""


class Reader:
    """A reader who follows a page, in a separate folder."""

    def __init__(self, fleet, text):
        self.fleet, self.text = fleet, text
        self.environment = fleet.lab.environment(fleet.store_url)
        for name, content in pages.files(text).items():
            (fleet.folder / name).write_text(content, encoding="utf-8")

    def commands(self):
        return list(pages.commands(self.text))

    def run(self, command, status=0):
        """Run a command of the page; return its output in one line."""
        done = subprocess.run(
            shlex.split(command),
            cwd=self.fleet.folder,
            env=self.environment,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == status, f"{command}:\n{done.stdout}"
        return " ".join(done.stdout.split())


def beginner(fleet, text):
    """Return a reader with the inventory of the page, and the image that it names. The lab's
    configuration tells SSH the hosts of the lab."""
    reader = Reader(fleet, text)
    reader.environment["ANSIBLE_SSH_COMMON_ARGS"] = f"-F {fleet.lab.layout.ssh_config}"
    # The run must use the lab's ansible.cfg; the test adds the settings of the guide's.
    reader.environment["ANSIBLE_INVENTORY"] = os.fspath(fleet.folder / "inventory.yml")
    fleet.everywhere(IMAGE)
    return reader


def operator(fleet, page, **variables):
    """Return a reader with the lab's inventory, and some variables for all hosts."""
    reader = Reader(fleet, page.read_text(encoding="utf-8"))
    settings = fleet.folder / "settings.yml"
    settings.write_text(json.dumps({"all": {"vars": variables}}), encoding="utf-8")
    reader.environment["ANSIBLE_INVENTORY"] = (
        f"{fleet.lab.layout.folder / 'inventory.yml'},{settings}"
    )
    # For the commands that name it.
    shutil.copy(fleet.lab.layout.folder / "inventory.yml", fleet.folder / "inventory.yml")
    if (fleet.lab.layout.folder / "host_vars").exists():
        shutil.copytree(
            fleet.lab.layout.folder / "host_vars", fleet.folder / "host_vars", dirs_exist_ok=True
        )
    return reader


def boots(fleet):
    return fleet.everywhere("cat /proc/sys/kernel/random/boot_id")


def on_kvm1(fleet):
    return [name for name, (host, dummy) in fleet.settled().items() if host == "kvm1"]


def test_readme(empty_fleet):
    fleet = empty_fleet
    reader = beginner(fleet, pages.section(pages.README, "Your own hosts"))
    discover, place, plan, drain, undrain = reader.commands()
    said = reader.run(discover)
    assert all(f"{host} " in said for host in fleet.hosts)
    reader.run(place)
    assert fleet.settled()["web1"][1] == "running"
    assert "changed=0" in reader.run(place)
    before = fleet.settled()
    reader.run(plan)
    assert fleet.settled() == before and not fleet.service("kvm1")["disabled"]
    reader.run(drain)
    assert fleet.settled()["web1"][1] == "running" and on_kvm1(fleet) == []
    assert (fleet.service("kvm1")["maintenance"], fleet.service("kvm1")["reason"]) == (
        True,
        "new kernel",
    )
    reader.run(undrain)
    assert not fleet.service("kvm1")["disabled"]


def test_first_fleet(empty_fleet):
    fleet = empty_fleet
    reader = beginner(fleet, pages.FIRST_FLEET.read_text(encoding="utf-8"))
    assert (
        (fleet.folder / "ansible.cfg")
        .read_text(encoding="utf-8")
        .endswith("[defaults]\ninventory = inventory.yml\n")
    )
    ping, trust, discover, hosts, host, plan_place, place, plan, drain, undrain, delete = (
        reader.commands()
    )
    reader.run(ping)
    reader.run(trust)
    assert "changed=1" not in reader.run(trust), "once is enough"
    for command in (discover, hosts, host):
        assert "kvm1 " in reader.run(command)
    reader.run(plan_place)
    assert fleet.where() == {}
    reader.run(place)
    instances = fleet.settled()
    assert {name: state for name, (dummy, state) in instances.items()} == dict.fromkeys(
        ("web1", "web2", "db1"), "running"
    )
    assert instances["web1"][0] != instances["web2"][0] and on_kvm1(fleet), instances
    reader.run(plan)
    assert fleet.settled() == instances
    reader.run(drain)
    after = fleet.settled()
    assert on_kvm1(fleet) == [] and {state for dummy, state in after.values()} == {"running"}
    assert fleet.service("kvm1")["maintenance"]
    reader.run(undrain)
    assert fleet.settled() == after and not fleet.service("kvm1")["disabled"]
    reader.run(delete)
    remaining = fleet.settled()
    assert set(remaining) == {"web1", "web2"}
    assert "state: absent" in (fleet.folder / "fleet.yml").read_text(encoding="utf-8")
    # A deleted instance is not built again; the present hosts of the others are recorded.
    reader.run(place)
    assert fleet.settled() == remaining and "changed=0" in reader.run(place)


def test_drain_runbook(fleet):
    reader = operator(fleet, pages.DRAIN)
    plan, drain, undrain, plan_both, drain_both, undrain_both, free = reader.commands()
    fleet.make("kvm1", Domain("web1", boots=True), Domain("off", state="shutoff"))
    fleet.playbook("discover")
    before = fleet.settled()
    assert "web1" in reader.run(plan) and fleet.settled() == before
    reader.run(drain)
    assert on_kvm1(fleet) == [] and {
        name: state for name, (dummy, state) in fleet.settled().items()
    } == {
        "web1": "running",
        "off": "shutoff",
    }
    assert (fleet.service("kvm1")["maintenance"], fleet.service("kvm1")["reason"]) == (
        True,
        "new kernel",
    )
    reader.run(undrain)
    assert fleet.service("kvm1") == {
        "disabled": False,
        "reason": None,
        "maintenance": False,
        "forced_down": False,
        "last_error": None,
    }
    where = fleet.settled()
    assert "Drain of kvm1, kvm2" in reader.run(plan_both) and fleet.settled() == where
    reader.run(drain_both)
    assert {host for host, dummy in fleet.settled().values()} == {"kvm3"}
    assert [fleet.service(host)["maintenance"] for host in ("kvm1", "kvm2")] == [True, True]
    reader.run(undrain_both)
    assert not any(fleet.service(host)["disabled"] for host in ("kvm1", "kvm2"))
    # There is no lease to take over; the tests of leases cover that.
    reader.run(free)
    assert fleet.query("SELECT * FROM leases") == []


@pytest.mark.parametrize("fenced_by", ["driver", "operator"])
def test_evacuate_runbook(with_bmcs, fleet, fenced_by):
    """Its power driver, or a person, says that the host is off.

    In one lab all hosts die and come back within minutes.
    """
    reader = operator(fleet, pages.EVACUATE, **SHARED_POOL, **AT_ONCE)
    discover, plan, evacuate, evacuate_by_hand, rediscover, undrain = reader.commands()
    reader.run(discover)
    fleet.make("kvm1", Domain("web1"), Domain("web2"))
    reader.run(discover)
    fleet.lab.command("kill", "kvm1")

    reader.run(discover, status=UNREACHABLE)
    assert fleet.service("kvm1")["last_error"]
    assert (
        re.search(r"web1 +kvm1 +-> +kvm[23]", reader.run(plan))
        and fleet.where(["kvm2", "kvm3"]) == {}
    )
    reader.run(evacuate if fenced_by == "driver" else evacuate_by_hand)
    where = fleet.where(["kvm2", "kvm3"])
    assert {name: state for name, (dummy, state) in where.items()} == {
        "web1": "running",
        "web2": "running",
    }
    assert "0 instances restarted" in reader.run(evacuate_by_hand), (
        "run again it does nothing twice"
    )

    fleet.lab.command("start", "kvm1")
    assert "removed the stale definition of web1" in reader.run(rediscover)
    reader.run(undrain)
    assert fleet.settled() == where and not fleet.service("kvm1")["forced_down"]


def states(fleet):
    return {name: state for name, (dummy, state) in fleet.where().items()}


def sizes(fleet):
    return [
        (domain["vcpus"], domain["memory_mb"])
        for found in fleet.look(None).values()
        for domain in found
    ]


def test_instances_page(fleet):
    reader = operator(fleet, pages.DOCS / "instances.md")
    # The playbooks of the table; some leave out the common part.
    named = re.findall(
        r"`((?:drover\.compute\.|… )instance_[^`]*)` \|",
        reader.text.partition("`drover_instance` is a name")[0],
    )
    full = [
        name.replace("… ", "drover.compute.", 1).replace(" … ", " -e drover_instance=web1 ")
        for name in named
    ]
    (
        info,
        start,
        stop,
        cut_off,
        reboot,
        reset,
        resize,
        confirm,
        revert,
        migrate,
        migrate_cold,
        delete,
    ) = [f"ansible-playbook {command}" for command in full]
    fleet.make("kvm1", Domain("web1", boots=True))
    fleet.playbook("discover")
    assert "console" in reader.run(info)
    for flavor in (
        "name=big vcpus=2 memory_mb=96 disk_gb=1",
        "name=small vcpus=1 memory_mb=64 disk_gb=1",
    ):
        reader.run(f"ansible localhost -m drover.compute.flavor -a '{flavor}'")
    reader.run(stop)
    assert states(fleet) == {"web1": "shutoff"}
    reader.run(start)
    assert states(fleet) == {"web1": "running"}
    for command in (reboot, reset):
        reader.run(command)
        assert states(fleet) == {"web1": "running"}
    reader.run(resize)
    reader.run(confirm)
    assert states(fleet) == {"web1": "running"}
    assert sizes(fleet) == [(2, 96)]
    reader.run(resize.replace("big", "small"))
    assert sizes(fleet) == [(1, 64)]
    reader.run(revert)
    assert sizes(fleet) == [(2, 96)]
    reader.run(migrate)
    assert states(fleet) == {"web1": "running"} and fleet.where(["kvm1"]) == {}
    reader.run(f"{migrate} -e drover_destination=kvm1")
    reader.run(migrate_cold)
    assert fleet.where() == {"web1": ("kvm2", "running")}
    reader.run(cut_off)
    assert states(fleet) == {"web1": "shutoff"}
    reader.run(delete)
    assert fleet.where() == {}


def test_abort_page(fleet):
    reader = operator(fleet, pages.DOCS / "migration.md")
    one, all_of_it = [command for command in reader.commands() if "migration_abort" in command]
    fleet.make("kvm1", Full("web-1"), Full("web-2"))
    slow = {"drover_host": "kvm1", "drover_migration": {"bandwidth_mib": 1}}
    run = fleet.start("drain", "-e", json.dumps(slow))
    try:
        for name in ("web-1", "web-2"):
            run.until(rf"^{name}: kvm1 -> kvm\d, live, started")
        reader.run(one)
        run.until(r"^web-1: .* cancelled")
        reader.run(all_of_it)
        run.until(r"^web-2: .* cancelled")
        run.finish()
    finally:
        if run.process.poll() is None:
            run.kill()
    assert fleet.settled() == {"web-1": ("kvm1", "running"), "web-2": ("kvm1", "running")}


def test_rebalance_page(fleet):
    reader = operator(fleet, pages.DOCS / "rebalance.md")
    show, apply, plan, apply_plan, capacity, of_flavor, *questions = reader.commands()
    fleet.make("kvm1", *[Domain(f"vm{number}", memory_mb=128) for number in range(4)])
    fleet.playbook("discover")
    where = fleet.settled()
    for command in (show, plan):
        assert "Nothing was moved" in reader.run(command) and fleet.settled() == where
    assert "changed=0" not in reader.run(apply_plan)
    after = fleet.settled()
    assert after != where and states(fleet) == dict.fromkeys(where, "running")
    reader.run(apply)
    assert fleet.settled() == after, "what has moved stays for an hour"
    reader.run(
        "ansible localhost -m drover.compute.flavor -a 'name=small vcpus=1 memory_mb=64 disk_gb=1'"
    )
    for command in (capacity, of_flavor, *questions):
        # The hosts of the lab are small.
        assert (
            re.search(r"kvm\d", reader.run(command.replace("=4GiB", "=64MiB")))
            and fleet.settled() == after
        )


def test_power_and_rolling_pages(with_bmcs, fleet):
    reader = operator(fleet, pages.DOCS / "power.md")
    status, reboot = reader.commands()
    fleet.make("kvm2", Domain("web1"))
    fleet.playbook("discover")
    begun = boots(fleet)
    assert "kvm1" in reader.run(status)
    reader.run(reboot, status=2)
    assert boots(fleet) == begun, "a host that is not disabled is not rebooted"
    fleet.drain("kvm1")
    reader.run(reboot)
    after = boots(fleet)
    assert {host for host, boot in after.items() if boot != begun[host]} == {"kvm1"}
    fleet.playbook("undrain", "-e", "drover_host=kvm1")

    reader = operator(fleet, pages.DOCS / "rolling.md")
    plan, roll, roll_all = reader.commands()
    fleet.run("kvm2", "touch /run/reboot-required")
    assert "kvm2" in reader.run(plan) and boots(fleet) == after
    reader.run(roll)
    again = boots(fleet)
    assert {host for host, boot in again.items() if boot != after[host]} == {"kvm2"}
    # The test does not use the page's own hook, which upgrades the machine.
    note = [
        {
            "name": "Note it",
            "ansible.builtin.shell": "echo here >> /root/hooked",
            "changed_when": False,
        }
    ]
    (fleet.folder / "update.yml").write_text(json.dumps(note), encoding="utf-8")
    fleet.everywhere("rm -f /root/hooked")
    reader.run(roll_all)
    assert (
        set(fleet.everywhere("cat /root/hooked").values()) == {"here\n"} and boots(fleet) == again
    )
    assert states(fleet) == {"web1": "running"}

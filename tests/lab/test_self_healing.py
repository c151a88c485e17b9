# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Without an operator: ansible-rulebook runs the shipped rulebooks, and real hosts lose their
power, their libvirt, a guest."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

import pytest
from test_evacuate import AT_ONCE, SHARED_POOL, discover
from test_fleet import PATIENCE, Domain, Run, eventually
from test_silent_host import cut_from_the_controller

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]


class Engine:
    """ansible-rulebook with a rulebook of the collection; its output is read all the time."""

    def __init__(self, fleet, folder: pathlib.Path, rulebook: str) -> None:
        folder.mkdir()
        layout = fleet.lab.layout
        inventory = folder / "inventory"
        inventory.mkdir()
        shutil.copy(layout.folder / "inventory.yml", inventory)
        if (layout.folder / "host_vars").exists():
            shutil.copytree(layout.folder / "host_vars", inventory / "host_vars")
        (inventory / "group_vars").mkdir()
        (inventory / "group_vars" / "all.yml").write_text(json.dumps({**SHARED_POOL, **AT_ONCE}))
        ssh = folder / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec ssh -F {layout.ssh_config} -o ControlPath=none "$@"\n')
        ssh.chmod(0o755)
        settings = folder / "eda.yml"
        uri = f"qemu+ssh://root@{{host}}/system?command={ssh}"
        settings.write_text(
            json.dumps({"drover_store_url": fleet.store_url, "drover_eda_uri": uri})
        )
        words = [
            "ansible-rulebook",
            "-r",
            f"drover.compute.{rulebook}",
            "-i",
            os.fspath(inventory),
            "--vars",
            os.fspath(settings),
            "-v",
        ]
        self.run = Run(words, fleet.lab.environment(fleet.store_url))
        self.said, self._hosts = "", fleet.hosts
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(ValueError):  # Closed.
            for line in self.run.process.stdout:
                self.said += line

    def says(self, pattern: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.said):
            assert self.run.process.poll() is None and time.monotonic() < deadline, (
                f"nothing matched {pattern!r}:\n{self.said}"
            )
            time.sleep(0.2)

    def watches(self) -> None:
        for host in self._hosts:
            self.says(rf"{host}: libvirt is connected")


@pytest.fixture
def engine(fleet, tmp_path):
    """Return a function that starts an engine; all end with the test."""
    begun = []

    def start(rulebook: str = "self_healing") -> Engine:
        begun.append(Engine(fleet, tmp_path / f"engine{len(begun)}", rulebook))
        return begun[-1]

    yield start
    for engine_run in begun:
        if engine_run.run.process.poll() is None:
            engine_run.run.kill()
        print(engine_run.said)


def watched(fleet, engine, *domains) -> Engine:
    """Make domains on kvm1, and start an engine with connections to all hosts."""
    fleet.make("kvm1", *domains)
    discover(fleet, "-e", json.dumps(SHARED_POOL))
    found = engine()
    found.watches()
    return found


def processes(domain) -> int:
    """Return the number of QEMU processes of a domain on the machine, in all hosts."""
    done = subprocess.run(
        ["pgrep", "-fc", f"qemu-system.*{domain.uuid}"], capture_output=True, text=True, check=False
    )
    return int(done.stdout)


class Copies:
    """A counter of the QEMU processes of domains, at all times: none may have two."""

    def __init__(self, *domains) -> None:
        self.domains, self.most, self._end = (
            domains,
            {each.name: 0 for each in domains},
            threading.Event(),
        )
        self._thread = threading.Thread(target=self._count, daemon=True)

    def _count(self) -> None:
        while not self._end.wait(0.5):
            for each in self.domains:
                self.most[each.name] = max(self.most[each.name], processes(each))

    def __enter__(self) -> Copies:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._end.set()
        self._thread.join()
        assert set(self.most.values()) <= {1}, self.most


def run_elsewhere(fleet, *domains) -> bool:
    where = fleet.where(["kvm2", "kvm3"])
    return all(where.get(each.name, ("", ""))[1] == "running" for each in domains)


def healed(fleet, begun: float, what: str, *domains) -> None:
    eventually(lambda: run_elsewhere(fleet, *domains))
    took = time.monotonic() - begun
    ((fencing,),) = fleet.query(
        "SELECT sum(updated_at - created_at) FROM power_events WHERE action = 'fence'"
    )
    print(
        f"\n{what}: {took:.0f} s until all instances run elsewhere, {fencing:.0f} s of these for"
        " the fencing"
    )


def test_power_is_cut(with_bmcs, fleet, engine):
    web, db = Domain("web"), Domain("db")
    fleet.make("kvm2", Domain("other"))
    engine = watched(fleet, engine, web, db)
    with Copies(web, db):
        begun = time.monotonic()
        fleet.lab.command("kill", "kvm1")
        engine.says("kvm1 is silent since")
        print(f"\nsaid after {time.monotonic() - begun:.0f} s")
        healed(fleet, begun, "power cut", web, db)
        engine.says("2 instances restarted, 0 not")
    assert ("fence", "redfish", "completed") in fleet.query(
        "SELECT action, driver, status FROM power_events"
    )
    assert engine.said.count("kvm1 is silent since") == 1


def test_two_engines_at_once_and_one_is_killed(with_bmcs, fleet, engine):
    web, db = Domain("web"), Domain("db")
    fleet.make("kvm1", web, db)
    discover(fleet, "-e", json.dumps(SHARED_POOL))
    one, two = engine(), engine()
    one.watches()
    two.watches()
    with Copies(web, db):
        begun = time.monotonic()
        fleet.lab.command("kill", "kvm1")
        eventually(lambda: any("Evacuation of kvm1" in each.said for each in (one, two)))
        (one if "Evacuation of kvm1" in one.said else two).run.kill()
        healed(fleet, begun, "power cut, two engines, one killed", web, db)
    assert fleet.query("SELECT count(*) FROM instances WHERE name IN ('web', 'db')") == [(2,)]


def test_the_only_engine_is_killed_in_the_middle(with_bmcs, fleet, engine):
    web, db = Domain("web"), Domain("db")
    first = watched(fleet, engine, web, db)
    with Copies(web, db):
        begun = time.monotonic()
        fleet.lab.command("kill", "kvm1")
        first.says("Evacuation of kvm1")
        first.run.kill()
        engine()
        healed(fleet, begun, "power cut, the engine killed and started again", web, db)


def test_the_host_comes_back_during_the_evacuation(with_bmcs, fleet, engine):
    """A person presses its button during the engine's evacuation: for any state that the run has
    seen, no guest runs twice, and none is lost."""
    web, db = Domain("web"), Domain("db")
    healing = watched(fleet, engine, web, db)
    with Copies(web, db):
        time.sleep(2)
        fleet.lab.command("kill", "kvm1")
        healing.says("Evacuation of kvm1")
        fleet.lab.command("start", "kvm1")
        # The host was back in time, and the run ends there; or it was fenced, and its guests run on
        # other hosts.
        healing.says("kvm1 is back|2 instances restarted, 0 not")
        time.sleep(30)
        defined = fleet.where()
        assert set(defined) == {"web", "db"}, defined
    rows = fleet.query(
        "SELECT i.name, n.host FROM instances i JOIN compute_nodes n ON n.id = i.compute_node_id"
    )
    print(f"\n{defined}, in the store {sorted(rows)}")
    assert dict(rows) == {name: host for name, (host, _state) in defined.items()}


def test_only_the_network_between_the_engine_and_a_host_is_cut(with_bmcs, fleet, engine):
    """The host is silent for this controller, and its witnesses reach it: it is left alone, and
    read after its return."""
    web = Domain("web")
    healing = watched(fleet, engine, web)
    with Copies(web):
        with cut_from_the_controller(fleet):
            healing.says("kvm1 is silent since")
            healing.says("kvm2 and kvm3 can reach it")
        healing.says("kvm1 is back")
        eventually(lambda: fleet.service("kvm1")["last_error"] is None)
    assert fleet.query("SELECT * FROM power_events") == [] and fleet.where() == {
        "web": ("kvm1", "running")
    }


def test_nothing_is_done_while_half_of_the_fleet_is_silent_or_a_host_is_in_maintenance(
    with_bmcs, fleet, engine
):
    web = Domain("web")
    fleet.make("kvm1", web)
    discover(fleet, "-e", json.dumps(SHARED_POOL))
    fleet.playbook(
        "host_state.yml", "-e", json.dumps({"service_host": "kvm3", "state": "maintenance"})
    )
    healing = engine()
    healing.watches()
    fleet.lab.command("kill", "kvm3")
    time.sleep(45)
    assert "kvm3 is silent" not in healing.said
    fleet.lab.command("start", "kvm3")
    eventually(lambda: healing.said.count("kvm3: libvirt is connected") == 2)
    fleet.playbook("host_state.yml", "-e", json.dumps({"service_host": "kvm3", "state": "enabled"}))
    for host in ("kvm1", "kvm3"):
        fleet.lab.command("kill", host)
    healing.says("2 of 3 hosts are silent at the same time: kvm1, kvm3")
    time.sleep(30)
    assert "kvm1 is silent" not in healing.said and fleet.query("SELECT * FROM power_events") == []
    fleet.lab.command("start", "kvm3")
    healing.says("kvm1 is silent since")


def test_a_guest_crashes_and_libvirt_dies(fleet, engine):
    web, db = Domain("web"), Domain("db")
    healing = watched(fleet, engine, web, db)
    with Copies(web, db):
        begun = time.monotonic()
        fleet.run("kvm1", "kill -9 $(cat /run/libvirt/qemu/web.pid)")
        healing.says("web crashed on kvm1")
        eventually(lambda: fleet.where()["web"] == ("kvm1", "running"))
        print(f"\ncrash: {time.monotonic() - begun:.0f} s until it runs again")
        # A stop that drover.compute orders gives no event.
        fleet.playbook(
            "instance_stop",
            "-e",
            json.dumps({"drover_instances": ["db"], "drover_instance_force": True}),
            check=False,
        )
        fleet.playbook("instance_start", "-e", json.dumps({"drover_instances": ["db"]}))
        pids = {
            name: fleet.run("kvm1", f"cat /run/libvirt/qemu/{name}.pid") for name in ("web", "db")
        }
        begun = time.monotonic()
        fleet.run("kvm1", "kill -9 $(cat /run/libvirtd.pid)")
        healing.says("The libvirt of kvm1 does not answer")
        healing.says("kvm1 is back")
        print(f"libvirtd: {time.monotonic() - begun:.0f} s until it answers again")
        assert pids == {
            name: fleet.run("kvm1", f"cat /run/libvirt/qemu/{name}.pid") for name in ("web", "db")
        }
    assert fleet.query("SELECT * FROM power_events") == [] and "Evacuation of" not in healing.said
    assert "db crashed" not in healing.said and healing.said.count("web crashed on kvm1") == 1


def test_what_is_done_by_hand_is_in_the_store_within_seconds(fleet, engine):
    web = Domain("web")
    fleet.make("kvm1", web)
    discover(fleet, "-e", json.dumps(SHARED_POOL))
    current = engine("keep_up_to_date")
    current.watches()
    place = (
        "SELECT n.host FROM instances i JOIN compute_nodes n ON n.id = i.compute_node_id WHERE"
        " i.name = 'web'"
    )
    assert fleet.query(place) == [("kvm1",)]
    fleet.run(
        "kvm1",
        "virsh migrate --live --unsafe --persistent --undefinesource web qemu+ssh://kvm2/system",
    )
    begun = time.monotonic()
    eventually(lambda: fleet.query(place) == [("kvm2",)])
    print(f"\nmigration by hand: {time.monotonic() - begun:.1f} s until the store has it")
    fleet.run("kvm2", "virsh destroy web")
    begun = time.monotonic()
    eventually(
        lambda: (
            fleet.query("SELECT state FROM domains WHERE name = 'web' AND state = 'shutoff'") != []
        ),
    )
    print(f"stop by hand: {time.monotonic() - begun:.1f} s until the store has it")
    current.says("web stopped on kvm2")
    # Actions of drover.compute itself give no event.
    fleet.playbook("instance_start", "-e", json.dumps({"drover_instances": ["web"]}))
    words = {"drover_instances": ["web"], "drover_destination": "kvm1", **SHARED_POOL}
    fleet.playbook("instance_migrate", "-e", json.dumps(words))
    fleet.playbook("drain", "-e", json.dumps({"drover_host": "kvm1", **SHARED_POOL}))
    time.sleep(10)
    # The lines of the rulebook have only the changes by hand.
    events = re.findall(
        r"^web (was moved from kvm1 to kvm2|stopped on kvm2|.*) at .* without drover",
        current.said,
        re.M,
    )
    assert (
        events == ["was moved from kvm1 to kvm2", "stopped on kvm2"]
        and fleet.where()["web"][0] != "kvm1"
    )

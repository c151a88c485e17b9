# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""silent_host: whom to ask about a host that does not answer, and what becomes of what they say."""

from __future__ import annotations

import time

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.action import silent_host as plugin
from ansible_collections.drover.compute.plugins.plugin_utils.placement import moves
from ansible_collections.drover.compute.plugins.plugin_utils.planner.silent_host import Limits
from ansible_collections.drover.compute.plugins.plugin_utils.store import Store, power, services
from ansible_collections.drover.compute.tests.unit.action.running import is_plain, run
from ansible_collections.drover.compute.tests.unit.store import fleets

POOL = {"name": "nfs", "path": "/nfs", "shared_id": "nfs:a:/x"}
SILENT = [{"item": "kvm2", "reached": False, "storage": "unknown"}, {"item": "kvm3", "reached": False}]


def disk(name, **more):
    return {"target": "vda", "device": "disk", "type": "file", "source": f"/nfs/{name}", **more}


@pytest.fixture(name="url")
def of_a_fleet(prepared_url, monkeypatch):
    monkeypatch.setattr(plugin, "_uptime", lambda: 10_000.0)
    web = fleets.domain("web", disks=[disk("web"), disk("base", readonly=True), disk("all", shareable=True)])
    moving = fleets.domain("moving", disks=[disk("moving")])
    hosts = [
        fleets.host("kvm1", web, moving, pools=[POOL]),
        *(fleets.host(f"kvm{n}", pools=[POOL]) for n in range(2, 7)),
    ]
    fleets.discover(prepared_url, *hosts, now=time.time() - 1000)
    with Store.open(prepared_url).write() as connection:
        services.record_unreachable(connection, "kvm1", "timed out", time.time())
        services.record_unreachable(connection, "kvm3", "timed out", time.time())
    return prepared_url


def decide(url, **args):
    found = run("silent_host", **{"host": "kvm1", "store_url": url, "power": "on", "seen": SILENT, **args})
    assert found["changed"] is False and is_plain(found)
    return found["decision"], found["rule"]


def test_whom_to_ask(url):
    with Store.open(url).write() as connection:
        moves.begin(connection, fleets.uuid_of("moving"), "kvm2", "kvm2", "live-migration", time.time(), "kvm1")
    others = ["kvm6", "kvm5", "kvm4", "kvm3", "kvm2", "kvm1"]
    found = run("silent_host", host="kvm1", state="asked", others=others, store_url=url)
    assert found["peers"] == ["kvm2", "kvm4", "kvm5"]  # kvm3 is down
    assert "kvm1" in found["addresses"] and found["disks"] == ["/nfs/web"]
    assert run("silent_host", host="kvm1", state="asked", store_url=url)["peers"] == []


def test_what_they_say(url):
    assert decide(url) == ("hard_fence", None)
    assert decide(url, seen=[*SILENT, {"item": "kvm4", "reached": True}]) == ("nothing", "peers_reach")
    assert (
        decide(url, seen=[{"item": "kvm2", "unreachable": True, "msg": "no"}], force=["many_down"])[1] == "no_witness"
    )
    assert decide(url, seen=[{**SILENT[0], "storage": "active"}, SILENT[1]]) == ("wait", "storage_active")
    # Hosts that this controller cannot ask look dead as well.
    lost = [{"item": "kvm4", "unreachable": True}]
    assert decide(url, seen=SILENT + lost) == ("wait", "many_down")
    assert decide(url, seen=SILENT + lost, force=["many_down"]) == ("hard_fence", None)
    assert decide(url, seen=SILENT + lost, down_percent=60) == ("hard_fence", None)


def test_what_the_store_knows(url, monkeypatch):
    monkeypatch.setattr(plugin, "_uptime", lambda: 100.0)
    assert decide(url)[1] == "just_started" and decide(url, start_seconds=100)[0] == "hard_fence"
    monkeypatch.setattr(plugin, "_uptime", lambda: None)
    assert decide(url, down_seconds=2000)[1] == "too_early"
    with Store.open(url).write() as connection:
        event = power.begin(connection, "kvm6", "fence", "ipmi", None, time.time())
        power.finish(connection, event["uuid"], "completed", "off", None, None, time.time())
    assert decide(url)[1] == "quiet_time" and decide(url, quiet_seconds=0)[0] == "hard_fence"
    with Store.open(url).write() as connection:
        services.change(connection, services.get(connection, "kvm1"), {"maintenance": True})
    assert decide(url)[1] == "maintenance" and decide(url, ssh=True)[1] == "maintenance"


def test_mistakes(url):
    for args, words in (
        ({"host": "kvm9"}, "Host kvm9 is not in the store"),
        ({"host": "kvm 1\n"}, "is not in the store"),
        ({"force": ["everything"]}, "no rule named everything to lift; the rules are driver_says_on, login_refused, peers_reach, "),
        ({"force": ["true"]}, "no rule named true to lift"),
        ({"quiet_seconds": -1}, "quiet_seconds must be 0 or more"),
        ({"quiet_seconds": "soon"}, "quiet_seconds"),
    ):
        with pytest.raises(AnsibleActionFail, match=words):
            decide(url, **args)


def test_the_limits_are_those_of_the_planner():
    assert plugin.LIMITS == vars(Limits())

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""silent_host: the peers of a host that does not answer, and the use of their answers."""

from __future__ import annotations

import errno
import re
import socket
import sys
import time

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import evidence
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import power, services
from ansible_collections.drover.compute.tests.unit.action.running import is_plain, play, run
from ansible_collections.drover.compute.tests.unit.store import fleets

POOL = {"name": "nfs", "path": "/nfs", "shared_id": "nfs:a:/x"}
SILENT = [
    {"item": "kvm2", "reached": False, "storage": "unknown"},
    {"item": "kvm3", "reached": False},
]


def disk(name, **more):
    return {"target": "vda", "device": "disk", "type": "file", "source": f"/nfs/{name}", **more}


@pytest.fixture(name="url")
def of_a_fleet(prepared_url, monkeypatch):
    monkeypatch.setattr(evidence, "uptime", lambda: 10_000.0)
    web = fleets.domain(
        "web", disks=[disk("web"), disk("base", readonly=True), disk("all", shareable=True)]
    )
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
    answer = run(
        "_silent_host", **{"host": "kvm1", "store_url": url, "power": "on", "seen": SILENT, **args}
    )
    assert answer["changed"] is False and is_plain(answer)
    return answer["decision"], answer["rule"]


def test_whom_to_ask(url):
    with Store.open(url).write() as connection:
        migration_claims.begin(
            connection,
            fleets.uuid_of("moving"),
            "kvm2",
            "kvm2",
            "live-migration",
            time.time(),
            "kvm1",
        )
    others = ["kvm6", "kvm5", "kvm4", "kvm3", "kvm2", "kvm1"]
    found = run("_silent_host", host="kvm1", state="asked", others=others, store_url=url)
    assert found["peers"] == ["kvm2", "kvm4", "kvm5"]  # kvm3 is down
    assert found["addresses"] == ["kvm1"] and found["disks"] == ["/nfs/web"]
    assert run("_silent_host", host="kvm1", state="asked", store_url=url)["peers"] == []


def test_images_of_ceph_are_asked_for_unless_the_host_is_to_be_shut_out_of_them(url):
    """The host has them open until Ceph cuts it off."""
    images = [
        {
            "target": f"vd{at}",
            "device": "disk",
            "type": "network",
            "source": f"{kind}:vms/{at}",
            "origin": f"{kind}:192.0.2.9:/vms/{at}",
            **more,
        }
        for at, (kind, more) in enumerate([("rbd", {}), ("rbd", {"readonly": True}), ("nbd", {})])
    ]
    fleets.discover(
        url,
        fleets.host("kvm1", fleets.domain("web", disks=[disk("web"), *images]), pools=[POOL]),
        now=time.time(),
    )

    def asked(**variables):
        return run(
            "_silent_host",
            {"hostvars": {"kvm1": variables}},
            host="kvm1",
            state="asked",
            store_url=url,
        )["disks"]

    assert asked() == ["/nfs/web", "rbd:192.0.2.9:/vms/0"]
    assert asked(drover_storage_fence="ceph") == ["/nfs/web"]


def test_what_they_say(url):
    assert decide(url) == ("hard_fence", None)
    assert decide(url, seen=[*SILENT, {"item": "kvm4", "reached": True}]) == (
        "nothing",
        "peers_reach",
    )
    assert (
        decide(url, seen=[{"item": "kvm2", "unreachable": True, "msg": "no"}], force=["many_down"])[
            1
        ]
        == "no_witness"
    )
    assert decide(url, seen=[{**SILENT[0], "storage": "active"}, SILENT[1]]) == (
        "wait",
        "storage_active",
    )
    # Hosts that this controller cannot call look dead as well.
    lost = [{"item": "kvm4", "unreachable": True}]
    assert decide(url, seen=SILENT + lost) == ("wait", "many_down")
    assert decide(url, seen=SILENT + lost, force=["many_down"]) == ("hard_fence", None)
    assert decide(url, seen=SILENT + lost, down_percent=60) == ("hard_fence", None)


def test_what_the_store_knows(url, monkeypatch):
    monkeypatch.setattr(evidence, "uptime", lambda: 100.0)
    assert decide(url)[1] == "just_started" and decide(url, start_seconds=100)[0] == "hard_fence"
    monkeypatch.setattr(evidence, "uptime", lambda: None)
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
        (
            {"force": ["everything"]},
            (
                "no rule named everything to lift; the rules are driver_says_on, login_refused,"
                " unclear_answer, "
            ),
        ),
        ({"force": ["true"]}, "no rule named true to lift"),
        ({"quiet_seconds": -1}, "quiet_seconds must be 0 or more"),
        ({"quiet_seconds": "soon"}, "quiet_seconds"),
    ):
        with pytest.raises(AnsibleActionFail, match=words):
            decide(url, **args)


def test_addresses_are_what_the_operator_says(url):
    """The host's own name for itself does not count: another machine may have that name, for
    example localhost."""
    node = fleets.host(
        "kvm1",
        hypervisor_hostname="localhost",
        migration_uri="qemu+tls://m1.example.com/system",
        migration_address="10.0.0.1",
    )
    fleets.discover(url, node, now=time.time())
    variables = {"hostvars": {"kvm1": {"ansible_host": "192.0.2.1"}}}
    found = run("_silent_host", variables, host="kvm1", state="asked", store_url=url)["addresses"]
    assert found == ["m1.example.com", "10.0.0.1", "192.0.2.1", "kvm1"]


SILENT_WORDS = (
    "Failed to connect to the host via ssh: ssh: connect to host kvm1 port 22: Connection timed out"
)


def answered(address, port, words=SILENT_WORDS):
    variables = {"hostvars": {"kvm1": {"ansible_host": address, "ansible_port": port}}}
    answer = run(
        "_silent_host",
        variables,
        host="kvm1",
        state="answered",
        tried={"unreachable": True, "msg": words},
    )
    assert answer["changed"] is False and is_plain(answer)
    return answer["answer"], answer["reached"], answer["words"]


def test_safety_14_this_controller_looks_whether_tcp_answers():
    """SSH's words do not matter. A closed port is an answer too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert answered("127.0.0.1", port)[:2] == ("refused", True)
        assert answered("127.0.0.1", port, "something odd")[:2] == ("refused", True)
    answer, reached, words = answered("127.0.0.1", port)
    assert (answer, reached) == ("refused", True) and "127.0.0.1 answers, but not on port" in words
    assert answered("nowhere.invalid", 22)[:2] == ("silent", None)
    assert answered("nowhere.invalid", 22, "something odd")[:2] == ("unclear", None)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (errno.ECONNREFUSED, "refused"),
        (errno.ECONNRESET, "refused"),
        (errno.ETIMEDOUT, "silent"),
        (errno.EHOSTUNREACH, "silent"),
        (errno.ENETUNREACH, "silent"),
    ],
)
def test_safety_14_what_tcp_says(monkeypatch, error, answer):
    def connect(_self, _where):
        raise OSError(error, "it says")

    monkeypatch.setattr(socket.socket, "connect", connect)
    assert answered("127.0.0.1", 22)[0] == answer


#: host -> its variables, and the role's result for it.
TRIED = {
    "here": ({"ansible_connection": "local"}, "login True"),
    # Its Python is broken; only a living host can answer that.
    "broken": (
        {"ansible_connection": "local", "ansible_python_interpreter": "/nonexistent/python"},
        "login True",
    ),
    # A closed port is an answer; an older version called it silence.
    "closed": (
        {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
        "refused True",
    ),
    "unknown": ({"ansible_connection": "ssh", "ansible_host": "nowhere.invalid"}, "unclear False"),
    # The connection did not leave this machine.
    "unused": (
        {
            "ansible_connection": "ssh",
            "ansible_host": "nowhere.invalid",
            "ansible_ssh_executable": "/nonexistent/ssh",
        },
        "unclear False",
    ),
}


def test_safety_14_as_the_role_asks_it(tmp_path):
    tasks = [
        {"ansible.builtin.add_host": {"name": name, **variables}}
        for name, (variables, dummy) in TRIED.items()
    ]
    for name in TRIED:
        include = {"name": "drover.compute.power", "tasks_from": "answers"}
        tasks.append(
            {
                "ansible.builtin.include_role": include,
                "vars": {"power_host": name, "power_boot_id": ""},
            }
        )
        tasks.append(
            {
                "ansible.builtin.debug": {
                    "msg": f"<{name} {{{{ power_answer.answer }}}} {{{{ power_answer.answers }}}}>"
                }
            }
        )
    code, text = play(tmp_path, tasks, vars={"ansible_python_interpreter": sys.executable})
    assert code == 0, text
    assert re.findall("<(.*)>", text) == [
        f"{name} {expected}" for name, (dummy, expected) in TRIED.items()
    ], text


def test_who_is_let_in_needs_no_tcp():
    answer = run(
        "_silent_host",
        host="nowhere.invalid",
        state="answered",
        tried={"content": "YQ==", "changed": False},
    )
    assert (answer["answer"], answer["reached"]) == ("login", None)


def test_safety_13_and_14_reach_the_decision(url):
    active = [{**SILENT[0], "storage": "active"}, SILENT[1]]
    assert decide(url, power="off") == ("restart", None)
    assert decide(url, power="off", seen=active) == ("wait", "storage_active")
    assert decide(url, power="off", seen=active, force=["storage_active"]) == ("restart", None)
    assert decide(url, power="none", said=True, seen=active) == ("wait", "storage_active")
    assert decide(url, power="off", unclear="something odd") == ("nothing", "unclear_answer")
    assert decide(url, power="off", seen=[*SILENT, {"item": "kvm4", "reached": True}]) == (
        "nothing",
        "contradiction",
    )

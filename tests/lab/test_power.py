# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.power over real Redfish and IPMI; their power is the power of the lab hosts."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import shlex
import socket
import ssl
import threading

import pytest
import sqlalchemy as sa
from lablib import control
from lablib.layout import BMC_PASSWORD
from test_fleet import Domain, changed, eventually, processes, said

from ansible_collections.drover.compute.tests.unit.redfish_server import PASSWORD, RedfishServer

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

EVENTS = "SELECT action, status, power_state FROM power_events ORDER BY id"
NOWHERE = "127.0.0.1:9"


@pytest.fixture
def powered(with_bmcs, fleet):
    """Return empty hosts with power drivers. kvm1 is disabled, as after a drain."""
    set_disabled(fleet, True)
    return fleet


def set_disabled(fleet, disabled):
    engine = sa.create_engine(fleet.store_url)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE services SET disabled = :disabled WHERE host = 'kvm1'"),
            {"disabled": disabled},
        )
    engine.dispose()


def power(fleet, action, *words, check=True, **variables):
    extra = {"drover_host": "kvm1", "drover_power_action": action, **variables}
    return fleet.playbook("power", "-e", json.dumps(extra), *words, check=check)


def refused(fleet, action, *words, **variables):
    extra = {"drover_host": "kvm1", "drover_power_action": action, **variables}
    return fleet.refused("power", "-e", json.dumps(extra), *words)


def fence(fleet, *words, check=True, **variables):
    return fleet.playbook(
        "fence.yml", "-e", json.dumps({"drover_host": "kvm1", **variables}), *words, check=check
    )


def uuid_of_host(fleet, name):
    """Return the uuid of libvirt and of the machine."""
    return re.search("<uuid>(.*)</uuid>", fleet.run(name, "virsh capabilities")).group(1)


def boot_id(fleet):
    return fleet.run("kvm1", "cat /proc/sys/kernel/random/boot_id").strip()


def has_power(fleet):
    return control.ask(fleet.lab.layout, "status")["kvm1"]


def runs_somewhere(domain):
    """Return True if the machine has a QEMU process of a domain, in any host."""
    return bool(processes(domain.uuid))


def test_redfish_cuts_the_power_and_gives_it_back(powered):
    fleet = powered
    one = Domain("one")
    fleet.make("kvm1", one)  # the store does not know it
    before = boot_id(fleet)
    set_disabled(fleet, False)

    # Two rules, two flags: each flag lifts only its rule.
    text = refused(fleet, "hard_off")
    assert "not empty: one" in text and "drover_power_force=not_empty" in text
    assert "not disabled" in text and "drover_power_force=not_disabled" in text
    text = refused(fleet, "hard_off", drover_power_force="not_disabled")
    assert "not empty: one" in text and "It is not disabled" not in text
    text = refused(fleet, "hard_off", drover_power_force=["not_empty"])
    assert "It is not disabled" in text and "not empty: one" not in text
    assert "the rules are not_empty and not_disabled" in refused(
        fleet, "hard_off", drover_power_force="everything"
    )
    assert boot_id(fleet) == before and runs_somewhere(one)
    assert fleet.query(EVENTS) == []

    done = power(fleet, "hard_off", "--check", drover_power_force=True)
    assert changed(done) == 1 and has_power(fleet) and fleet.query(EVENTS) == []
    done = power(fleet, "hard_off", drover_power_force=True)
    assert changed(done) == 1 and "hard_off done, power off" in said(done)
    assert not has_power(fleet) and not runs_somewhere(one)
    with pytest.raises(RuntimeError):  # ssh's own failure: no host answers
        fleet.lab.host("kvm1").run("true")
    assert "switched off (hard_off)" in fleet.service("kvm1")["last_error"]
    assert changed(power(fleet, "hard_off")) == 0 and changed(power(fleet, "shutdown")) == 0
    assert "nothing to reboot" in refused(fleet, "reboot")
    assert "power off (redfish)" in said(power(fleet, "status"))

    done = power(fleet, "startup")
    assert changed(done) == 1 and "startup done, power on" in said(done)
    assert boot_id(fleet) != before
    assert fleet.service("kvm1")["last_error"] is None
    # The host was read again: the store has the instance, and it is off.
    assert fleet.query("SELECT name, state FROM domains") == [("one", "shutoff")]
    assert changed(power(fleet, "startup")) == 0
    assert fleet.query(EVENTS) == [("hard_off", "completed", "off"), ("startup", "completed", "on")]
    assert fleet.query("SELECT boot_id FROM power_events ORDER BY id") == [
        (before,),
        (boot_id(fleet),),
    ]
    # The power was cut: the guest had no time for a shutdown.
    assert "shutting down, reason=shutdown" not in fleet.run(
        "kvm1", "cat /var/log/libvirt/qemu/one.log"
    )


def test_ipmi_shuts_down_in_order_and_reboots(powered):
    fleet = powered
    fleet.make("kvm1", Domain("polite", boots=True))
    before = boot_id(fleet)
    ipmi = {"drover_power_driver": "ipmi"}
    assert "power on (ipmi)" in said(power(fleet, "status", **ipmi))
    done = power(fleet, "reboot", drover_power_force="not_empty", **ipmi)
    assert changed(done) == 2 and "reboot done, power on" in said(done)
    assert boot_id(fleet) != before
    # The guest obeyed its power button before the host went off.
    assert "shutting down, reason=shutdown" in fleet.run(
        "kvm1", "cat /var/log/libvirt/qemu/polite.log"
    )
    before = boot_id(fleet)
    power(fleet, "shutdown", **ipmi)  # its guests are shut off: nothing is lost
    assert not has_power(fleet)
    assert "power off (ipmi)" in said(power(fleet, "status", **ipmi))
    power(fleet, "startup", **ipmi)
    power(fleet, "cycle", **ipmi)
    assert boot_id(fleet) != before
    assert [row[0] for row in fleet.query(EVENTS)] == ["reboot", "shutdown", "startup", "cycle"]


@pytest.mark.parametrize("driver", ["redfish", "ipmi"])
def test_a_wrong_password_and_a_controller_that_is_not_there(powered, driver):
    fleet = powered
    before = boot_id(fleet)
    done = power(
        fleet,
        "hard_off",
        "-vvv",
        check=False,
        drover_power_driver=driver,
        drover_power_password="hunter2-wrong",
    )
    assert done.returncode and "did not say whether the power is on" in said(done), said(done)
    assert re.search(r"401|Incorrect password", said(done))
    # -vvv does not show the command line of the run itself, so the password could only come from a
    # task.
    assert "hunter2-wrong" not in said(done)
    done = power(fleet, "status", "-vvv", drover_power_driver=driver)
    assert BMC_PASSWORD not in said(done)
    text = refused(fleet, "hard_off", drover_power_driver=driver, drover_power_address=NOWHERE)
    assert (
        f"{driver} at {NOWHERE} did not say whether the power is on" in text
        and "Nothing was changed" in text
    )
    assert boot_id(fleet) == before and fleet.query(EVENTS) == []


def test_the_host_reboots_itself(powered):
    fleet = powered
    ssh = {"drover_power_driver": "ssh"}
    before = boot_id(fleet)
    done = power(fleet, "reboot", **ssh)
    assert changed(done) == 1 and boot_id(fleet) != before
    assert "the power driver ssh cannot do startup" in refused(fleet, "startup", **ssh)
    assert "the power driver ssh cannot do hard_off" in refused(fleet, "hard_off", **ssh)
    # The message names a host that does not go down.
    before = boot_id(fleet)
    text = refused(
        fleet, "reboot", drover_power_reboot_command="true", drover_power_boot_timeout=5, **ssh
    )
    assert "did not come back with a new boot id" in text and boot_id(fleet) == before
    done = power(fleet, "shutdown", **ssh)
    eventually(lambda: not has_power(fleet))
    assert "power unknown (the driver cannot see it)" in said(done)
    assert [row[1:] for row in fleet.query(EVENTS)] == [
        ("completed", "on"),
        ("failed", "unknown"),
        ("completed", "unknown"),
    ]


def test_wake_on_lan(powered):
    fleet = powered
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as card:
        try:
            card.bind(("127.0.0.1", 7))
        except OSError as problem:
            pytest.skip(f"Wake-on-LAN goes to port 7, which cannot be had here: {problem}")
        fleet.lab.command("kill", "kvm1")

        def wake():
            assert card.recv(200).startswith(b"\xff" * 6 + bytes.fromhex("525400990001") * 16)
            fleet.lab.command("start", "kvm1")

        thread = threading.Thread(target=wake, daemon=True)
        thread.start()
        done = power(
            fleet,
            "startup",
            drover_power_driver="wakeonlan",
            drover_power_mac="52:54:00:99:00:01",
            drover_power_broadcast="127.0.0.1",
        )
        thread.join(30)
    assert changed(done) == 1 and has_power(fleet)


def test_a_host_without_a_driver_is_told_so(powered):
    text = refused(powered, "status", drover_power_driver="")
    assert "kvm1 has no power driver" in text and "redfish, ipmi, libvirt, wakeonlan, ssh" in text
    text = refused(powered, "status", drover_power_driver="wakeonlan")
    assert "the power driver wakeonlan needs drover_power_mac" in text
    text = powered.refused("power", "-e", "drover_host=kvm9")
    assert "kvm9 is not in the store" in text


class Liar(http.server.BaseHTTPRequestHandler):
    """A Redfish service that answers and does nothing. server.lie selects its lie."""

    def log_message(self, *words):
        pass

    def reply(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.server.lie == "times out":
            self.server.ended.wait()
        path = self.path.rstrip("/")
        if path == "/redfish/v1":
            self.reply({"Systems": {"@odata.id": "/redfish/v1/Systems"}})
        elif path == "/redfish/v1/Systems":
            self.reply({"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]})
        else:
            self.server.asked += 1
            self.reply(
                {
                    "PowerState": self.server.state(),
                    "Actions": {
                        "#ComputerSystem.Reset": {
                            "target": "/redfish/v1/Systems/1/Reset",
                            "ResetType@Redfish.AllowableValues": [
                                "On",
                                "ForceOff",
                                "GracefulShutdown",
                            ],
                        }
                    },
                }
            )

    def do_POST(self):
        kind = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["ResetType"]
        self.server.last = "On" if kind == "On" else "Off"
        self.reply({})


class LyingServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, lie, layout):
        super().__init__(("127.0.0.1", 0), Liar)
        self.lie, self.last, self.asked, self.ended = lie, "On", 0, threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(layout.bmc_certificate, layout.keys / "bmc")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def state(self):
        """Return On or Off by the lie, independent of the requests."""
        if self.lie == "says on for ever":
            return "On"
        if self.lie == "changes its mind":
            return "On" if self.asked in (1, 4) else "Off"
        return self.last


@pytest.fixture
def lying(powered):
    """Return a function that starts a lying controller of kvm1 and returns the variables that lead
    to it."""
    with contextlib.ExitStack() as servers:

        def start(lie):
            server = LyingServer(lie, powered.lab.layout)
            servers.callback(server.shutdown)
            servers.callback(server.ended.set)
            return {"drover_power_address": server.address}

        yield start


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("says on for ever", "still says on, not off, 4 s after it was asked for fence"),
        ("says off", "The power driver of kvm1 says that it is off, but it answers over SSH"),
        ("times out", 'did not do "off"'),
        ("changes its mind", "said that kvm1 was off, and then that it is on"),
    ],
)
def test_a_lying_controller_fences_nothing(powered, lying, lie, words):
    """Rule S1: a power endpoint that says "on" for ever, lies, times out."""
    before = boot_id(powered)
    done = fence(powered, check=False, drover_power_timeout=4, **lying(lie))
    assert done.returncode and words in said(done), said(done)
    assert "kvm1 is not fenced, and nothing of it may be started elsewhere" in said(done)
    assert "fenced: True" not in said(done)
    assert powered.query(EVENTS) == [("fence", "failed", "unknown")]
    assert powered.service("kvm1")["last_error"] is None  # nothing proves that it is down
    assert boot_id(powered) == before


def test_safety_14_a_lying_controller_and_a_dead_sshd_fence_nothing(powered, lying):
    """SSH accepts no login; a closed port is an answer too, and other hosts get it."""
    fleet = powered
    one = Domain("one")
    fleet.make("kvm1", one)
    try:
        fleet.run("kvm1", "kill $(pgrep -o -x sshd)")
        done = fence(fleet, check=False, drover_power_timeout=4, **lying("says off"))
        assert done.returncode and "fenced: True" not in said(done), said(done)
        assert "says that it is off, but" in said(done) and "kvm1 is not fenced" in said(done)
        assert fleet.query(EVENTS) == [("fence", "failed", "unknown")]
        assert runs_somewhere(one) and has_power(fleet)
    finally:
        fleet.lab.command("kill", "kvm1", check=False)


def test_a_reboot_that_never_was_is_found_out(powered, lying):
    """Rule S14."""
    text = refused(powered, "cycle", drover_power_timeout=4, **lying("says what was asked for"))
    assert "it never went down" in text
    assert powered.query(EVENTS) == [("cycle", "failed", "unknown")]


def test_fence(powered):
    fleet = powered
    one = Domain("one")
    fleet.make("kvm1", one)
    assert changed(fence(fleet, "--check")) == 0 and has_power(fleet)
    done = fence(fleet)
    assert "fenced: True" in said(done) and changed(done) == 1
    assert not has_power(fleet) and not runs_somewhere(one)
    assert fleet.query(EVENTS) == [("fence", "completed", "off")]
    # A second fence, of a host that is dead already: its power is verified again.
    done = fence(fleet)
    assert "fenced: True" in said(done) and changed(done) == 0
    text = said(fence(fleet, check=False, drover_power_driver="ssh"))
    assert "the power driver ssh cannot do fence" in text and "fenced: True" not in text


def outer(fleet):
    """Return the variables that make a domain of kvm2 the machine of kvm1."""
    program = fleet.folder / "ssh"
    program.write_text(
        f'#!/bin/sh\nexec ssh -F {shlex.quote(os.fspath(fleet.lab.layout.ssh_config))} "$@"\n'
    )
    program.chmod(0o755)
    return {
        "drover_power_driver": "libvirt",
        "drover_power_domain": "chassis",
        "drover_power_address": f"qemu+ssh://root@kvm2/system?command={program}",
    }


def test_b2_a_domain_of_another_machine_is_not_the_host(powered):
    fleet = powered
    fleet.make("kvm2", Domain("chassis"))
    text = refused(fleet, "hard_off", **outer(fleet))
    assert "it switches another machine than kvm1" in text and "drover_power_uuid" in text
    assert fleet.run("kvm2", "virsh domstate chassis").strip() == "running"
    assert "power unknown (libvirt)" not in said(
        power(fleet, "status", check=False, **outer(fleet))
    )


def test_an_outer_libvirt(powered):
    """kvm2 is the outer libvirt; its domain "chassis" has the uuid of kvm1 and stands for it, but
    does not switch it."""
    fleet = powered
    fleet.make("kvm2", Domain("chassis", uuid=uuid_of_host(fleet, "kvm1")))
    assert "power on (libvirt)" in said(power(fleet, "status", **outer(fleet)))
    assert changed(power(fleet, "hard_off", **outer(fleet))) == 1
    assert fleet.run("kvm2", "virsh domstate chassis").strip() == "shut off"
    text = refused(fleet, "startup", **outer(fleet))
    assert "it never went down" in text
    assert fleet.run("kvm2", "virsh domstate chassis").strip() == "running"


# -- the answer to an opposite request ----------------------------------------------------------


@pytest.fixture
def odd(powered, tmp_path):
    """Return a function that starts a controller of kvm1 with odd behaviour; it returns the
    controller and the variables that lead to it."""
    with contextlib.ExitStack() as servers:

        def start(**ways):
            server = RedfishServer(tmp_path, **ways)
            servers.callback(server.close)
            login = {
                "drover_power_user": "drover",
                "drover_power_password": PASSWORD,
                "drover_power_ca_path": os.fspath(server.certificate),
            }
            return server, {"drover_power_address": server.address, **login}

        yield start


def test_f04_a_clean_shutdown_that_the_controller_cannot_do(powered, odd):
    server, variables = odd(allowed=("On", "ForceOff", "ForceRestart", "PushPowerButton"))
    before = boot_id(powered)
    for action in ("shutdown", "reboot"):
        for words in (["--check"], []):
            text = refused(powered, action, *words, **variables)
            assert (
                f"cannot do {action}: the controller offers no clean shutdown. Nothing was sent"
                in text
            )
            assert "drover_power_driver to ssh" in text and "hard_off" in text
    assert (
        server.done == []
        and not [each for each in server.seen if each[0] == "POST"]
        and boot_id(powered) == before
    )
    assert powered.query(EVENTS) == []
    assert "power on (redfish)" in said(power(powered, "status", **variables))
    # Supported requests are carried out.
    power(powered, "hard_off", **variables)
    assert server.done == ["ForceOff"]


def test_f04_brothers_nothing_is_cut_that_cannot_be_switched_on(powered, odd):
    server, variables = odd(allowed=("ForceOff", "GracefulShutdown"))
    for action in ("cycle", "reboot"):
        assert "the controller offers no way to switch the power on" in refused(
            powered, action, **variables
        )
    assert server.done == []


def test_f04_brothers_an_outer_libvirt_that_starts_it_again(powered):
    fleet = powered
    one = Domain("chassis", boots=True, uuid=uuid_of_host(fleet, "kvm1"))
    fleet.make("kvm2", one)
    fleet.run("kvm2", "virsh set-lifecycle-action chassis poweroff restart --live --config")
    text = refused(fleet, "shutdown", **outer(fleet))
    assert "has on_poweroff restart: libvirt starts it again when it shuts down" in text
    assert "reason=shutdown" not in fleet.run("kvm2", "cat /var/log/libvirt/qemu/chassis.log")
    assert changed(power(fleet, "hard_off", **outer(fleet))) == 1
    assert fleet.run("kvm2", "virsh domstate chassis").strip() == "shut off"


@pytest.mark.parametrize(
    "ways",
    [{"drops": True}, {"answers_after": 25}, {"busy": 2, "busy_looks": 1}, {"acts_after": 5}],
)
def test_f07_a_dead_host_is_fenced_whatever_came_of_the_answer(powered, odd, ways):
    server, variables = odd(**ways)
    powered.lab.command("kill", "kvm1")
    done = fence(powered, **variables)
    assert "fenced: True" in said(done) and server.done == ["ForceOff"] and server.state == "Off"
    assert powered.query(EVENTS) == [("fence", "completed", "off")]


def test_f07_a_cycle_goes_on_after_a_lost_answer(powered, odd):
    """The fake controller has no machine, so the host has its old boot; but nothing stays off."""
    server, variables = odd(drops=True)
    assert "it never went down" in refused(powered, "cycle", **variables)
    assert server.done == ["ForceOff", "On"] and server.state == "On"


def test_f07_a_lost_answer_and_a_state_that_stays(powered, odd):
    server, variables = odd(drops=True, lies=True)
    text = refused(powered, "hard_off", drover_power_timeout=4, **variables)
    assert (
        "still says on, not off" in text
        and "the answer to the request was: no whole answer" in text
    )


def test_f20_the_controllers_own_words(powered, odd):
    server, variables = odd(refuses=403)
    text = refused(powered, "hard_off", **variables)
    assert "password provided for this account must be changed" in text and "0 systems" not in text
    assert server.done == []


def test_f07_ssh_says_what_its_command_says(powered):
    before = boot_id(powered)
    # The shell interprets quotation marks in it.
    command = "sh -c 'echo no right to shut down >&2; exit 7'"
    text = refused(
        powered,
        "shutdown",
        drover_power_driver="ssh",
        drover_power_shutdown_command=command,
        drover_power_timeout=4,
    )
    assert (
        "ssh still says on, not off" in text
        and "ended with status 7: no right to shut down" in text
    )
    assert boot_id(powered) == before

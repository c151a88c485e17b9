# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of hosts by their management controllers: a request is carried out, or its failure is reported."""

from __future__ import annotations

import contextlib
import time

import pytest

from ansible_collections.drover.compute.tests.unit import ipmi_server
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.redfish_server import PASSWORD, USER, RedfishServer


@pytest.fixture
def bmc(tmp_path):
    """A function that starts a controller."""
    with contextlib.ExitStack() as servers:

        def start(**ways):
            server = RedfishServer(tmp_path, **ways)
            servers.callback(server.close)
            return server

        yield start


def ask(server, **args):
    """One call of the module."""
    given = {"driver": "redfish", "address": server.address, "user": USER, "password": PASSWORD, "ca_path": str(server.certificate)}
    result = run("_bmc_power", **{**given, "timeout": 20, **args})
    assert PASSWORD not in str(result)
    return result


def test_it_reads_and_switches(bmc):
    server = bmc()
    assert ask(server)["power_state"] == "on" and ask(server)["can"] == ["on", "off", "shutdown"]
    for wish, kind, state in (("shutdown", "GracefulShutdown", "off"), ("on", "On", "on"), ("off", "ForceOff", "off")):
        assert ask(server, request=wish)["changed"] and server.done[-1] == kind
        assert ask(server, wanted=state, deadline=time.time() + 5)["power_state"] == state
    assert ask(server, request="on", check=True)["changed"] and server.state == "Off"


NO_GRACE = ("On", "ForceOff", "ForceRestart", "PushPowerButton")


@pytest.mark.parametrize(
    "ways",
    [
        {"allowed": NO_GRACE},
        {"announced": "none", "described": NO_GRACE},
        {"announced": "empty", "described": NO_GRACE},
        {"described": NO_GRACE},
        {"allowed": NO_GRACE, "described": ("On", "ForceOff", "GracefulShutdown")},
    ],
)
def test_f04_a_clean_shutdown_never_becomes_a_cut(bmc, ways):
    server = bmc(**ways)
    assert ask(server)["can"] == ["on", "off"]
    result = ask(server, request="shutdown")
    assert result["failed"] and result["begun"] is False and "cannot do GracefulShutdown" in result["msg"]
    assert server.done == [] and ("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset") not in server.seen and server.state == "On"
    assert ask(server, request="off")["changed"] and server.done == ["ForceOff"]


@pytest.mark.parametrize(("missing", "can"), [("On", ["off", "shutdown"]), ("ForceOff", ["on", "shutdown"])])
def test_f04_brothers_on_and_off(bmc, missing, can):
    server = bmc(allowed=tuple({"On", "ForceOff", "GracefulShutdown", "PushPowerButton", "PowerCycle"} - {missing}))
    server.state = "Off" if missing == "On" else "On"
    assert ask(server)["can"] == can
    wish = "on" if missing == "On" else "off"
    assert ask(server, request=wish)["begun"] is False and server.done == []


def test_f04_a_broken_action_info_does_not_hold_back_a_fence(bmc):
    server = bmc(described=("On",), redirects={"/redfish/v1/Systems/1/ResetActionInfo": (302, "http://elsewhere/")})
    server.ways.described = ("On", "ForceOff", "GracefulShutdown")
    assert ask(server)["can"] == ["on", "off", "shutdown"] and ask(server, request="off")["changed"]


def test_f04_force_on_switches_on(bmc):
    server = bmc(allowed=("ForceOn", "ForceOff"))
    server.state = "Off"
    assert ask(server, request="on")["changed"] and server.done == ["ForceOn"]


def test_f04_a_controller_that_announces_nothing_refuses_itself(bmc):
    """What is not announced is sent as it is."""
    server = bmc(allowed=NO_GRACE, announced="empty")
    assert ask(server)["can"] == ["on", "off", "shutdown"]
    result = ask(server, request="shutdown")
    assert result["begun"] is False and "'GracefulShutdown' for the parameter ResetType is not in the list" in result["msg"]
    assert server.done == [] and server.state == "On"


@pytest.mark.parametrize("ways", [{"drops": True}, {"answers_after": 60}])
def test_f07_a_lost_or_late_answer_may_have_happened(bmc, ways):
    server = bmc(**ways)
    result = ask(server, request="off", timeout=2)
    assert result["failed"] and result["begun"] is True and server.done == ["ForceOff"]
    assert ask(server, wanted="off", deadline=time.time() + 10)["power_state"] == "off"


@pytest.mark.parametrize(("status", "retry_after"), [(503, "1"), (503, "date"), (503, ""), (429, "1"), (504, "1")])
def test_f07_busy_is_tried_again(bmc, status, retry_after):
    server = bmc(busy=1, busy_looks=1, busy_status=status, retry_after=retry_after)
    begun = time.monotonic()
    assert ask(server, request="off")["changed"] and server.done == ["ForceOff"] and server.state == "Off"
    assert time.monotonic() - begun >= 1.5, "it was asked again at once"
    server.ways.busy_looks = 1
    assert ask(server)["power_state"] == "off"


def test_f07_busy_for_longer_than_the_limit(bmc):
    server = bmc(busy=9, retry_after="3600")
    result = ask(server, request="off", timeout=3)
    assert result["begun"] is True and "asked again in 3600 s" in result["msg"] and "temporarily unavailable" in result["msg"]


def test_f07_a_lie_is_no_state(bmc):
    server = bmc(lies=True)
    assert ask(server, request="off")["changed"]
    assert ask(server, wanted="off", deadline=time.time() + 1)["power_state"] == "on"


def test_f07_it_was_so_already(bmc):
    server = bmc(allowed=("On",))
    server.state = "Off"
    assert ask(server, request="off")["changed"] and server.done == []


def test_f20_an_error_is_no_empty_list(bmc):
    server = bmc(refuses=403)
    problem = ask(server)["problem"]
    assert "The password provided for this account must be changed" in problem and "systems, set" not in problem
    assert f"Change the password of {USER} on the controller, and then drover_power_password" in problem
    result = ask(server, request="off")
    assert result["begun"] is False and "must be changed" in result["msg"] and server.done == []


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        ({"refuses": 403, "message": ("Oem.1.0.Quarantine", "The chassis is in quarantine.")}, "The chassis is in quarantine"),
        ({"refuses": 500, "message": ("Base.1.18.0.InternalError", "Database locked.")}, "Database locked"),
        ({"systems_answer": {"@Message.ExtendedInfo": [{"Message": "Discovery runs."}]}}, "it says Discovery runs"),
        ({"systems_answer": {"Members": None}}, "is no list of systems"),
        ({"systems": ()}, "its list of systems is empty"),
        ({"systems": ("a", "b")}, "it has 2 systems (a, b): set drover_power_resource_id"),
    ],
)
def test_f20_brothers_the_controllers_own_words(bmc, ways, words):
    found = ask(bmc(**ways))
    assert found["power_state"] == "unknown" and words in found["problem"]


def test_one_of_several_systems(bmc):
    server = bmc(systems=("1", "11"))
    assert ask(server, resource_id="11")["power_state"] == "on"
    assert "it has no system 2 (drover_power_resource_id); it has: 1, 11" in ask(server, resource_id="2")["problem"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_f04_a_redirected_request_stays_a_request(bmc, status):
    """Python's own client follows with a GET, whose answer 200 looks like success."""
    path = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
    server = bmc(redirects={path: (status, "/redfish/v1/Systems/1/Oem/Actions/ComputerSystem.Reset")})
    assert ask(server, request="off")["changed"] and server.done == ["ForceOff"]


def test_the_password_goes_to_no_other_address(bmc, tmp_path):
    other = bmc()
    server = bmc(redirects={"/redfish/v1/Systems": (302, f"https://{other.address}/redfish/v1/Systems")})
    problem = ask(server)["problem"]
    assert "the password is not sent to another address" in problem and other.seen == []
    server = bmc(redirects={"/redfish/v1/Systems": (308, "/redfish/v1/Systems")})
    assert "again and again" in ask(server)["problem"]


def test_wrong_password_certificate_and_nobody_there(bmc, tmp_path):
    server = bmc()
    result = run("_bmc_power", driver="redfish", address=server.address, user=USER, password="hunter2", ca_path=str(server.certificate))
    assert "401" in result["problem"] and "drover_power_password are right" in result["problem"] and "hunter2" not in str(result)
    assert "certificate is not trusted" in ask(server, ca_path="")["problem"]
    assert ask(server, ca_path="", validate_certs=False)["power_state"] == "on"
    assert "drover_power_ca_path" in ask(server, ca_path="/nonexistent")["problem"]
    server.close()
    result = ask(server, request="off", timeout=1)
    assert result["begun"] is False and "takes no connection" in result["msg"]


@pytest.mark.parametrize("form", ["[::1]:{port}", "https://[::1]:{port}", "https://[::1]:{port}/", "https://localhost:{port}"])
def test_f19_forms_of_an_address(bmc, form):
    server = bmc(address="::1" if "::1" in form else "127.0.0.1")
    assert ask(server, address=form.format(port=server.port))["power_state"] == "on"


# -- IPMI ---------------------------------------------------------------------------------------


def command(port, address="127.0.0.1:{port}", **args):
    given = {"driver": "ipmi", "address": address.format(port=port), "user": ipmi_server.USER, "password": PASSWORD, "timeout": 20}
    result = run("_bmc_power", **{**given, **args})
    assert PASSWORD not in str(result)
    return result


def test_ipmi_reads_and_switches():
    with ipmi_server.running() as (port, bmc):
        assert command(port)["power_state"] == "on"
        for wish, number, state in (("shutdown", "5", "off"), ("on", "1", "on"), ("off", "0", "off")):
            assert command(port, request=wish)["changed"] and bmc.stdout.readline().strip() == number
            assert command(port)["power_state"] == state
        result = command(port, password="hunter2")
        assert result["power_state"] == "unknown" and "user and password are right" in result["problem"] and "hunter2" not in str(result)


def test_f19_ipmi_by_ipv6():
    with ipmi_server.running(address="::1") as (port, _bmc):
        assert command(port, "[::1]:{port}")["power_state"] == "on"
        assert "takes none" in command(port, "ipmi://[::1]:{port}")["problem"]


@pytest.mark.parametrize(("mood", "words"), [("no privilege", "0xd4"), ("no soft shutdown", "0xcc")])
def test_f04_ipmi_says_what_it_does_not_do(mood, words):
    with ipmi_server.running(mood) as (port, _bmc):
        result = command(port, request="shutdown")
        assert result["failed"] and result["begun"] is False and words in result["msg"]
        assert command(port)["power_state"] == "on"


def test_f07_ipmi_that_is_busy_is_tried_again():
    with ipmi_server.running("busy") as (port, bmc):
        assert command(port, request="off")["changed"] and bmc.stdout.readline().strip() == "0"


def test_f07_ipmi_whose_answer_is_lost_may_have_done_it():
    with ipmi_server.running("drops") as (port, bmc):
        result = command(port, request="off")
        assert result["failed"] and result["begun"] is True and bmc.stdout.readline().strip() == "0"
        assert command(port, wanted="off", deadline=time.time() + 30)["power_state"] == "off"

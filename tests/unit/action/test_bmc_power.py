# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of hosts by their management controllers: a request is carried out, or its failure is
reported.
"""

from __future__ import annotations

import contextlib
import time
import uuid

import pytest

from ansible_collections.drover.compute.tests import parts
from ansible_collections.drover.compute.tests.unit import ipmi_server
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.redfish_server import (
    PASSWORD,
    USER,
    RedfishServer,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


@pytest.fixture
def bmc(tmp_path):
    """Return a function that starts a controller."""
    with contextlib.ExitStack() as servers:

        def start(**ways):
            server = RedfishServer(tmp_path, **ways)
            servers.callback(server.close)
            return server

        yield start


def ask(server, variables=None, **args):
    """Call the module once."""
    arguments = {
        "driver": "redfish",
        "address": server.address,
        "user": USER,
        "password": PASSWORD,
        "ca_path": str(server.certificate),
    }
    result = run("_bmc_power", variables, **{**arguments, "timeout": 20, **args})
    assert PASSWORD not in str(result)
    return result


def test_it_reads_and_switches(bmc):
    server = bmc()
    assert ask(server)["power_state"] == "on" and ask(server)["can"] == ["on", "off", "shutdown"]
    for wish, kind, state in (
        ("shutdown", "GracefulShutdown", "off"),
        ("on", "On", "on"),
        ("off", "ForceOff", "off"),
    ):
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
    assert (
        result["failed"]
        and result["begun"] is False
        and "cannot do GracefulShutdown" in result["msg"]
    )
    assert (
        server.done == []
        and ("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset") not in server.seen
        and server.state == "On"
    )
    assert ask(server, request="off")["changed"] and server.done == ["ForceOff"]


@pytest.mark.parametrize(
    ("missing", "can"), [("On", ["off", "shutdown"]), ("ForceOff", ["on", "shutdown"])]
)
def test_f04_brothers_on_and_off(bmc, missing, can):
    server = bmc(
        allowed=tuple(
            {"On", "ForceOff", "GracefulShutdown", "PushPowerButton", "PowerCycle"} - {missing}
        )
    )
    server.state = "Off" if missing == "On" else "On"
    assert ask(server)["can"] == can
    wish = "on" if missing == "On" else "off"
    assert ask(server, request=wish)["begun"] is False and server.done == []


def test_f04_a_broken_action_info_does_not_hold_back_a_fence(bmc):
    server = bmc(
        described=("On",),
        redirects={"/redfish/v1/Systems/1/ResetActionInfo": (302, "http://elsewhere/")},
    )
    server.ways.described = ("On", "ForceOff", "GracefulShutdown")
    assert ask(server)["can"] == ["on", "off", "shutdown"] and ask(server, request="off")["changed"]


def test_f04_force_on_switches_on(bmc):
    server = bmc(allowed=("ForceOn", "ForceOff"))
    server.state = "Off"
    assert ask(server, request="on")["changed"] and server.done == ["ForceOn"]


def test_f04_a_controller_that_announces_nothing_refuses_itself(bmc):
    """A request that is not announced is sent unchanged."""
    server = bmc(allowed=NO_GRACE, announced="empty")
    assert ask(server)["can"] == ["on", "off", "shutdown"]
    result = ask(server, request="shutdown")
    assert (
        result["begun"] is False
        and "'GracefulShutdown' for the parameter ResetType is not in the list" in result["msg"]
    )
    assert server.done == [] and server.state == "On"


@pytest.mark.parametrize("ways", [{"drops": True}, {"answers_after": 60}])
def test_f07_a_lost_or_late_answer_may_have_happened(bmc, ways):
    server = bmc(**ways)
    result = ask(server, request="off", timeout=2)
    assert result["failed"] and result["begun"] is True and server.done == ["ForceOff"]
    assert ask(server, wanted="off", deadline=time.time() + 10)["power_state"] == "off"


@pytest.mark.parametrize(
    ("status", "retry_after"), [(503, "1"), (503, "date"), (503, ""), (429, "1"), (504, "1")]
)
def test_f07_busy_is_tried_again(bmc, status, retry_after):
    server = bmc(busy=1, busy_looks=1, busy_status=status, retry_after=retry_after)
    begun = time.monotonic()
    assert (
        ask(server, request="off")["changed"]
        and server.done == ["ForceOff"]
        and server.state == "Off"
    )
    assert time.monotonic() - begun >= 1.5, "it was asked again at once"
    server.ways.busy_looks = 1
    assert ask(server)["power_state"] == "off"


def test_f07_busy_for_longer_than_the_limit(bmc):
    server = bmc(busy=9, retry_after="3600")
    result = ask(server, request="off", timeout=3)
    assert (
        result["begun"] is True
        and "asked again in 3600 s" in result["msg"]
        and "temporarily unavailable" in result["msg"]
    )


def test_f07_a_lie_is_no_state(bmc):
    server = bmc(lies=True)
    assert ask(server, request="off")["changed"]
    assert ask(server, wanted="off", deadline=time.time() + 1)["power_state"] == "on"


def test_f07_it_was_so_already(bmc):
    server = bmc(allowed=("On",))
    server.state = "Off"
    assert ask(server, request="off")["changed"] is False and server.done == []


def test_f07_brothers_off_is_sent_to_a_controller_that_says_off(bmc):
    """The reported state may be old, and a fence relies on it."""
    server = bmc()
    server.state = "Off"
    assert ask(server, request="off")["changed"] is False and server.done == ["ForceOff"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_f07_brothers_an_answer_that_drips_has_a_limit(bmc, method):
    server = bmc(drips=(method,))
    begun = time.monotonic()
    result = ask(server, request="off", timeout=2)
    assert result["failed"] and "no answer within 2 s" in result["msg"]
    assert (result["begun"], server.done) == (
        (True, ["ForceOff"]) if method == "POST" else (False, [])
    )
    assert time.monotonic() - begun < 30
    if method == "GET":
        assert "no answer within 2 s" in ask(server, timeout=2)["problem"]


def test_f04_brothers_a_list_of_reset_types_that_is_busy(bmc):
    server = bmc(announced="none", described=NO_GRACE, busy_info=1)
    result = ask(server, request="shutdown")
    assert (
        result["begun"] is False
        and "cannot do GracefulShutdown" in result["msg"]
        and server.done == []
    )
    server.ways.busy_info, server.ways.retry_after = 99, "3600"
    assert (
        ask(server)["power_state"] == "on"
        and ask(server, request="off")["changed"]
        and server.done == ["ForceOff"]
    )


@pytest.mark.parametrize(
    "lie",
    [
        {"@odata.id": "/redfish/v1/Systems/2"},
        {
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": "/redfish/v1/Systems/2/Actions/ComputerSystem.Reset"
                }
            }
        },
    ],
)
def test_f07_brothers_a_controller_that_answers_with_another_system(bmc, lie):
    one = "/redfish/v1/Systems/1"
    actions = {"#ComputerSystem.Reset": {"target": f"{one}/Actions/ComputerSystem.Reset"}}
    server = bmc(
        systems=("1", "2"),
        answers={one: {"@odata.id": one, "PowerState": "Off", "Actions": actions, **lie}},
    )
    found = ask(server, resource_id="1")
    assert found["power_state"] == "unknown" and "/redfish/v1/Systems/2" in found["problem"], found
    result = ask(server, resource_id="1", request="off")
    assert result["begun"] is False and "another system" in result["msg"] and server.done == []
    assert ask(server, resource_id="2", request="off")["changed"]


DEEP = b"[" * 200000
ODD_LINKS = [
    "https://[bad",
    "//[",
    "/redfish/v1/Syst\u00e8mes",
    "/a b\r\nX: y",
    "https://\u212a\u2100/",
    "",
    7,
]


@pytest.mark.parametrize(
    "answers",
    [
        *({path: DEEP} for path in ("/redfish/v1", "/redfish/v1/Systems", "/redfish/v1/Systems/1")),
        *({"/redfish/v1": {"Systems": {"@odata.id": link}}} for link in ODD_LINKS),
        *({"/redfish/v1/Systems": {"Members": [{"@odata.id": link}]}} for link in ODD_LINKS),
        *(
            {
                "/redfish/v1/Systems/1": {
                    "PowerState": "On",
                    "Actions": {"#ComputerSystem.Reset": {"target": link}},
                }
            }
            for link in ODD_LINKS
        ),
        {"/redfish/v1/Systems": {"Members": [[]]}},
        {"/redfish/v1/Systems/1": [{"PowerState": "Off"}]},
        {
            "/redfish/v1/Systems/1": {
                "PowerState": ["Off"],
                "Actions": {"#ComputerSystem.Reset": "x"},
            }
        },
        {"/redfish/v1/Systems/1": b""},
        {"/redfish/v1/Systems/1": b"\xff\xfe{"},
    ],
)
def test_f20_brothers_answers_of_a_wrong_form_are_a_sentence(bmc, answers):
    """There is no traceback, and no request without facts about the system."""
    server = bmc(answers=answers)
    found = ask(server)
    assert not found.get("failed") and found["power_state"] in ("unknown", "on"), found
    result = ask(server, request="off")
    assert result["failed"] and result["begun"] is False and result["msg"] and server.done == [], (
        result
    )


@pytest.mark.parametrize("where", ["https://[bad", "/\u00e9", "https://[fd00::1/redfish"])
def test_f20_brothers_redirects_of_a_wrong_form(bmc, where):
    server = bmc(redirects={"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset": (307, where)})
    result = ask(server, request="off")
    assert result["failed"] and result["begun"] is False and server.done == [], result


@pytest.mark.parametrize("path", ["/redfish/v1", "/redfish/v1/Systems", "/redfish/v1/Systems/1"])
def test_f20_brothers_an_error_with_status_200(bmc, path):
    words = {
        "error": {
            "code": "Base.1.18.0.GeneralError",
            "@Message.ExtendedInfo": [{"Message": "The inventory is being rebuilt."}],
        }
    }
    more = {"Members": []} if path.endswith("Systems") else {}
    server = bmc(answers={path: {**words, **more}})
    answer = ask(server)
    assert (
        answer["power_state"] == "unknown" and "The inventory is being rebuilt" in answer["problem"]
    ), answer


def test_f20_an_error_is_no_empty_list(bmc):
    server = bmc(refuses=403)
    problem = ask(server)["problem"]
    assert (
        "The password provided for this account must be changed" in problem
        and "systems, set" not in problem
    )
    assert (
        f"Change the password of {USER} on the controller, and then drover_power_password"
        in problem
    )
    result = ask(server, request="off")
    assert result["begun"] is False and "must be changed" in result["msg"] and server.done == []


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        (
            {"refuses": 403, "message": ("Oem.1.0.Quarantine", "The chassis is in quarantine.")},
            "The chassis is in quarantine",
        ),
        (
            {"refuses": 500, "message": ("Base.1.18.0.InternalError", "Database locked.")},
            "Database locked",
        ),
        (
            {"systems_answer": {"@Message.ExtendedInfo": [{"Message": "Discovery runs."}]}},
            "it says Discovery runs",
        ),
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
    assert (
        "it has no system 2 (drover_power_resource_id); it has: 1, 11"
        in ask(server, resource_id="2")["problem"]
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_f04_a_redirected_request_stays_a_request(bmc, status):
    """Python's own client follows with a GET, and its answer 200 looks like success."""
    path = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
    server = bmc(
        redirects={path: (status, "/redfish/v1/Systems/1/Oem/Actions/ComputerSystem.Reset")}
    )
    assert ask(server, request="off")["changed"] and server.done == ["ForceOff"]


def test_the_password_goes_to_no_other_address(bmc, tmp_path):
    other = bmc()
    server = bmc(
        redirects={"/redfish/v1/Systems": (302, f"https://{other.address}/redfish/v1/Systems")}
    )
    problem = ask(server)["problem"]
    assert "the password is not sent to another address" in problem and other.seen == []
    server = bmc(redirects={"/redfish/v1/Systems": (308, "/redfish/v1/Systems")})
    assert "again and again" in ask(server)["problem"]


def test_wrong_password_certificate_and_nobody_there(bmc, tmp_path):
    server = bmc()
    result = run(
        "_bmc_power",
        driver="redfish",
        address=server.address,
        user=USER,
        password="hunter2",
        ca_path=str(server.certificate),
    )
    assert (
        "401" in result["problem"]
        and "drover_power_password are right" in result["problem"]
        and "hunter2" not in str(result)
    )
    assert "certificate is not trusted" in ask(server, ca_path="")["problem"]
    assert ask(server, ca_path="", validate_certs=False)["power_state"] == "on"
    assert "drover_power_ca_path" in ask(server, ca_path="/nonexistent")["problem"]
    server.close()
    result = ask(server, request="off", timeout=1)
    assert result["begun"] is False and "takes no connection" in result["msg"]


@pytest.mark.parametrize(
    "form",
    ["[::1]:{port}", "https://[::1]:{port}", "https://[::1]:{port}/", "https://localhost:{port}"],
)
def test_f19_forms_of_an_address(bmc, form):
    if "::1" in form:
        parts.require_ipv6()
    server = bmc(address="::1" if "::1" in form else "127.0.0.1")
    assert ask(server, address=form.format(port=server.port))["power_state"] == "on"


# -- IPMI ---------------------------------------------------------------------------------------


def command(port, address="127.0.0.1:{port}", **args):
    arguments = {
        "driver": "ipmi",
        "address": address.format(port=port),
        "user": ipmi_server.USER,
        "password": PASSWORD,
        "timeout": 20,
    }
    result = run("_bmc_power", **{**arguments, **args})
    assert PASSWORD not in str(result)
    return result


def test_ipmi_reads_and_switches():
    with ipmi_server.running() as (port, bmc):
        assert command(port)["power_state"] == "on"
        for wish, number, state in (
            ("shutdown", "5", "off"),
            ("on", "1", "on"),
            ("off", "0", "off"),
        ):
            assert (
                command(port, request=wish)["changed"] and bmc.stdout.readline().strip() == number
            )
            assert command(port)["power_state"] == state
        result = command(port, password="hunter2")
        assert (
            result["power_state"] == "unknown"
            and "user and password are right" in result["problem"]
            and "hunter2" not in str(result)
        )


def test_f19_ipmi_by_ipv6():
    parts.require_ipv6()
    with ipmi_server.running(address="::1") as (port, _bmc):
        assert command(port, "[::1]:{port}")["power_state"] == "on"
        assert "takes none" in command(port, "ipmi://[::1]:{port}")["problem"]


@pytest.mark.parametrize(
    ("mood", "words"), [("no privilege", "0xd4"), ("no soft shutdown", "0xcc")]
)
def test_f04_ipmi_says_what_it_does_not_do(mood, words):
    with ipmi_server.running(mood) as (port, _bmc):
        result = command(port, request="shutdown")
        assert result["failed"] and result["begun"] is False and words in result["msg"]
        assert command(port)["power_state"] == "on"


def test_f07_ipmi_that_is_busy_is_tried_again():
    with ipmi_server.running("busy") as (port, bmc):
        assert command(port, request="off")["changed"] and bmc.stdout.readline().strip() == "0"


def test_f07_brothers_ipmi_that_had_the_request_before():
    """Completion code 0xCF: the packet was sent again because its answer was lost."""
    with ipmi_server.running("duplicate") as (port, bmc):
        result = command(port, request="off")
        assert result["failed"] and result["begun"] is True and bmc.stdout.readline().strip() == "0"


def test_f07_ipmi_whose_answer_is_lost_may_have_done_it():
    with ipmi_server.running("drops") as (port, bmc):
        result = command(port, request="off")
        assert result["failed"] and result["begun"] is True and bmc.stdout.readline().strip() == "0"
        assert command(port, wanted="off", deadline=time.time() + 30)["power_state"] == "off"


FIRMWARE, OTHER = "4c4c4544-0038-3010-8052-b4c04f4d4d32", "0c0ffee0-1111-4222-8333-944455556666"


@pytest.fixture
def known(prepared_url):
    """Record kvm1 and kvm2 as discoveries find them. The libvirt of kvm1 has a uuid in its
    settings."""
    fleets.discover(prepared_url, fleets.host("kvm1"), fleets.host("kvm2"))
    fleets.identify(
        prepared_url,
        "kvm1",
        host_uuid=uuid_of("kvm1"),
        system_uuid=uuid_of("kvm1"),
        firmware_uuid=FIRMWARE,
    )
    fleets.identify(prepared_url, "kvm2", host_uuid=OTHER, system_uuid=OTHER, firmware_uuid=OTHER)
    return prepared_url


def ask_for(url, server, host="kvm1", **args):
    return ask(server, variables={"drover_store_url": url}, host=host, **args)


def swapped(text):
    return str(uuid.UUID(bytes_le=uuid.UUID(text).bytes))


@pytest.mark.parametrize(
    "told",
    [
        FIRMWARE,
        FIRMWARE.upper(),
        swapped(FIRMWARE),
        uuid_of("kvm1"),
        None,
        "",
        "unknown",
        7,
        "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
    ],
)
def test_b2_the_controller_of_the_host(bmc, known, told):
    server = bmc(uuid=told)
    assert ask_for(known, server)["power_state"] == "on"
    assert ask_for(known, server, request="off")["changed"] and server.done == ["ForceOff"]


@pytest.mark.parametrize("told", [OTHER, uuid_of("a machine that the store does not have")])
@pytest.mark.parametrize("state", ["On", "Off"])
def test_b2_the_controller_of_another_machine_is_not_this_host(bmc, known, told, state):
    server = bmc(uuid=told)
    server.state = state
    answer = ask_for(known, server, wanted="off", deadline=0)
    assert answer["power_state"] == "unknown"
    for part in (
        "another machine than kvm1",
        told,
        FIRMWARE,
        "drover_power_address",
        "drover_power_uuid",
        "host_replace -e drover_host=kvm1",
    ):
        assert part in answer["problem"], answer
    assert ("kvm2" in answer["problem"]) == (told == OTHER)
    for wish in ("off", "shutdown", "on"):
        refused = ask_for(known, server, request=wish)
        assert (
            refused["failed"] and refused["begun"] is False and "another machine" in refused["msg"]
        )
    assert server.done == [] and server.state == state


def test_b2_a_controller_with_a_uuid_of_its_own_is_named_in_the_inventory(bmc, known):
    server = bmc(uuid=OTHER)
    assert ask_for(known, server, uuid=OTHER.upper())["power_state"] == "on"
    server.ways.uuid = FIRMWARE
    found = ask_for(known, server, uuid=OTHER)
    assert found["power_state"] == "unknown" and "drover_power_uuid is" in found["problem"]


def test_b2_a_host_that_was_never_read_has_nothing_to_compare(bmc, known):
    assert ask_for(known, bmc(uuid=OTHER), host="kvm9")["power_state"] == "on"


def ipmi_for(url, port, **args):
    arguments = {
        "driver": "ipmi",
        "address": f"127.0.0.1:{port}",
        "user": ipmi_server.USER,
        "password": PASSWORD,
        "timeout": 20,
        "host": "kvm1",
    }
    return run("_bmc_power", {"drover_store_url": url}, **{**arguments, **args})


@pytest.mark.parametrize("wire", ["bytes", "bytes_le", "backwards", "bytes_le backwards", "none"])
def test_b2_ipmi_writes_the_uuid_in_any_order(known, wire):
    data = uuid.UUID(FIRMWARE).bytes_le if "le" in wire else uuid.UUID(FIRMWARE).bytes
    data = b"" if wire == "none" else data[::-1] if "backwards" in wire else data
    with ipmi_server.running(guid=data.hex()) as (port, _bmc):
        assert ipmi_for(known, port)["power_state"] == "on"
        assert ipmi_for(known, port, request="off")["changed"]


def test_b2_ipmi_of_another_machine(known):
    with ipmi_server.running(guid=uuid.UUID(OTHER).bytes.hex()) as (port, bmc):
        answer = ipmi_for(known, port)
        assert (
            answer["power_state"] == "unknown"
            and "another machine than kvm1, kvm2" in answer["problem"]
        )
        refused = ipmi_for(known, port, request="off")
        assert refused["failed"] and refused["begun"] is False
        assert ipmi_for(known, port, host="kvm2")["power_state"] == "on"


def test_b2_a_domain_of_an_outer_libvirt_is_compared_too(known):
    for told, words in ((FIRMWARE, ""), ("", ""), (OTHER, "another machine than kvm1, kvm2")):
        problem = run("_power_machine", {"drover_store_url": known}, host="kvm1", reported=told)[
            "problem"
        ]
        assert words in problem and bool(words) == bool(problem)
    assert (
        run("_power_machine", {"drover_store_url": known}, host="kvm1", reported=OTHER, uuid=OTHER)[
            "problem"
        ]
        == ""
    )

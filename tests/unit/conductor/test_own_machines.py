# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller and the store are guests of the fleet: they are found, and no run stops a
machine that it needs."""

from __future__ import annotations

import os
import time
import types

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import own_known
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation import Evacuation
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.evacuation_request import (
    EvacuationRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.host_moves import HostMoves
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_devices import (
    DeviceRequest,
    InstanceDevices,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_operations import (
    InstanceOperations,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.instance_snapshots import (
    InstanceSnapshots,
    SnapshotRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.own_machines import (
    CONTROLLER,
    STORE,
    KnownMachines,
    OwnMachine,
    OwnMachines,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    DrainQuestion,
    plan_home,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.resize import (
    ResizeRequest,
    ResizeRun,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import (
    MoveSettings,
    ResizeSettings,
)
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import host_answer
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import (
    MigrationLimits,
    NewSize,
)
from ansible_collections.drover.compute.plugins.plugin_utils._report.attention import attention
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data, record
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

HERE = {
    "uuids": ["5b0a3c1e-0000-4000-8000-0000000000aa"],
    "firmware": None,
    "machine_id": "0123456789abcdef0123456789abcdef",
    "read": True,
    "verdict": None,
}
POOL = {"name": "nfs", "path": "/nfs", "shared_id": "nfs:a:/x"}


def guest(name, *addresses, **more):
    disk = {"target": "vda", "device": "disk", "type": "file", "source": f"/nfs/{name}.qcow2"}
    nic = {
        "type": "bridge",
        "mac": f"52:54:00:00:00:{addresses[0][-2:]}" if addresses else None,
        "addresses": list(addresses),
    }
    return domain(name, disks=[disk], interfaces=[nic] if addresses else [], **more)


@pytest.fixture
def url(prepared_url):
    """Make three hosts; pg on kvm1 has the store's address, ctl on kvm2 may be the controller."""
    nodes = [
        host(
            "kvm1",
            guest("pg", "192.0.2.10"),
            guest("web"),
            pools=[POOL],
            addresses=["198.51.100.1", "10.0.0.1"],
        ),
        host(
            "kvm2", guest("ctl", "192.0.2.11"), pools=[POOL], addresses=["198.51.100.2", "10.0.0.1"]
        ),
        host("kvm3", pools=[POOL], addresses=["198.51.100.3", "10.0.0.1"]),
    ]
    reports = node_data.reports(nodes, "unused", {})
    for number, (_name, (report,)) in enumerate(sorted(reports.items()), start=1):
        report["columns"]["facts"].update(
            {
                "host_uuid": f"5b0a3c1e-0000-4000-8000-00000000000{number}",
                "machine_id": f"{number}" * 32,
                "addresses": report["columns"]["facts"]["addresses"],
            }
        )
    with Store.open(prepared_url).write() as connection:
        record.record(connection, reports, time.time())
    return prepared_url


def own(url, **known):
    return OwnMachines(Store.open(url), lambda: KnownMachines(**known))


def machine(**more):
    return {**HERE, **more}


#: case -> (known facts, machines that are found).
FOUND = {
    "a controller outside": ({"machine": machine()}, []),
    "a hypervisor itself": (
        {"machine": machine(uuids=["5b0a3c1e-0000-4000-8000-000000000002"])},
        [OwnMachine("the controller and its store", "kvm2")],
    ),
    "by its machine id, as it may not read its firmware": (
        {"machine": machine(uuids=[], machine_id="2" * 32, read=False)},
        [OwnMachine("the controller and its store", "kvm2")],
    ),
    "a copy of an image has the same machine id": ({"machine": machine(machine_id="2" * 32)}, []),
    "a guest": (
        {"machine": machine(uuids=[uuid_of("ctl")])},
        [OwnMachine("the controller and its store", "kvm2", uuid_of("ctl"), "ctl")],
    ),
    "its store is a guest": (
        {"machine": machine(), "addresses": frozenset({"192.0.2.10"})},
        [OwnMachine(STORE, "kvm1", uuid_of("pg"), "pg")],
    ),
    "its store is on a hypervisor": (
        {"machine": machine(), "addresses": frozenset({"198.51.100.3"})},
        [OwnMachine(STORE, "kvm3")],
    ),
    "an address that all hosts have tells nothing": (
        {"machine": machine(), "addresses": frozenset({"10.0.0.1"})},
        [],
    ),
    "an address of some hosts, as a floating one that moved between two looks": (
        {"machine": machine(), "addresses": frozenset({"198.51.100.3", "198.51.100.2"})},
        [OwnMachine(f"perhaps {STORE}", "kvm2"), OwnMachine(f"perhaps {STORE}", "kvm3")],
    ),
    "two servers of one store": (
        {"machine": machine(), "addresses": frozenset({"192.0.2.10", "192.0.2.11"})},
        sorted(
            [
                OwnMachine(f"perhaps {STORE}", "kvm1", uuid_of("pg"), "pg"),
                OwnMachine(f"perhaps {STORE}", "kvm2", uuid_of("ctl"), "ctl"),
            ],
            key=lambda each: each.uuid,
        ),
    ),
    "it is said that it is not in this fleet": (
        {"machine": machine(), "addresses": frozenset({"192.0.2.10"}), "said": {STORE: "none"}},
        [],
    ),
    "a guest whose own libvirt has another uuid": (
        {"machine": machine(firmware=uuid_of("ctl"))},
        [OwnMachine("the controller and its store", "kvm2", uuid_of("ctl"), "ctl")],
    ),
    "a guest whose user may not read its firmware": (
        {"machine": machine(uuids=[], read=False), "macs": frozenset({"52:54:00:00:00:11"})},
        [OwnMachine("the controller and its store", "kvm2", uuid_of("ctl"), "ctl")],
    ),
    "a firmware that was read is believed more than a MAC address": (
        {"machine": machine(), "macs": frozenset({"52:54:00:00:00:11"})},
        [],
    ),
    "both, apart": (
        {"machine": machine(uuids=[uuid_of("ctl")]), "addresses": frozenset({"192.0.2.10"})},
        [
            OwnMachine(CONTROLLER, "kvm2", uuid_of("ctl"), "ctl"),
            OwnMachine(STORE, "kvm1", uuid_of("pg"), "pg"),
        ],
    ),
    "as the variables say": (
        {
            "machine": machine(),
            "addresses": frozenset(),
            "said": {CONTROLLER: "ctl", STORE: "kvm3"},
        },
        [OwnMachine(CONTROLLER, "kvm2", uuid_of("ctl"), "ctl"), OwnMachine(STORE, "kvm3")],
    ),
    "nothing is known": ({}, []),
}


@pytest.mark.parametrize("case", FOUND)
def test_issue_44_the_controller_knows_itself_and_its_store(url, case):
    known, found = FOUND[case]
    assert own(url, **known).read() == found


def test_issue_44_a_wrong_variable_is_refused(url):
    with pytest.raises(
        DroverError,
        match="drover_controller is kvm9, but the store knows no host and no instance of that name",
    ):
        own(url, said={CONTROLLER: "kvm9"}).read()


def test_issue_44_a_guest_that_has_moved_is_found_where_it_is(url):
    own_machines = own(url, machine=machine(uuids=[uuid_of("ctl")]))
    assert own_machines.read()[0].host == "kvm2"
    fleets.discover(
        url, host("kvm2", pools=[POOL]), host("kvm3", guest("ctl"), pools=[POOL]), now=time.time()
    )
    assert own_machines.read()[0].host == "kvm3"


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (None, None),
        ("", None),
        ("127.0.0.1", None),
        ("::1", None),
        ("192.0.2.10", frozenset({"192.0.2.10"})),
        ("nowhere.invalid", frozenset()),
    ],
)
def test_issue_44_the_address_of_the_store(server, expected):
    assert own_known.addresses(server) == expected


def test_issue_44_the_server_of_a_url(monkeypatch):
    servers = {
        "sqlite:////srv/store.db": None,
        "postgresql://drover@db.example.com/drover": "db.example.com",
        "postgresql:///drover?host=/run/postgresql": None,
        "postgresql:///drover?host=192.0.2.10": "192.0.2.10",
        "postgresql:///drover?host=pg1:5432&host=pg2:5433": "pg1,pg2",
        "postgresql:///drover?host=pg1,pg2,/run/postgresql": "pg1,pg2",
        "postgresql:///drover?host=fd00::20": "fd00::20",
        "postgresql://db.example.com/drover?hostaddr=192.0.2.10": "192.0.2.10",
        "postgresql:///drover": None,
    }
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGHOSTADDR", raising=False)
    assert {url: Store.open(url).server for url in servers} == servers
    monkeypatch.setenv("PGHOST", "pg1")
    assert [
        Store.open(url).server for url in ("postgresql:///drover", "sqlite:////srv/store.db")
    ] == ["pg1", None]


def test_issue_44_several_servers_of_which_one_has_no_address():
    assert own_known.addresses("nowhere.invalid,192.0.2.10") == frozenset({"192.0.2.10"})


def test_issue_44_the_network_cards_of_the_controller(tmp_path):
    for name, address, is_card in (
        ("eth0", "52:54:00:AA:00:01", True),
        ("veth1", "52:54:00:aa:00:02", False),
        ("ib0", "00:00:00:00:00:00", True),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "address").write_text(f"{address}\n")
        if is_card:
            (tmp_path / name / "device").mkdir()
    assert own_known.macs(str(tmp_path)) == {"52:54:00:aa:00:01"}


def test_issue_44_each_machine_that_may_be_it_counts_as_it(url):
    own_machines = own(
        url, machine=machine(), addresses=frozenset({"198.51.100.2", "198.51.100.3"})
    )
    for name in ("kvm2", "kvm3"):
        with pytest.raises(
            DroverError,
            match=(
                f"{name}: reboot is refused, because it is perhaps the database"
                " server.*drover_store_machine=NAME"
            ),
        ):
            own_machines.refuse_power(name, "reboot is refused")
    own_machines.refuse_power("kvm1", "reboot is refused")
    assert (
        own_machines.sentences()[-1]
        == "Several are like that machine. Say which it is: -e drover_store_machine=NAME, or none."
    )


class Hosts:
    """A port that allows no call of a hypervisor."""

    def names(self):
        return ["kvm1", "kvm2", "kvm3"]

    def variables(self, name):
        return {}

    def hand(self, name, limit=None):
        return types.SimpleNamespace()


@pytest.fixture
def ports(url):
    """The store is the guest pg on kvm1."""
    store = Store.open(url)
    found = own(url, machine=machine(), addresses=frozenset({"192.0.2.10"}))
    return Ports(
        store, Hosts(), Leasing(store, LeaseHolder(os.getpid()), str), str, time, own=found
    )


OPTIONS = {"timeout": 1, "force": True, "hard": True, "keep_disks": False}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("stopped", "It is not stopped"),
        ("rebooted", "It is not rebooted"),
        ("absent", "It is not removed"),
    ],
)
def test_issue_44_a_run_does_not_stop_what_it_needs(ports, state, words):
    with pytest.raises(
        DroverError,
        match=(
            f"Instance pg: {words}, because it is the database server of the store, which this run"
            " needs"
        ),
    ):
        InstanceOperations(ports).run(["web", "pg"], state, OPTIONS)


def test_issue_44_a_run_does_not_revert_what_it_needs(ports):
    _outcomes, _differences, failed = InstanceSnapshots(
        ports, SnapshotRequest("reverted", "before", timeout=1)
    ).run(["pg"])
    assert (
        "Instance pg: It is not reverted, because it is the database server of the store"
        in failed[0]
    )


@pytest.mark.parametrize("kind", ["disk", "interface"])
def test_issue_44_a_run_takes_no_device_from_what_it_needs(ports, kind):
    request = DeviceRequest("pg", kind, {"target": "vdb"}, present=False, timeout=1)
    with pytest.raises(
        DroverError,
        match="Instance pg: Nothing is detached, because it is the database server of the store",
    ):
        InstanceDevices(ports, request).run()


def test_issue_44_a_run_does_not_resize_what_it_needs(ports):
    request = ResizeRequest(
        instances=["pg"],
        size=NewSize(sizes={"vcpus": 2}),
        settings=ResizeSettings(Policy.from_mapping({})),
    )
    with pytest.raises(
        DroverError,
        match="Instance pg: It is not resized, because it is the database server of the store",
    ):
        ResizeRun(ports, request).run()


def test_issue_44_a_run_does_not_move_cold_what_it_needs(ports):
    settings = MoveSettings(MigrationLimits(per_source=1), {}, 60, 60)
    move = {
        "uuid": uuid_of("pg"),
        "name": "pg",
        "from_host": "kvm1",
        "host": "kvm2",
        "node": "kvm2",
        "live": False,
    }
    with pytest.raises(
        DroverError,
        match="Instance pg: It is not moved, because it is the database server of the store",
    ):
        HostMoves(ports, "kvm1", settings).carry_out([move])


@pytest.mark.parametrize("at_limit", ["shutdown", "pause", "abort", None])
@pytest.mark.parametrize("whose", ["of the task", "of its policy"])
def test_issue_44_a_live_move_that_takes_too_long_does_not_stop_what_the_run_needs(
    ports, at_limit, whose
):
    options = {"on_timeout": at_limit} if at_limit else {}
    sent = []
    hand = types.SimpleNamespace(
        read=lambda module, args: {"names": [], "moves": []},
        act=lambda module, args: (
            sent.append(args) or certainty.judge({"moves": [], "changed": False})
        ),
    )
    moves = HostMoves(
        ports,
        "kvm1",
        MoveSettings(MigrationLimits(per_source=1), options if whose == "of the task" else {}),
        hand,
    )
    own_policy = {} if whose == "of the task" else options
    move = {
        "from_host": "kvm1",
        "from_node": "kvm1",
        "host": "kvm2",
        "node": "kvm2",
        "live": True,
        "migration": own_policy,
    }
    moves.check([{**move, "uuid": uuid_of(name), "name": name} for name in ("pg", "web")])
    pg, web = sent[0]["start"]
    assert web.get("on_timeout") == at_limit, "the guest of no run is moved as its options say"
    assert pg.get("on_timeout") == (at_limit and "abort")


def test_issue_44_in_a_drain_it_is_moved_live_and_last_whatever_its_policy(url, ports):
    """By its policy a drain shuts it down, first of all."""
    fleets.discover(
        url,
        host(
            "kvm1",
            guest("pg", "192.0.2.10", metadata={"on_drain": "shutdown", "priority": "100"}),
            guest("web"),
            pools=[POOL],
        ),
        now=time.time(),
    )
    question = DrainQuestion(Policy.from_mapping({}), MigrationLimits(per_source=1))
    with ports.store.read() as connection:
        before = question.plan(connection, ["kvm1"])
        own_question = DrainQuestion(
            Policy.from_mapping({}), MigrationLimits(per_source=1), own=ports.own.guests()
        )
        plan = own_question.plan(connection, ["kvm1"])
    assert [each["name"] for each in before["shutdowns"]] == ["pg"], "without it the policy holds"
    assert [(each["name"], each["live"]) for each in plan["moves"]] == [
        ("web", True),
        ("pg", True),
    ] and plan["shutdowns"] == []
    assert (
        "pg is the database server of the store: it is moved live and last, and never stopped."
        in plan["lines"]
    )


def test_issue_44_on_its_way_home_it_is_moved_live_whatever_its_policy(url, ports):
    pg = guest("pg", "192.0.2.10", metadata={"on_drain": "shutdown"})
    fleets.discover(url, host("kvm1", pg, pools=[POOL]), now=time.time())
    homes, policy = {uuid_of("pg"): ("kvm2", "kvm2")}, Policy.from_mapping({})
    with ports.store.read() as connection:
        assert plan_home(connection, homes, policy, None, 0, {})["moves"] == [], (
            "without it the policy holds"
        )
        plan = plan_home(connection, homes, policy, None, 0, ports.own.guests())
    assert [(each["name"], each["live"]) for each in plan["moves"]] == [("pg", True)], plan


def test_issue_44_in_a_drain_it_stays_where_it_cannot_move_live(url, ports):
    off = guest("pg", "192.0.2.10", state="shutoff")
    fleets.discover(url, host("kvm1", off, guest("web"), pools=[POOL]), now=time.time())
    question = DrainQuestion(
        Policy.from_mapping({}), MigrationLimits(per_source=1), own=ports.own.guests()
    )
    with ports.store.read() as connection:
        plan = question.plan(connection, ["kvm1"])
    assert [each["name"] for each in plan["unmovable"]] == ["pg"] and [
        each["name"] for each in plan["moves"]
    ] == ["web"]
    assert plan["unmovable"][0]["keep_running"], (
        "drover_unmovable=shutdown is refused for it, before anything is done"
    )


def test_issue_44_the_power_of_its_host_is_not_taken(url, ports):
    with pytest.raises(
        DroverError,
        match=(
            "kvm1: reboot is refused, because pg, which runs there, is the database server of the"
            " store"
        ),
    ):
        ports.own.refuse_power("kvm1", "reboot is refused")
    ports.own.refuse_power("kvm2", "reboot is refused")
    controller = own(url, machine=machine(uuids=["5b0a3c1e-0000-4000-8000-000000000002"]))
    with pytest.raises(
        DroverError,
        match=(
            "kvm2: hard_off is refused, because it is the controller and its store, which this run"
            " needs"
        ),
    ):
        controller.refuse_power("kvm2", "hard_off is refused")


def test_issue_44_check_and_report_name_it(ports):
    assert ports.own.sentences() == [
        "pg on kvm1 is the database server of the store: it is moved live and last, and never"
        " stopped by a run that needs it."
    ]
    overview = {"went_down": [], "leases": [], "migrations": [], "power_events": [], "rolling": []}
    (look,) = attention(
        [], [], {**overview, "own": [each._asdict() for each in ports.own.read()]}, []
    )
    assert (look["name"], look["kind"]) == (
        "pg",
        "calm",
    ) and "is the database server of the store" in look["text"]


class Silent(Hosts):
    """kvm1 is silent, as a host with a hanging sshd and libvirt."""

    def discover(self, name, limit=None):
        raise DroverError("it does not answer")

    def answer(self, name, limit=None):
        return host_answer.HostAnswer(host_answer.SILENT, "it does not answer")

    def at_once(self, work, limit):
        return dict.fromkeys(work, {"reached": False, "storage": "unknown"})


def evacuation(ports, own=None, **more):
    request = EvacuationRequest("kvm1", ["kvm2", "kvm3"], Policy.from_mapping({}), **more)
    return Evacuation(ports._replace(hosts=Silent(), own=own or ports.own), request)


def taken_for_dead(ports, own=None, power="on", **more):
    """Return evacuate's message before it looks for evidence, or about the evidence."""
    with ports.store.write() as connection:
        host_state.change(connection, "kvm1", forced_down=True)
    try:
        return evacuation(ports, own, **more).judge(power)["message"]
    except DroverError as problem:
        return str(problem)


OFF = {"said": "kvm1 is powered off"}


@pytest.mark.parametrize(
    "more", [{}, OFF, {"plan_only": True}], ids=["by its driver", "by word", "dry run"]
)
@pytest.mark.parametrize("power", ["on", "unknown", "none"])
def test_issue_44_a_host_whose_guest_works_for_the_run_is_not_dead(ports, more, power):
    """The fence would cut the power of the store and end the run, before any instance starts on
    another host."""
    message = taken_for_dead(ports, power=power, **more)
    assert message.startswith(
        "kvm1 is not evacuated, and its power is not cut: pg, which ran there when the store last"
        " heard of it, is the database server"
    )
    assert "drover_store_machine=NAME (or none)" in message
    with ports.store.read() as connection:
        assert leases.read(connection) == []


def test_issue_44_a_host_that_is_the_controller_itself_is_not_dead(url, ports):
    controller = own(url, machine=machine(uuids=["5b0a3c1e-0000-4000-8000-000000000001"]))
    assert (
        "kvm1 is the controller and its store, which works for this run. So kvm1 is not dead."
        in taken_for_dead(ports, controller)
    )


@pytest.mark.parametrize(
    "case", ["it is off", "the guest runs elsewhere", "it is said to be outside", "two servers"]
)
def test_issue_44_a_host_that_may_be_dead_all_the_same(url, ports, case):
    own_machines, power = None, "on"
    if case == "it is off":
        power = "off"
    elif case == "the guest runs elsewhere":
        fleets.discover(
            url,
            host("kvm2", guest("pg", "192.0.2.10"), guest("ctl"), pools=[POOL]),
            now=time.time(),
        )
    elif case == "two servers":
        own_machines = own(
            url, machine=machine(), addresses=frozenset({"192.0.2.10", "192.0.2.11"})
        )
    else:
        own_machines = own(
            url, machine=machine(), addresses=frozenset({"192.0.2.10"}), said={STORE: "none"}
        )
    assert "works for this run" not in taken_for_dead(ports, own_machines, power)

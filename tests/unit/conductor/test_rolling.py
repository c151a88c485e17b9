# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of a rolling maintenance: the choice of hosts, the next step, the report.
tests/scenarios test its effects."""

from __future__ import annotations

import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    Unreachable,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.drain import DrainRequest
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.own_machines import (
    CONTROLLER,
    KnownMachines,
    OwnMachines,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    DrainQuestion,
    RollingQuestion,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.rolling import (
    STEPS,
    Rolling,
    rounds,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.rolling_request import (
    RollingRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import rolling
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

HOSTS = ["kvm1", "kvm2", "kvm3"]
POLICY = Policy.from_mapping({})
HOOKS = ("before_drain", "after_drain", "after_reboot", "after_enable")


class Hosts:
    """Stand-ins for conductor.ports.Hosts and its hands: hosts that answer Ansible's own
    modules.
    """

    def __init__(self):
        self.boots, self.needed, self.unsure, self.down, self.broken = (
            {},
            set(),
            set(),
            set(),
            set(),
        )

    def discover(self, name):
        self._reach(name)
        if name in self.broken:
            raise DroverError(f"libvirt on {name} does not answer.")
        return {"occupants": {"running": [], "shut_off": [], "arriving": []}}

    def names(self):
        return []

    def hand(self, name):
        hosts = self

        class Hand:
            def read(self, module, args):
                hosts._reach(name)
                if module == "_boot_info":
                    return {"boot_id": f"boot {hosts.boots.get(name, 0)}"}
                if name in hosts.broken:
                    return {"failed": True, "msg": "no Python there"}
                assert (module, args) == ("_reboot_info", {"sentinels": ["/wants"]})
                return {
                    "needed": None if name in hosts.unsure else name in hosts.needed,
                    "message": f"{name} said so",
                }

        return Hand()

    def _reach(self, name):
        if name in self.down:
            raise Unreachable(name, "timed out ")


class Actor:
    def __init__(self, name):
        self.holder = self.process = name

    def lives(self, process):
        return None


@pytest.fixture(name="url")
def of_a_store_with_three_hosts(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web")), host("kvm2"), host("kvm3"))
    return prepared_url


@pytest.fixture(name="hosts")
def that_answer():
    return Hosts()


@pytest.fixture(name="make")
def of_a_run(url, hosts):
    """Return a function that makes a Rolling; ``said`` has its lines."""

    def make(names=tuple(HOSTS), name="run", unmovable="fail", **request):
        lines, store = [], Store.open(url)
        ports = Ports(store, hosts, Leasing(store, Actor(name), lines.append), lines.append, time)
        drain = DrainRequest(
            [],
            DrainQuestion(POLICY, MigrationLimits()),
            MoveSettings(MigrationLimits()),
            "new kernel",
            unmovable,
        )
        question = RollingQuestion(
            POLICY, batch_size=request.pop("batch_size", 0), back=False, unmovable=unmovable
        )
        maintenance = Rolling(
            ports, RollingRequest(list(names), question, drain, sentinels=["/wants"], **request)
        )
        maintenance.said = lines
        return maintenance

    return make


def planned(order):
    order.begin()
    return order.plan([order.look(name) for name in order.request.hosts])


def held(url):
    with Store.open(url).read() as connection:
        return {each["name"]: each["holder"] for each in leases.read(connection)}


def stages(url):
    with Store.open(url).read() as connection:
        return {each["host"]: each["stage"] for each in rolling.read(connection)}


def write(url, name, **values):
    with Store.open(url).write() as connection:
        rolling.write(connection, name, values, fleets.NOW)


def test_only_hosts_that_want_it_are_taken(make, hosts, url):
    hosts.needed = {"kvm2"}
    answer = planned(make())
    assert (
        answer["plan"]["batches"] == [["kvm2"]]
        and stages(url) == {"kvm2": "waiting"}
        and answer["work"]
        and answer["changed"]
    )
    assert held(url) == {"rolling maintenance": "run"}
    with pytest.raises(leases.LeaseHeld):
        make(name="another").begin()
    for more in ({"all_hosts": True}, {"reboot": "always"}, {"reboot": "never"}):
        assert sum(planned(make(restart=True, **more))["plan"]["batches"], []) == HOSTS


def test_a_host_of_which_it_cannot_be_told_is_not_left_out_in_silence(make, hosts, url):
    hosts.needed, hosts.unsure = {"kvm2"}, {"kvm3"}
    pattern = (
        "kvm3: it cannot be told whether it needs a reboot: kvm3 said so. Set"
        " drover_reboot_sentinel .* or use drover_rolling_reboot=always"
    )
    with pytest.raises(DroverError, match=pattern):
        planned(make())
    with pytest.raises(DroverError, match=pattern):
        planned(make(all_hosts=True))
    assert stages(url) == {} and held(url) == {}
    found = planned(make(blocked="skip"))
    assert found["plan"]["batches"] == [["kvm2"]] and [
        each["host"] for each in found["left_out"]
    ] == ["kvm3"]
    for more in ({"reboot": "always"}, {"reboot": "never"}):
        assert sum(planned(make(restart=True, **more))["plan"]["batches"], []) == HOSTS


def test_a_host_that_cannot_tell_after_its_hook_stays_in_maintenance(make, hosts, url):
    order = make(["kvm2"])
    write(url, "kvm2", stage="after_drain")
    hosts.unsure = {"kvm2"}
    with pytest.raises(DroverError, match="Host kvm2: it cannot be told whether it needs a reboot"):
        order.step("kvm2", "reboot")
    assert stages(url) == {"kvm2": "after_drain"}


def test_a_plan_alone_records_nothing(make, url):
    found = planned(make(reboot="always", plan_only=True))
    assert not found["work"] and not found["changed"] and found["rounds"] == []
    assert stages(url) == {} and held(url) == {}


def test_nothing_to_do(make, url):
    order = make()
    answer = planned(order)
    assert (
        order.said == ["There is nothing to do: no host needs a reboot, or all are done."]
        and answer["rounds"] == []
    )
    assert (
        order.report([])
        == {
            "report": {"finished": True, "hosts": [], "left_out": []},
            "message": "",
        }
        and held(url) == {}
    )


def test_no_claim_is_made_of_hosts_that_are_left_out(make, hosts):
    hosts.unsure = {"kvm3"}
    for more in ({"plan_only": True}, {}):
        order = make(blocked="skip", **more)
        planned(order)
        assert (
            order.said[0]
            == "No host is taken: 1 is left out for the reason below. The others need no reboot, or"
            " are done."
        )
        assert (
            order.said[1].startswith("kvm3: it cannot be told whether it needs a reboot")
            and len(order.said) == 2
        )
        order.report([])
    hosts.unsure = set(HOSTS)
    order = make(blocked="skip", plan_only=True)
    planned(order)
    assert order.said[
        0
    ] == "No host is taken: 3 are left out for the reasons below." and order.said[1].endswith(
        "The same for kvm2, kvm3."
    )
    order = make(["kvm3"])
    with pytest.raises(DroverError):
        planned(order)
    assert order.said[0] == "No host is taken: 1 is left out for the reason below."


def test_hosts_that_cannot_be_taken_are_named_before_anything_is_begun(make, hosts, url):
    hosts.down, hosts.broken = {"kvm1"}, {"kvm2"}
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm3", "draining", "bad fan")
    with pytest.raises(DroverError) as caught:
        planned(make(reboot="always"))
    assert str(caught.value).startswith(
        "3 of the hosts cannot be taken, so nothing was changed. kvm1: it cannot be read: timed"
        " out. kvm2: it cannot be read: libvirt on kvm2 does not answer. kvm3: it is drained"
        " already, not by this maintenance; bring it back first (drover.compute.undrain). Correct"
        " that"
    )
    assert stages(url) == {} and held(url) == {}
    found = planned(make(reboot="always", blocked="skip"))
    assert [each["host"] for each in found["left_out"]] == HOSTS and found["rounds"] == []


@pytest.mark.parametrize(
    "request_, says",
    [
        (
            {"hooks": {"after_drain": "/nowhere.yml"}},
            (
                "drover_rolling_hooks: after_drain is /nowhere.yml, which is no file on the"
                " controller. Nothing"
            ),
        ),
        (
            {"hooks": {"sometimes": __file__}},
            (
                "but there is no such hook, only before_drain, after_drain, after_reboot,"
                " after_enable. Nothing"
            ),
        ),
        (
            {"names": [], "pattern": "racks"},
            "No host of this play matches 'racks' but the controller, which cannot reboot itself.",
        ),
    ],
    ids=["no file", "no such hook", "no host"],
)
def test_what_is_refused_at_once(make, url, request_, says):
    with pytest.raises(DroverError) as caught:
        make(**request_).begin()
    assert says in str(caught.value) and held(url) == {}


def test_each_batch_is_planned_anew_and_what_was_begun_with_comes_first(make, url):
    order = make(reboot="never", batch_size=1)
    assert len(planned(order)["plan"]["batches"]) == 3
    write(url, "kvm3", stage="after_drain")
    first = order.next()
    assert first["hosts"] == ["kvm3"] and order.said[-1] == "This batch: kvm3. 2 hosts wait."
    assert [step["name"] for step in first["steps"]] == ["startup", "reboot", "enable", "back"]
    write(url, "kvm3", stage="back")
    assert order.close(["kvm3"]) == {"changed": True} and stages(url)["kvm3"] == "done"
    assert order.next()["hosts"] != ["kvm3"]
    for name in HOSTS:
        write(url, name, stage="done")
    assert order.next() == {"finished": True, "hosts": [], "steps": []} and order.close([]) == {
        "changed": False
    }


def test_a_batch_ends_with_an_error_where_a_host_did_not_come_through(make, url):
    order = make(reboot="never")
    planned(order)
    write(url, "kvm1", stage="back")
    assert order.fail("kvm2", "Refuse", "the mirror is down\n") == {"changed": True}
    with pytest.raises(
        DroverError, match="^kvm2, kvm3 did not come through; no other batch is begun.$"
    ):
        order.close(HOSTS)
    report = order.report([{"host": "kvm9", "reason": "it is away"}])
    assert report["message"].startswith(
        "The rolling maintenance is not finished: kvm1, kvm2, kvm3 still to do."
    )
    assert [line for line in order.said if line.startswith("kvm")] == [
        (
            "kvm1: stopped at back, up, enabled, 1 instance (nothing is known of why: it was lost,"
            " or the run was cut off)"
        ),
        "kvm2: not begun, up, enabled, 0 instances (Refuse: the mirror is down)",
        "kvm3: not begun, up, enabled, 0 instances",
        "kvm9: left out: it is away",
    ]
    assert report["report"]["hosts"][1] == {
        "host": "kvm2",
        "stage": "waiting",
        "message": "Refuse: the mirror is down",
        "state": "up, enabled",
        "instances": 0,
    }
    assert held(url) == {} and stages(url)["kvm1"] == "back"


def test_hosts_of_another_run_are_left_alone_and_reported(make, url):
    write(url, "kvm3", stage="drain")
    order = make(["kvm1"], reboot="never")
    planned(order)
    assert order.next()["hosts"] == ["kvm1"]
    write(url, "kvm1", stage="done")
    assert order.next()["finished"] and "kvm3 still to do" in order.report([])["message"]


def test_the_steps_of_a_host(make, hosts, url):
    """Each stage is recorded before it begins; a step that the host has passed does nothing."""
    order = make(["kvm2"], reboot="always", hooks=dict.fromkeys(HOOKS, __file__))
    planned(order)
    steps = order.next()["steps"]
    assert [step["name"] for step in steps] == [step.name for step in STEPS]
    seen = []
    for step in steps:
        do = order.step("kvm2", step["name"])
        seen.append((step["name"], stages(url)["kvm2"], *sorted(set(do) - {"changed"})))
        if "power" in do:
            hosts.boots["kvm2"] = 1
    assert seen == [
        ("before_drain", "before_drain", "hook"),
        ("disable", "drain"),
        ("drain", "drain"),
        ("after_drain", "after_drain", "hook"),
        ("startup", "after_drain"),
        ("reboot", "reboot", "power"),
        ("after_reboot", "after_reboot", "hook"),
        ("enable", "enable", "undrain"),
        ("after_enable", "after_enable", "hook"),
        ("back", "back"),
    ]
    assert order.step("kvm2", "drain") == {"changed": False}
    with pytest.raises(
        DroverError, match="kvm3 is in no rolling maintenance, so nothing was done there"
    ):
        order.step("kvm3", "drain")
    with pytest.raises(DroverError, match="kvm3 is in no rolling maintenance"):
        order.fail("kvm3", "Reboot", "lost")
    assert "kvm3" not in stages(url)


def test_safety_14_only_another_boot_is_a_reboot(make, hosts, url):
    order = make(["kvm2"], hooks=dict.fromkeys(HOOKS, __file__))
    write(url, "kvm2", stage="reboot", boot_id="boot 0")
    hosts.needed = {"kvm2"}
    # The host answers with the boot that should have ended.
    assert order.step("kvm2", "startup") == {"changed": False}
    assert order.step("kvm2", "reboot")["power"] == "reboot"
    # The run was killed; it is down now.
    hosts.down = {"kvm2"}
    assert order.step("kvm2", "startup")["power"] == "startup"
    with pytest.raises(Unreachable):
        order.step("kvm2", "reboot")
    # The host is up, with another boot.
    hosts.down, hosts.boots = set(), {"kvm2": 1}
    assert order.step("kvm2", "reboot") == {"changed": False}
    assert "hook" in order.step("kvm2", "after_reboot")


def test_the_hook_after_a_reboot_needs_one(make, hosts, url):
    order = make(["kvm2"], hooks=dict.fromkeys(HOOKS, __file__))
    for stage in ("after_drain", "reboot"):
        # An earlier run began the reboot, and this run does not want it.
        write(url, "kvm2", stage=stage, boot_id="boot 0")
        assert "power" not in order.step("kvm2", "reboot") and stages(url)["kvm2"] == stage
        assert order.step("kvm2", "after_reboot") == {"changed": False}
    write(url, "kvm2", stage="after_reboot")
    assert "hook" in order.step("kvm2", "after_reboot")


def test_where_instances_belong_is_recorded_once(make, url):
    order = make(reboot="never")
    planned(order)
    order.step("kvm1", "disable")
    (home,) = [{"uuid": uuid_of("web"), "host": "kvm1", "node": "kvm1"}]
    fleets.discover(url, host("kvm1"), host("kvm2", domain("web")))
    assert order.step("kvm1", "disable") == {"changed": False}
    with Store.open(url).read() as connection:
        assert rolling.read(connection)[0]["instances"] == [home]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 9, 100, 1000])
def test_rounds_are_enough_in_groups_that_are_not_large(count):
    found = rounds(count)
    assert sum(found, []) == list(range(1, count + 1))
    assert len(found) <= count**0.5 + 1 and all(len(group) <= count**0.5 + 1 for group in found)


@pytest.fixture(name="on_kvm1")
def whose_controller_is_kvm1(make):
    """Return a function that makes a Rolling on a controller that is kvm1 itself."""

    def made(**request):
        maintenance = make(**request)
        own = OwnMachines(maintenance._store, lambda: KnownMachines(said={CONTROLLER: "kvm1"}))
        maintenance._own = own
        return maintenance

    return made


def test_issue_44_the_host_of_the_controller_comes_last(on_kvm1, hosts, url):
    """By the alphabet it would be the first."""
    maintenance = on_kvm1(reboot="always", batch_size=1)
    planned(maintenance)
    assert any(
        "kvm1 is the controller and its store" in line and "last" in line
        for line in maintenance.said
    )
    order = []
    for _dummy in HOSTS:
        (name,) = maintenance.next()["hosts"]
        order.append(name)
        write(url, name, stage="done")
    assert order == ["kvm2", "kvm3", "kvm1"] and maintenance.next()["finished"]


def test_issue_44_it_shares_no_batch_with_others(on_kvm1, url):
    found = on_kvm1(reboot="always")
    planned(found)
    assert "kvm1" not in found.next()["hosts"]


def test_issue_44_it_is_not_rebooted_from_there_and_goes_on_afterwards(on_kvm1, hosts, url):
    maintenance = on_kvm1(reboot="always")
    planned(maintenance)
    for name in ("kvm2", "kvm3"):
        write(url, name, stage="done")
    write(url, "kvm1", stage="after_drain")
    assert maintenance.next()["hosts"] == ["kvm1"]
    with pytest.raises(
        DroverError,
        match=(
            "kvm1 is drained and comes last, because it is the controller and its store.*systemctl"
            " reboot"
        ),
    ) as caught:
        maintenance.step("kvm1", "reboot")
    assert "drover_power_action=reboot" in str(caught.value) and "goes on after the reboot" in str(
        caught.value
    )
    assert stages(url)["kvm1"] == "reboot"
    # A second run without a reboot gives the same message; after the reboot it continues.
    with pytest.raises(DroverError, match="systemctl reboot"):
        on_kvm1(reboot="always").step("kvm1", "reboot")
    hosts.boots["kvm1"] = 1
    assert on_kvm1(reboot="always").step("kvm1", "reboot") == {"changed": False}


@pytest.mark.parametrize("stage", ["after_drain", "reboot", "after_reboot"])
@pytest.mark.parametrize("gone", ["brought back", "something runs there"])
def test_b4_a_host_that_is_not_drained_any_more_is_drained_again(make, hosts, url, stage, gone):
    """Between two runs of the maintenance the host was undrained, or a person moved an instance
    there."""
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm2", "draining", "new kernel")
        if gone == "brought back":
            host_state.change(connection, "kvm2", "restored")
    if gone != "brought back":
        fleets.discover(url, host("kvm2", domain("late")), now=time.time())
    write(url, "kvm2", stage=stage)
    order = make(["kvm2"], reboot="never", hooks={})
    planned(order)
    assert stages(url) == {"kvm2": "drain"}
    why = "it was brought back" if gone == "brought back" else "late came there"
    assert f"kvm2: it is drained again, as {why} since its drain." in order.said
    assert "drain" in [step["name"] for step in order.next()["steps"]]


@pytest.mark.parametrize(
    "stage", ["after_drain", "reboot", "after_reboot", "enable", "after_enable", "back"]
)
def test_b4_a_host_that_is_as_its_stage_says_goes_on_there(make, hosts, url, stage):
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm2", "draining", "new kernel")
        if stage in ("after_enable", "back"):
            host_state.change(connection, "kvm2", "restored")
    write(url, "kvm2", stage=stage)
    planned(make(["kvm2"], reboot="never"))
    assert stages(url) == {"kvm2": stage}


@pytest.mark.parametrize("stage", ["after_enable", "back"])
def test_b4_a_host_that_was_drained_again_since_it_was_brought_back_is_not_done(
    make, hosts, url, stage
):
    """A person had a reason for that, so the host is not brought back either."""
    write(url, "kvm2", stage=stage)
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm2", "draining", "fans")
    with pytest.raises(
        DroverError,
        match=(
            "kvm2: this maintenance had brought it back .* somebody has drained it since.*undrain"
        ),
    ):
        planned(make(["kvm2"], reboot="never"))
    assert stages(url) == {"kvm2": stage}


def test_b4_a_dry_run_says_so_and_writes_nothing(make, hosts, url):
    write(url, "kvm2", stage="after_drain")
    order = make(["kvm2"], reboot="never", plan_only=True)
    planned(order)
    assert stages(url) == {"kvm2": "after_drain"} and any(
        "it is drained again" in line for line in order.said
    )


def test_b4_a_host_that_was_rebooted_is_not_rebooted_for_its_second_drain(make, hosts, url):
    write(url, "kvm2", stage="after_reboot", boot_id="boot 0")
    hosts.boots["kvm2"] = 1
    order = make(["kvm2"], reboot="always")
    planned(order)
    assert stages(url) == {"kvm2": "drain"}
    assert "power" not in order.step("kvm2", "reboot") and stages(url) == {"kvm2": "reboot"}

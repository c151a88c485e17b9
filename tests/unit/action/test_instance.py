# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions instance and resize on a real store and hypervisors in this process: their records,
and the time of each."""

from __future__ import annotations

import contextlib
import os

import pytest
from ansible.errors import AnsibleActionFail

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import power
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import decisions
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

SMALL = {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}
BIG = {"VCPU": 2, "MEMORY_MB": 128, "DISK_GB": 2}


def at(there, host, name="web"):
    """Return the domain on a host, as hypervisor_info shows it; None if the host does not have
    it.
    """
    domains = there.hand(host).read("hypervisor_info", {})["hypervisor"]["domains"]
    return next((each for each in domains if each["name"] == name), None)


def move(there, name, source, destination):
    """Move an instance cold, as a person would by hand."""
    found = there.hosts[source].domains()[uuid_of(name)]
    there.moved(there.hosts[source], there.hosts[destination], found)


def refuses(monkeypatch):
    """Let guests ignore the power button."""
    monkeypatch.setattr(libvirt.virDomain, "shutdown", lambda domain: 0)
    monkeypatch.setattr(power, "PRESS_AGAIN", 0.1)


def acts(there):
    """Return the calls that may change something: (host, module, state)."""
    return [
        (host, module.rpartition(".")[2], args.get("state"))
        for host, module, args, check in there.calls
        if not check
    ]


def on(target, module, url, **args):
    return run(module, {"inventory_hostname": target}, store_url=url, **args)


def failure(target, module, url, **args):
    with pytest.raises(AnsibleActionFail) as caught:
        on(target, module, url, **args)
    return str(caught.value)


def states(url):
    return {
        each["name"]: each["state"] for each in run("instance_info", store_url=url)["instances"]
    }


def test_stopped_and_started_are_recorded_and_room_stays(fleet_url, there):
    holdings = fleets.holdings(fleet_url)
    args = {"state": "stopped", "instances": ["web", "db"]}
    assert on("kvm1", "instance", fleet_url, check=True, **args)["changed"] is True
    assert states(fleet_url) == {"web": "running", "db": "running"}
    assert on("kvm1", "instance", fleet_url, **args)["changed"] is True
    assert acts(there) == [("kvm1", "domain_power", "stopped")], "one call for all of a host"
    assert states(fleet_url) == {"web": "shutoff", "db": "shutoff"}
    assert fleets.holdings(fleet_url) == holdings
    assert on("kvm1", "instance", fleet_url, **args)["changed"] is False
    assert on("kvm1", "instance", fleet_url, state="running", instances=["web"])["changed"] is True
    assert states(fleet_url) == {"web": "running", "db": "shutoff"}


def test_the_failure_of_one_is_told_and_the_other_recorded(fleet_url, there):
    there.hosts["kvm1"].domains()[uuid_of("web")].suspend()
    said = failure("kvm1", "instance", fleet_url, state="stopped", instances=["web", "db"])
    assert said.startswith("web on kvm1 is paused and cannot shut down")
    assert states(fleet_url) == {"web": "paused", "db": "shutoff"}
    assert "Delegate it there" in failure(
        "kvm2", "instance", fleet_url, state="stopped", instances=["web"]
    )


def test_absent(fleet_url, there, tmp_path):
    args, disk = {"state": "absent", "instances": ["web"]}, str(tmp_path / "web.qcow2")
    before = fleets.snapshot(fleet_url)
    assert on("kvm1", "instance", fleet_url, check=True, **args)["instances"][0][
        "removed_disks"
    ] == [disk]
    assert fleets.snapshot(fleet_url) == before and os.path.exists(disk)
    assert on("kvm1", "instance", fleet_url, **args)["changed"] is True
    assert not os.path.exists(disk) and at(there, "kvm1") is None
    assert states(fleet_url) == {"db": "running"} and list(fleets.holdings(fleet_url)) == [
        uuid_of("db")
    ]
    assert on("kvm1", "instance", fleet_url, **args)["changed"] is False


def test_one_that_did_not_go_down_is_whole_and_as_it_was(fleet_url, there, monkeypatch):
    holdings = fleets.holdings(fleet_url)
    with monkeypatch.context() as patch:
        refuses(patch)
        said = failure("kvm1", "instance", fleet_url, state="absent", instances=["web"], timeout=0)
    assert "did not shut down" in said and "removed in part" not in said
    assert fleets.holdings(fleet_url) == holdings and at(there, "kvm1")["state"] == "running"
    assert on("kvm1", "instance", fleet_url, state="stopped", instances=["web"])["changed"] is True
    assert on("kvm1", "instance", fleet_url, state="absent", instances=["web"])["changed"] is True
    assert states(fleet_url) == {"db": "running"}


def killed(there, monkeypatch, when):
    """End the run before the module does its work, or while its result is on its way."""

    def hook(host, module, rest):
        if not there.calls[-1][3]:
            raise KeyboardInterrupt

    monkeypatch.setattr(there, when, [hook])
    with pytest.raises(KeyboardInterrupt):
        yield
    monkeypatch.setattr(there, when, [])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_removal_that_was_killed_is_finished(fleet_url, there, monkeypatch, when):
    with contextlib.contextmanager(killed)(there, monkeypatch, when):
        on("kvm1", "instance", fleet_url, state="absent", instances=["web"])
    assert fleets.holdings(fleet_url)[uuid_of("web")] == {"kvm1": SMALL}, (
        "it holds its room until it is known to be gone"
    )
    assert on("kvm1", "instance", fleet_url, state="absent", instances=["web"])["changed"] is True
    assert states(fleet_url) == {"db": "running"} and at(there, "kvm1") is None


def test_one_that_is_elsewhere_is_not_taken_for_removed(fleet_url, there):
    move(there, "web", "kvm1", "kvm2")
    assert "it is not on kvm1 any more" in failure(
        "kvm1", "instance", fleet_url, state="absent", instances=["web"]
    )
    assert uuid_of("web") in fleets.holdings(fleet_url)


def step(url, state, target="kvm1", **more):
    return on(target, "_resize", url, state=state, instance="web", **more)


def test_a_resize_step_by_step(fleet_url, there):
    before = fleets.snapshot(fleet_url)
    told = step(fleet_url, "begun", flavor="big", host="kvm2", check=True, diff=True)
    assert told["changed"] is True and fleets.snapshot(fleet_url) == before and acts(there) == []
    begun = step(fleet_url, "begun", flavor="big", host="kvm2")
    assert begun["resize"]["running"] is True and begun["resize"]["order"]["destination"] == "kvm2"
    holdings = fleets.holdings(fleet_url)
    assert holdings[uuid_of("web")] == {"kvm2": BIG} and holdings[begun["resize"]["migration"]] == {
        "kvm1": SMALL
    }
    # Each step may be taken twice.
    for changed in (True, False):
        assert step(fleet_url, "left")["changed"] is changed
    assert at(there, "kvm1")["vcpus"] == 1, "the claim of its new size is at the other host"
    move(there, "web", "kvm1", "kvm2")
    assert step(fleet_url, "left")["changed"] is False, "it has gone already"
    for changed in (True, False):
        assert step(fleet_url, "arrived", "kvm2")["changed"] is changed
    assert at(there, "kvm2")["vcpus"] == 2
    assert at(there, "kvm2")["state"] == "running" and states(fleet_url)["web"] == "running"
    assert step(fleet_url, "begun", "kvm2", flavor="big")["changed"] is False
    assert fleets.holdings(fleet_url) == holdings, "both until it is confirmed"
    assert at(there, "kvm2")["disks"][0]["capacity_bytes"] == 2**30
    assert step(fleet_url, "confirmed", "kvm2")["changed"] is True
    assert at(there, "kvm2")["disks"][0]["capacity_bytes"] == 2**31
    assert fleets.holdings(fleet_url) == {
        uuid_of("db"): {"kvm1": SMALL},
        uuid_of("web"): {"kvm2": BIG},
    }
    assert step(fleet_url, "confirmed", "kvm2") == {"changed": False, "resize": None}


def test_a_resize_is_a_decision_also_one_that_is_refused(fleet_url, there):
    step(fleet_url, "begun", flavor="big", host="kvm2")
    with Store.open(fleet_url).write() as connection:
        flavors.ensure(connection, "huge", {"vcpus": 64, "memory_mb": 64, "disk_gb": 2}, fleets.NOW)
    assert "No valid host for db" in failure(
        "kvm1", "_resize", fleet_url, state="begun", instance="db", flavor="huge"
    )
    with Store.open(fleet_url).read() as connection:
        refused, begun = decisions.newest(connection, 10)
    assert (begun["purpose"], begun["instance_name"], begun["host"]) == ("resize", "web", "kvm2")
    assert begun["explanation"]["top"][0]["host"] == "kvm2" and begun["actor"]
    assert (refused["purpose"], refused["instance_name"], refused["host"]) == ("resize", "db", None)
    assert refused["message"].startswith("No valid host for db")


def test_a_resize_that_is_reverted(fleet_url, there):
    step(fleet_url, "begun", flavor="big", host="kvm2")
    assert "has not ended yet" in failure(
        "kvm2", "_resize", fleet_url, state="confirmed", instance="web"
    )
    step(fleet_url, "left")
    move(there, "web", "kvm1", "kvm2")
    step(fleet_url, "arrived", "kvm2")
    back = step(fleet_url, "leaving_again", "kvm2")["resize"]["back"]
    assert back["destination"] == "kvm1" and at(there, "kvm2")["vcpus"] == 2
    assert "Nothing was taken back" in failure(
        "kvm1", "_resize", fleet_url, state="reverted", instance="web"
    )
    move(there, "web", "kvm2", "kvm1")
    step(fleet_url, "reverted")
    assert (at(there, "kvm1")["state"], at(there, "kvm1")["vcpus"]) == ("running", 1)
    assert (
        fleets.holdings(fleet_url)[uuid_of("web")] == {"kvm1": SMALL}
        and fleets.where(fleet_url)["web"] == "kvm1"
    )


def test_a_guest_that_does_not_shut_down_keeps_its_size_and_its_room(fleet_url, there, monkeypatch):
    before = fleets.holdings(fleet_url)
    refuses(monkeypatch)
    step(fleet_url, "begun", flavor="big", host="kvm2")
    assert "did not shut down" in failure(
        "kvm1", "_resize", fleet_url, state="left", instance="web", timeout=0
    )
    step(fleet_url, "undone", message="it did not shut down")
    assert fleets.holdings(fleet_url) == before and states(fleet_url)["web"] == "running"
    assert at(there, "kvm1")["vcpus"] == 1


def test_a_paused_guest_is_not_resized(fleet_url, there):
    """Otherwise the instance would come back running."""
    there.hosts["kvm1"].domains()[uuid_of("web")].suspend()
    before = fleets.snapshot(fleet_url)
    with pytest.raises(
        AnsibleActionFail, match="web on kvm1 is paused.*resume it, or shut it off, first"
    ):
        resize(fleet_url, flavor="big", host="kvm2")
    assert fleets.snapshot(fleet_url) == before and there.where()["web"] == [("kvm1", "paused")]


def test_another_resize_has_to_wait(fleet_url, there):
    step(fleet_url, "begun", flavor="big", host="kvm2")
    assert "is being resized or moved cold to kvm2 already" in failure(
        "kvm1", "_resize", fleet_url, state="begun", instance="web", flavor="big", host="kvm3"
    )
    assert "open resize" in failure(
        "kvm1", "instance", fleet_url, state="stopped", instances=["web"]
    )
    assert step(fleet_url, "begun", flavor="big")["changed"] is True, "the same one is gone on with"


def resize(url, **more):
    return run("instance_resize", store_url=url, instances=["web"], timeout=1, force=True, **more)


def test_sizes_are_given_in_place_of_a_flavor(fleet_url, there):
    foreseen = run(
        "instance_resize",
        check=True,
        diff=True,
        store_url=fleet_url,
        instances=["web"],
        memory_mb="0.125GiB",
    )
    (shown,) = foreseen["diff"]
    assert (shown["before"]["memory_mb"], shown["after"]["memory_mb"], shown["after"]["vcpus"]) == (
        64,
        128,
        1,
    )
    assert at(there, "kvm1")["memory_mb"] == 64
    (done,) = resize(fleet_url, vcpus=2, memory_mb="0.125GiB", host="kvm2", ending="confirm")[
        "resizes"
    ]
    assert (
        done["status"],
        done["destination"],
        done["new"]["vcpus"],
        done["new"]["memory_mb"],
    ) == ("confirmed", "kvm2", 2, 128)
    assert (at(there, "kvm2")["vcpus"], at(there, "kvm2")["memory_mb"]) == (2, 128)
    assert fleets.holdings(fleet_url)[uuid_of("web")] == {
        "kvm2": {**BIG, "VCPU": 2, "MEMORY_MB": 128, "DISK_GB": 1}
    }
    assert resize(fleet_url, vcpus=2, memory_mb=128)["changed"] is False


def test_an_open_resize_to_sizes_is_gone_on_with_by_the_same_sizes(fleet_url, there):
    step(fleet_url, "begun", vcpus=2, memory_mb=128)
    for other in ({"flavor": "big"}, {"vcpus": 3}, {}):
        message = failure("kvm1", "_resize", fleet_url, state="begun", instance="web", **other)
        assert (
            "run drover.compute.instance_resize with drover_vcpus=2 and drover_memory_mb=128 again"
            in message
        )
    assert "with drover_vcpus=2 and drover_memory_mb=128" in failure(
        "kvm1", "instance", fleet_url, state="stopped", instances=["web"]
    )
    assert (
        resize(fleet_url, vcpus=2, memory_mb="128MiB", ending="revert")["resizes"][0]["status"]
        == "reverted"
    )
    assert at(there, "kvm1")["memory_mb"] == 64
    step(fleet_url, "begun", flavor="big")
    assert "again, or drover.compute.instance_resize" in failure(
        "kvm1", "_resize", fleet_url, state="begun", instance="web", vcpus=2
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {},
            (
                "no new size is given. Set drover_flavor to a flavor, or set drover_vcpus,"
                " drover_memory_mb or drover_disk_gb."
            ),
        ),
        (
            {"flavor": "big", "memory_mb": "8GiB", "vcpus": 1},
            "drover_flavor is set together with drover_vcpus and drover_memory_mb, and",
        ),
        ({"vcpus": 0}, "drover_vcpus must be a whole number"),
        ({"memory_mb": "lots"}, "drover_memory_mb must be a whole number of MiB from 1 to "),
        ({"disk_gb": "500M"}, "drover_disk_gb is 500M, which is not a whole number of GiB"),
    ],
)
def test_a_new_size_that_says_nothing_or_too_much_is_refused(fleet_url, there, given, words):
    before = fleets.snapshot(fleet_url)
    assert words in failure("localhost", "instance_resize", fleet_url, instances=["web"], **given)
    assert fleets.snapshot(fleet_url) == before and acts(there) == []


def test_nothing_to_do_for_the_size_that_it_has(fleet_url, there):
    step(fleet_url, "begun", flavor="big")
    step(fleet_url, "left")
    step(fleet_url, "arrived")
    step(fleet_url, "confirmed")
    assert step(fleet_url, "begun", flavor="big") == {"changed": False, "resize": None}
    assert step(fleet_url, "begun", host="kvm1") == {"changed": False, "resize": None}


def with_policy(url, **policy):
    """Record the same fleet with this policy of web; kvm1 has no room for a second size of it."""
    web = domain("web", disk_gb=1, metadata={key: str(value) for key, value in policy.items()})
    fleets.discover(url, host("kvm1", web, domain("db", disk_gb=1), vcpus=3))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"move": "never"}, "its migration policy is 'never'"),
        (
            {"move": "live"},
            "its migration policy is 'live', and it would be shut down for this move",
        ),
        (
            {"move": "sideways"},
            (
                "its policy cannot be read: Instance web: move must be never, cold or live, not"
                " 'sideways'. Nothing was done"
            ),
        ),
    ],
)
def test_a_policy_keeps_an_instance_on_its_host(fleet_url, there, policy, words):
    with_policy(fleet_url, **policy)
    before = fleets.snapshot(fleet_url)
    for wanted in ({}, {"flavor": "big"}, {"flavor": "big", "host": "kvm2"}):
        said = failure("kvm1", "_resize", fleet_url, state="begun", instance="web", **wanted)
        assert words in said and "Instance web is not moved from kvm1 to kvm" in said
        assert "drover_despite_policy=true" in said
    assert fleets.snapshot(fleet_url) == before and acts(there) == []
    (told,) = run("instance_info", store_url=fleet_url, instances=["web"])["instances"]
    assert bool(told["kept_by_policy"]) is (policy["move"] != "live"), "a live one moves live"
    assert (
        step(fleet_url, "begun", flavor="big", despite_policy=True)["resize"]["destination"]
        != "kvm1"
    )


def test_a_policy_is_not_asked_about_a_resize_on_the_same_host(fleet_url, there):
    fleets.discover(fleet_url, host("kvm1", domain("web", disk_gb=1, metadata={"move": "never"})))
    assert step(fleet_url, "begun", flavor="big")["resize"]["same_host"] is True


@pytest.mark.parametrize(
    ("move", "state", "cold", "kept"),
    [
        ("cold", "running", True, None),
        ("cold", "shutoff", False, None),
        ("cold", "paused", True, "it is paused and its migration policy is 'cold'"),
        ("live", "running", False, None),
        ("live", "shutoff", False, "it is shut off and its migration policy is 'live'"),
        ("never", "running", False, "its migration policy is 'never'"),
    ],
)
def test_what_is_told_of_a_policy(fleet_url, move, state, cold, kept):
    fleets.discover(fleet_url, host("kvm1", domain("web", state=state, metadata={"move": move})))
    (instance,) = run("instance_info", store_url=fleet_url, instances=["web"])["instances"]
    assert instance["moves_cold"] is cold
    assert (
        instance["kept_by_policy"] is None
        if kept is None
        else instance["kept_by_policy"].startswith(kept)
    )


def test_both_ways_of_a_resize_take_the_options_of_migrations(fleet_url, there):
    with_policy(fleet_url, move="cold", migration='{"copy_storage": "never"}')
    options = {"bandwidth_mib": "20", "copy_storage": "auto"}
    resize = step(fleet_url, "begun", host="kvm2", options=options)["resize"]
    for way in ("order", "back"):
        assert (resize[way]["bandwidth_mib"], resize[way]["copy_storage"]) == (
            20,
            "never",
        ), "the policy is the stronger"
    assert step(fleet_url, "left")["resize"]["back"].keys() & {"bandwidth_mib", "copy_storage"} == {
        "copy_storage"
    }
    for wrong, words in (
        ({"bandwidth_mib": 0}, "give 1 or more"),
        ({"speed": 1}, "Correct drover_migration"),
    ):
        assert words in failure(
            "kvm1", "_resize", fleet_url, state="left", instance="web", options=wrong
        )


@pytest.mark.parametrize("done", ["running", "stopped", "absent"])
def test_what_is_done_by_hand_is_nothing_for_undrain(fleet_url, there, done):
    for name in ("web", "db"):
        run("host", name="kvm1", state="draining", shuts_down=[uuid_of(name)], store_url=fleet_url)
    off = [domain(name, disk_gb=1, state="shutoff") for name in ("web", "db")]
    fleets.discover(fleet_url, host("kvm1", *off))
    for each in there.hosts["kvm1"].domains().values():
        each.destroy()
    answer = run("host", name="kvm1", state="restored", store_url=fleet_url, check=True)
    assert [each["name"] for each in answer["to_start"]] == ["db", "web"]
    on("kvm1", "instance", fleet_url, state=done, instances=["db"], check=True)
    on("kvm1", "instance", fleet_url, state=done, instances=["web"])
    answer = run("host", name="kvm1", state="restored", store_url=fleet_url)
    assert answer["changed"] is True and answer["to_start"] == [
        {"uuid": uuid_of("db"), "name": "db"}
    ]
    answer = run("host", name="kvm1", state="restored", store_url=fleet_url)
    assert answer["changed"] is False and answer["to_start"] == [
        {"uuid": uuid_of("db"), "name": "db"}
    ]


def test_c2_a_size_that_somebody_has_changed_by_hand_is_not_taken_back(fleet_url, there):
    """The store still has 1 vCPU: a size without a new value would change."""
    domain = there.hosts["kvm1"].domains()[uuid_of("web")]
    domain.destroy()
    for flags in (
        libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_VCPU_MAXIMUM,
        libvirt.VIR_DOMAIN_AFFECT_CONFIG,
    ):
        domain.setVcpusFlags(3, flags)
    for size in ({"memory_mb": 128}, {"vcpus": 2}):
        with pytest.raises(
            AnsibleActionFail,
            match=(
                "has 3 vCPU and 64 MiB, and the store has 1 vCPU and 64"
                " MiB.*drover.compute.discover"
            ),
        ):
            resize(fleet_url, **size)
    with pytest.raises(AnsibleActionFail, match="has 3 vCPU and 64 MiB"):
        run("instance_migrate", store_url=fleet_url, instances=["web"], cold=True, host="kvm2")
    assert at(there, "kvm1")["vcpus"] == 3


def test_b4_a_resize_goes_on_with_one_that_somebody_has_started_at_its_destination(
    fleet_url, there
):
    """It was moved there with its old size, and the run was killed. The run stops it for the
    changes that need it to be off."""
    step(fleet_url, "begun", flavor="big", host="kvm2")
    step(fleet_url, "left")
    move(there, "web", "kvm1", "kvm2")
    there.hosts["kvm2"].domains()[uuid_of("web")].create()
    assert resize(fleet_url, flavor="big")["resizes"][0]["arrived"] is True
    assert (at(there, "kvm2")["vcpus"], at(there, "kvm2")["state"]) == (2, "running") and at(
        there, "kvm1"
    ) is None

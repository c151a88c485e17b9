# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""kvm1 comes back with the definition of app, which was evacuated to kvm2: a discovery removes it
only while kvm2 shows app.
"""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleConnectionFailure

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._restart import restart
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

HOSTS = ["kvm1", "kvm2", "kvm3"]
GROUPS = {"groups": {"all": HOSTS, "hypervisors": HOSTS}}
RULES = ["many_down", "just_started", "too_early", "quiet_time"]


def discover(url, *hosts, **more):
    """Discover hosts, and return the result of the last one."""
    for host in hosts:
        answer = run(
            "compute_node",
            {"inventory_hostname": host, "drover_cpu_allocation_ratio": 4.0, **GROUPS},
            store_url=url,
            **more,
        )
    return answer


def evacuate(url, host):
    others = [each for each in HOSTS if each != host]
    evacuation = {"host": host, "others": others, "force": RULES, "store_url": url}
    run("evacuate", GROUPS, state="judged", said=f"{host} is powered off", **evacuation)
    run("evacuate", GROUPS, state="restarted", read=others, unmovable="skip", **evacuation)


def die(url, there, host):
    """Cut the power of a host, and discover all hosts."""
    there.hosts[host].power_off()
    discover(url, *(each for each in HOSTS if each != host and there.hosts[each].on))
    with pytest.raises(AnsibleConnectionFailure):
        discover(url, host)


@pytest.fixture
def url(fleet_url, there, capsys):
    there.hosts["kvm1"].define("app", uuid_of("app"))
    discover(fleet_url, *HOSTS)
    there.hosts["kvm1"].power_off()
    with pytest.raises(AnsibleConnectionFailure):
        discover(fleet_url, "kvm1")
    evacuate(fleet_url, "kvm1")
    there.hosts["kvm1"].power_on()
    assert there.where()["app"] == [("kvm1", "shutoff"), ("kvm2", "running")]
    there.calls.clear()
    capsys.readouterr()
    return fleet_url


def said(capsys):
    """Return the output in one line, for any width of the terminal."""
    return " ".join(capsys.readouterr().out.split())


def asked(there):
    """Return the modules that looked for app on kvm2, and that removed its definition from kvm1, in
    their order."""
    names = [(host, module.rpartition(".")[2]) for host, module, *_rest in there.calls]
    return [
        each for each in names if each in (("kvm2", "_domain_order"), ("kvm1", "_domain_restart"))
    ]


def test_it_is_removed_after_its_new_host_has_shown_it(url, there, capsys):
    discover(url, "kvm1", check=True)
    assert there.where()["app"] == [("kvm1", "shutoff"), ("kvm2", "running")]
    assert "kvm1: would remove the stale definition of app, which was evacuated" in said(capsys)
    there.calls.clear()
    discover(url, "kvm1")
    assert there.where()["app"] == [("kvm2", "running")] and fleets.where(url)["app"] == "kvm2"
    assert asked(there) == [("kvm2", "_domain_order"), ("kvm1", "_domain_restart")]
    assert "kvm1: removed the stale definition of app, which was evacuated" in said(capsys)


@pytest.mark.parametrize("silent", ["reached", "libvirt"])
def test_it_stays_while_its_new_host_does_not_answer(url, there, capsys, silent):
    setattr(there.hosts["kvm2"], silent, False)
    discover(url, "kvm1")
    assert there.where()["app"] == [("kvm1", "shutoff"), ("kvm2", "running")] and (
        "kvm1",
        "_domain_restart",
    ) not in asked(there)
    assert (
        "kvm1: kept the definition of app, which was evacuated from here to kvm2, as kvm2 did not"
        " answer: it may be the only one" in said(capsys)
    )
    setattr(there.hosts["kvm2"], silent, True)
    discover(url, "kvm1")
    assert there.where()["app"] == [("kvm2", "running")]


def test_it_stays_where_its_new_host_does_not_show_it(url, there, capsys):
    """A person has moved it back, or the store is older than the move."""
    moved = there.hosts["kvm2"].domains()[uuid_of("app")]
    moved.destroy()
    moved.undefine()
    discover(url, "kvm1")
    assert there.where()["app"] == [("kvm1", "shutoff")] and asked(there) == [
        ("kvm2", "_domain_order")
    ]
    assert "to kvm2, as kvm2 does not show it: it may be the only one" in said(capsys)


def test_one_that_was_moved_on_by_hand_is_where_it_runs(url, there, capsys):
    """Before kvm3 is read, nothing shows that the definition on kvm1 is old. After that, a
    discovery of kvm1 looks at kvm3 too.
    """
    there.moved(
        there.hosts["kvm2"], there.hosts["kvm3"], there.hosts["kvm2"].domains()[uuid_of("app")]
    )
    discover(url, "kvm1")
    assert "to kvm2, as kvm2 does not show it: it may be the only one" in said(capsys)
    discover(url, "kvm2", "kvm3")
    held = fleets.holdings(url)[uuid_of("app")]
    assert "kvm1" in held
    discover(url, "kvm1")
    assert there.where()["app"] == [
        ("kvm3", "running")
    ] and "kvm1: removed the stale definition of app" in said(capsys)
    discover(url, "kvm3")
    assert fleets.where(url)["app"] == "kvm3" and set(fleets.holdings(url)[uuid_of("app")]) == {
        "kvm3"
    }


def test_one_that_is_shut_off_on_a_third_host_shows_nothing(url, there):
    """The definition on kvm2 may be old too, and the one on kvm1 the only good one."""
    there.moved(
        there.hosts["kvm2"], there.hosts["kvm3"], there.hosts["kvm2"].domains()[uuid_of("app")]
    )
    there.hosts["kvm3"].domains()[uuid_of("app")].destroy()
    discover(url, "kvm2", "kvm3", "kvm1", "kvm1")
    assert there.where()["app"] == [("kvm1", "shutoff"), ("kvm3", "shutoff")]


def test_it_is_not_started_where_it_was_before_all_others_were_read(url, there):
    """It runs on kvm3, whose last discovery was before the move. So the shut-off definition on kvm1
    does not count as the instance.
    """
    there.moved(
        there.hosts["kvm2"], there.hosts["kvm3"], there.hosts["kvm2"].domains()[uuid_of("app")]
    )
    for _time in range(2):
        discover(url, "kvm1")
        assert fleets.where(url)["app"] == "kvm2"


def test_one_that_runs_on_its_old_host_is_not_touched(url, there):
    there.hosts["kvm1"].domains()[uuid_of("app")].create()
    discover(url, "kvm1")
    assert there.where()["app"] == [("kvm1", "running"), ("kvm2", "running")] and (
        "kvm1",
        "_domain_restart",
    ) not in asked(there)


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (
            "failed",
            "no space is left.",
            "app, which was evacuated, was not removed: no space is left. While",
        ),
        ("running", "", "app, which was evacuated, was started there while"),
    ],
)
def test_a_removal_that_fails_is_said(url, there, capsys, monkeypatch, status, message, words):
    """The definition stays, in the record too, and a later discovery removes it."""
    with monkeypatch.context() as patch:
        patch.setattr(restart, "_forget_alone", lambda *dummy: (status, message))
        answer = discover(url, "kvm1")
    assert there.where()["app"] == [("kvm1", "shutoff"), ("kvm2", "running")]
    (warning,) = answer["warnings"]
    assert warning.startswith("kvm1: ") and words in warning
    assert answer["stale"] == ["app"] and "removed the stale definition" not in said(capsys)
    discover(url, "kvm1")
    assert there.where()["app"] == [("kvm2", "running")]


def test_its_new_host_dies_before_anybody_has_read_the_old_one(url, there, capsys):
    """The definition that the first evacuation left does not stop a restart, and is removed when
    the newest host has shown the instance."""
    die(url, there, "kvm2")
    evacuate(url, "kvm2")
    assert (
        there.where()["app"] == [("kvm1", "shutoff"), ("kvm2", "shutoff"), ("kvm3", "running")]
        and fleets.where(url)["app"] == "kvm3"
    )
    discover(url, "kvm3", "kvm1")
    assert there.where()["app"] == [("kvm2", "shutoff"), ("kvm3", "running")]


def test_its_new_host_dies_and_only_the_old_one_has_room(url, there, capsys):
    """The two do not wait for each other: the old host comes back with its kept definition, and the
    instance is restarted there."""
    run("host", store_url=url, host="kvm3", state="disabled", reason="a new fan")
    die(url, there, "kvm2")
    evacuate(url, "kvm2")
    assert there.where()["app"] == [("kvm1", "shutoff"), ("kvm2", "shutoff")]
    run("undrain", GROUPS, store_url=url, host="kvm1")
    assert there.where()["app"] == [
        ("kvm1", "shutoff"),
        ("kvm2", "shutoff"),
    ], "nobody has said that it is to start"
    evacuate(url, "kvm2")
    assert (
        there.where()["app"] == [("kvm1", "running"), ("kvm2", "shutoff")]
        and fleets.where(url)["app"] == "kvm1"
    )
    discover(url, "kvm1", "kvm3")
    assert there.where()["app"] == [("kvm1", "running"), ("kvm2", "shutoff")]
    there.hosts["kvm2"].power_on()
    discover(url, "kvm2")
    assert there.where()["app"] == [("kvm1", "running")]


def test_b1_the_dead_host_does_not_boot_while_it_starts_what_was_evacuated(fleet_url, there):
    """Until a discovery has removed the old definition. A guest without autostart, and one that has
    left the host in a live move, hold back nothing."""
    there.hosts["kvm1"].define("app", uuid_of("app")).setAutostart(1)
    there.hosts["kvm1"].define("plain", uuid_of("plain"))
    discover(fleet_url, *HOSTS)
    die(fleet_url, there, "kvm1")
    evacuate(fleet_url, "kvm1")
    sentence = failure("_autostart", GROUPS, store_url=fleet_url, host="kvm1")
    assert (
        "starts app with the host" in sentence
        and "app is on kvm2 (running) too" in sentence
        and "plain" not in sentence
    )
    there.hosts["kvm1"].power_on()
    discover(fleet_url, "kvm1", "kvm2", "kvm3")
    assert run("_autostart", GROUPS, store_url=fleet_url, host="kvm1")["changed"] is False


def test_b1_a_drained_host_boots(fleet_url, there):
    there.hosts["kvm1"].define("app", uuid_of("app")).setAutostart(1)
    discover(fleet_url, *HOSTS)
    run("drain", GROUPS, store_url=fleet_url, host="kvm1", unmovable="skip")
    assert fleets.where(fleet_url)["app"] != "kvm1"
    assert run("_autostart", GROUPS, store_url=fleet_url, host="kvm1")["changed"] is False

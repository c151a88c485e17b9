# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions about a host that does not answer: the table of rule S2, the clock of rule S3, the
flags of rule S13."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._evacuation.fencing import (
    HARD_FENCE,
    LIFTABLE,
    NOTHING,
    RESTART,
    RULES,
    SOFT_FENCE,
    WAIT,
    WORD,
    Evidence,
    Limits,
    decide,
)

#: Network state -> the facts about it.
NETWORK = {
    "ssh": {"ssh": True, "peers": {"kvm2": True}},
    "ssh, restarted in vain": {"ssh": True, "soft_fenced": True, "peers": {"kvm2": True}},
    "peers": {"peers": {"kvm2": False, "kvm3": True}},
    "nobody": {"peers": {"kvm2": False, "kvm3": None}},
    "not asked": {"peers": {"kvm2": None}},
}
#: network, storage ("*": any), power -> the decision, and its rule.
TABLE = {
    ("ssh", "*", "on"): (SOFT_FENCE, None),
    ("ssh", "*", "unknown"): (SOFT_FENCE, None),
    ("ssh", "*", "none"): (SOFT_FENCE, None),
    ("ssh", "*", "off"): (NOTHING, "contradiction"),
    ("ssh, restarted in vain", "*", "on"): (HARD_FENCE, None),
    ("ssh, restarted in vain", "*", "unknown"): (HARD_FENCE, None),
    ("ssh, restarted in vain", "*", "none"): (WORD, "no_driver"),
    ("ssh, restarted in vain", "*", "off"): (NOTHING, "contradiction"),
    ("peers", "*", "on"): (NOTHING, "peers_reach"),
    ("peers", "*", "unknown"): (NOTHING, "peers_reach"),
    ("peers", "*", "none"): (NOTHING, "peers_reach"),
    ("peers", "*", "off"): (NOTHING, "contradiction"),
    ("nobody", "active", "on"): (WAIT, "storage_active"),
    ("nobody", "active", "unknown"): (WAIT, "storage_active"),
    ("nobody", "active", "none"): (WAIT, "storage_active"),
    ("nobody", "silent", "on"): (HARD_FENCE, None),
    ("nobody", "silent", "unknown"): (HARD_FENCE, None),
    ("nobody", "silent", "none"): (WORD, "no_driver"),
    ("nobody", "unknown", "on"): (HARD_FENCE, None),
    ("nobody", "unknown", "unknown"): (HARD_FENCE, None),
    ("nobody", "unknown", "none"): (WORD, "no_driver"),
    # Locks may outlive a host. If they cannot, another machine is off.
    ("nobody", "active", "off"): (WAIT, "storage_active"),
    ("nobody", "silent", "off"): (RESTART, None),
    ("nobody", "unknown", "off"): (RESTART, None),
    ("not asked", "*", "on"): (NOTHING, "no_witness"),
    ("not asked", "*", "unknown"): (NOTHING, "no_witness"),
    ("not asked", "*", "none"): (NOTHING, "no_witness"),
    ("not asked", "active", "off"): (WAIT, "storage_active"),
    ("not asked", "silent", "off"): (RESTART, None),
    ("not asked", "unknown", "off"): (RESTART, None),
}
EVERY = sorted(
    itertools.product(NETWORK, ("active", "silent", "unknown"), ("on", "off", "unknown", "none"))
)
CLOCK = {
    "maintenance": {"maintenance": True},
    "many_down": {"hosts": 3, "down": 2},
    "just_started": {"started": 299},
    "too_early": {"unseen": 59},
    "quiet_time": {"fenced": 179},
}
CALM = {"peers": {"kvm2": False}, "power": "on", "started": 301, "unseen": 61, "fenced": 181}


def evidence(**known):
    return Evidence("kvm1", **known)


@pytest.mark.parametrize("network, storage, power", EVERY)
def test_network_storage_power(network, storage, power):
    expected = TABLE.get((network, storage, power)) or TABLE[network, "*", power]
    decision = decide(evidence(**NETWORK[network], storage=storage, power=power))
    assert (decision.act, decision.rule) == expected
    assert "kvm1" in decision.sentence and decision.sentence.endswith((".", "rule."))


@pytest.mark.parametrize("network, storage, power", EVERY)
def test_a_persons_word_is_taken_unless_something_speaks_against_it(network, storage, power):
    facts = evidence(**NETWORK[network], storage=storage, power=power, said=True)
    decision = decide(facts)
    if network in ("ssh", "ssh, restarted in vain", "peers"):
        assert (decision.act, decision.rule) == (NOTHING, "contradiction")
    elif power == "on":
        # A person may have switched off another machine, or the driver is broken and the operator
        # says so too.
        assert (decision.act, decision.rule) == (NOTHING, "driver_says_on")
        lifted = decide(facts, lifted=["driver_says_on"])
        assert (lifted.act, lifted.rule) == (
            (WAIT, "storage_active") if storage == "active" else (RESTART, None)
        )
        assert decide(facts, lifted=["driver_says_on", "storage_active"]).act == RESTART
    elif storage == "active":
        assert (decision.act, decision.rule) == (WAIT, "storage_active")
        assert decide(facts, lifted=["storage_active"]).act == RESTART
    else:
        assert (decision.act, decision.rule) == (RESTART, None)


@pytest.mark.parametrize("rule", sorted(CLOCK))
def test_not_now_without_a_power_driver(rule):
    """The fence may cut the host from its storage instead of its power; rule S3 applies to that
    too."""
    known = evidence(**{**CALM, **CLOCK[rule], "power": "none"})
    assert (decide(known).act, decide(known).rule) == (WAIT, rule)
    assert decide(known, lifted=[rule]).act == WORD
    # A person who says that the host is off need not wait.
    assert decide(evidence(**{**CALM, **CLOCK[rule], "power": "none", "said": True})).act == RESTART


@pytest.mark.parametrize("rule", sorted(CLOCK))
def test_not_now(rule):
    """Rule S3: each of them alone holds fencing back."""
    assert decide(evidence(**CALM)).act == HARD_FENCE
    decision = decide(evidence(**{**CALM, **CLOCK[rule]}))
    assert (decision.act, decision.rule) == (WAIT, rule)
    assert f"drover_evacuate_force={rule}" in decision.sentence


@pytest.mark.parametrize(
    "field, limit, rule",
    [("started", 300, "just_started"), ("unseen", 60, "too_early"), ("fenced", 180, "quiet_time")],
)
def test_as_time_goes_by(field, limit, rule):
    for second in range(limit + 30):
        decision = decide(evidence(**{**CALM, field: second}))
        if second < limit:
            assert decision.rule == rule and f"again in {limit - second + 1} s" in decision.sentence
        else:
            assert decision.act == HARD_FENCE
    assert decide(evidence(**{**CALM, field: None})).act == HARD_FENCE
    limits = Limits(
        **{
            {"started": "start_seconds", "unseen": "down_seconds", "fenced": "quiet_seconds"}[
                field
            ]: 5
        }
    )
    assert decide(evidence(**{**CALM, field: 5}), limits).act == HARD_FENCE
    assert decide(evidence(**{**CALM, field: 4}), limits).rule == rule


@pytest.mark.parametrize("hosts", range(1, 13))
def test_share_of_the_fleet(hosts):
    """One dead host in the smallest fleet is still one dead host; half of a larger fleet is
    more.
    """
    for down in range(1, hosts + 1):
        decision = decide(evidence(**{**CALM, "hosts": hosts, "down": down}))
        assert (decision.rule == "many_down") == (down > 1 and 2 * down >= hosts)
    assert (
        decide(evidence(**{**CALM, "hosts": 10, "down": 3}), Limits(down_percent=30)).rule
        == "many_down"
    )


def test_a_fleet_that_loses_its_network_and_gets_it_back():
    """The clock runs: the host dies at 0, half the fleet is silent from 100 to 200,
    another host is fenced at 210."""
    acts = []
    for now in range(0, 420, 10):
        facts = {
            **CALM,
            "started": 1000,
            "unseen": now,
            "hosts": 4,
            "down": 2 if 100 <= now < 200 else 1,
            "fenced": now - 210 if now >= 210 else None,
        }
        rule = decide(evidence(**facts)).rule
        if not acts or acts[-1][1] != rule:
            acts.append((now, rule))
    assert acts == [
        (0, "too_early"),
        (60, None),
        (100, "many_down"),
        (200, None),
        (210, "quiet_time"),
        (390, None),
    ]


def test_nothing_of_this_holds_back_what_is_off_already():
    everything = {key: value for more in CLOCK.values() for key, value in more.items()}
    assert decide(evidence(**{**CALM, **everything, "power": "off"})).act == RESTART
    assert decide(evidence(**{**CALM, **everything, "power": "none", "said": True})).act == RESTART


def test_a_host_that_refuses_the_login_lives():
    """Nothing proves that its libvirt is dead, and the libvirt cannot be restarted."""
    for power in ("on", "unknown", "none"):
        assert decide(evidence(**{**CALM, "refused": True, "power": power})).rule == "login_refused"
    assert decide(evidence(refused=True, power="off")).rule == "contradiction"
    assert decide(evidence(refused=True, said=True)).rule == "contradiction"


@pytest.mark.parametrize(
    "known", [{"power": "off"}, {"power": "none", "said": True}, {"power": "unknown", "said": True}]
)
def test_safety_13_disks_in_use_hold_back_a_restart_too(known):
    """A person may be at the wrong machine, or the management controller may belong to another one;
    the locks are the evidence for the guests."""
    seen = evidence(**{**CALM, **known, "storage": "active"})
    decision = decide(seen)
    assert (decision.act, decision.rule) == (WAIT, "storage_active")
    assert (
        "disks of its instances are in use" in decision.sentence
        and "-e drover_evacuate_force=storage_active," in decision.sentence
    )
    assert decide(seen, lifted=["storage_active"]).act == RESTART
    assert (
        decide(seen, lifted=[each for each in LIFTABLE if each != "storage_active"]).rule
        == "storage_active"
    )
    for storage in ("silent", "unknown"):
        assert decide(evidence(**{**CALM, **known, "storage": storage})).act == RESTART


@pytest.mark.parametrize(
    "power, said", list(itertools.product(("on", "off", "unknown", "none"), (False, True)))
)
def test_safety_14_what_nobody_understands_is_no_silence(power, said):
    facts = evidence(**{**CALM, "power": power, "said": said, "unclear": "Something odd happened."})
    decision = decide(facts, lifted=["driver_says_on"])
    assert (decision.act, decision.rule) == (NOTHING, "unclear_answer")
    assert "which says: Something odd happened. Correct" in decision.sentence
    assert decide(facts, lifted=["driver_says_on", "unclear_answer"]).act in (
        RESTART,
        HARD_FENCE,
        WORD,
    )


def test_in_maintenance_libvirt_is_not_restarted_either():
    known = {"ssh": True, "maintenance": True, "power": "on"}
    assert decide(evidence(**known)).rule == "maintenance"
    assert decide(evidence(**known), lifted=["maintenance"]).act == SOFT_FENCE


BROKEN = {
    **CLOCK,
    "peers_reach": {"peers": {"kvm2": True}},
    "no_witness": {"peers": {}},
    "storage_active": {"storage": "active"},
    "driver_says_on": {"said": True},
    "login_refused": {"refused": True},
    "unclear_answer": {"unclear": "Something odd happened"},
}


def test_every_rule_that_can_be_lifted_is_tested():
    assert set(BROKEN) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_flag_lifts_just_its_rule(rule):
    """Rule S13: the message names the flag. The flag lifts that rule, and no other flag lifts
    it.
    """
    broken = evidence(**{**CALM, **BROKEN[rule]})
    decision = decide(broken)
    assert decision.rule == rule and f"-e drover_evacuate_force={rule}," in decision.sentence
    assert decide(broken, lifted=[rule]).act == (RESTART if broken.said else HARD_FENCE)
    assert decide(broken, lifted=[each for each in LIFTABLE if each != rule]).rule == rule
    for other in set(RULES) - {rule}:
        # These facts exclude each other.
        if {rule, other} != {"peers_reach", "no_witness"} and "driver_says_on" not in (rule, other):
            both = evidence(**{**CALM, **BROKEN[rule], **BROKEN[other]})
            assert decide(both, lifted=[rule]).rule == other


def test_no_flag_replaces_the_proof_that_it_is_off():
    """Rule S1: with every rule lifted, a host without a driver still needs the word of a person."""
    assert decide(evidence(peers={"kvm2": False}), lifted=LIFTABLE).act == WORD
    assert decide(evidence(ssh=True, power="off"), lifted=LIFTABLE).act == NOTHING
    assert decide(evidence(ssh=True, said=True), lifted=LIFTABLE).act == NOTHING

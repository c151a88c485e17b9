# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do about a host that does not answer (rules S2 and S3). Data in, data out.

Gently first: look from several places, restart its libvirt, wait, and only then cut its power. That it is off
is for the power driver to confirm afterwards (rule S1); nothing here replaces that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, refuse_unknown_rules

# What to do next.
NOTHING, SOFT_FENCE, WAIT, HARD_FENCE, WORD, RESTART = "nothing", "soft_fence", "wait", "hard_fence", "word", "restart"

#: What holds back fencing or an evacuation as a whole, see decide().
RULES = (
    "driver_says_on",
    "login_refused",
    "unclear_answer",
    "peers_reach",
    "no_witness",
    "storage_active",
    "maintenance",
    "many_down",
    "just_started",
    "too_early",
    "quiet_time",
)
#: The rule that holds back single restarts, see conductor.dead_host: an instance may be on any host that was not read.
UNREAD_HOSTS = "unread_hosts"
#: What an operator can lift, each by its own name (rule S13).
LIFTABLE = (*RULES, UNREAD_HOSTS)


@dataclasses.dataclass(frozen=True)
class Limits:
    """Times in seconds. What oVirt has: 300 s after a start, 180 s between fencings, half of the fleet."""

    down_seconds: int = 60
    start_seconds: int = 300
    quiet_seconds: int = 180
    down_percent: int = 50

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Limits:
        """From a mapping with an option for each.

        :raises DroverError: one is negative.
        """
        for each in dataclasses.fields(cls):
            if options[each.name] < 0:
                raise DroverError(f"{each.name} must be 0 or more, not {options[each.name]}.")
        return cls(**{each.name: options[each.name] for each in dataclasses.fields(cls)})


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What is known of the host now.

    ssh: it answers the controller over SSH; its libvirt does not, or nobody would ask.
    refused: it answers over SSH or TCP and lets nobody in, so that nothing is known of its libvirt.
    unclear: what SSH said, where that is neither known for an answer nor for silence.
    peers: dict name of another hypervisor -> True (it gets an answer), False, or None (it could not be asked).
    storage: active (its disks are locked, as a peer sees it), silent or unknown.
    power: on, off or unknown, as its driver says; none where it has no driver that can tell.
    said: a person says that it is off.
    soft_fenced: its libvirt was restarted in this run, and does not answer.
    hosts, down: how many hosts the fleet has that are not in maintenance, and how many of them are down, with this one.
    unseen: seconds since it was last seen up; None where it never was.
    started: seconds since the controller started; None where that is not known.
    fenced: seconds since the last host of the fleet was fenced; None where none was.
    """

    host: str
    ssh: bool = False
    refused: bool = False
    unclear: str = ""
    peers: dict = dataclasses.field(default_factory=dict)
    storage: str = "unknown"
    power: str = "none"
    said: bool = False
    soft_fenced: bool = False
    maintenance: bool = False
    hosts: int = 3
    down: int = 1
    unseen: float | None = None
    started: float | None = None
    fenced: float | None = None


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to do, the rule that says so (None where none holds it back), and a sentence for the operator."""

    act: str
    rule: str | None
    sentence: str


def rules_lifted(names: Iterable[str]) -> set[str]:
    """The rules that an operator lifts, by their names: a set.

    :raises DroverError: one of them does not exist.
    """
    found = {name.strip() for name in names} - {""}
    refuse_unknown_rules(found, LIFTABLE)
    return found


def decide(evidence, limits=Limits(), lifted=()):
    """What to do next about a host whose libvirt does not answer.

    :param lifted: names of rules that the operator lifts, of LIFTABLE.
    :returns: a Decision.
    """
    host, reached = evidence.host, sorted(name for name, answer in evidence.peers.items() if answer)
    alive = ""
    if evidence.ssh:
        alive = "it answers over SSH"
    elif evidence.refused:
        alive = "it answers, though it lets nobody in"
    elif reached:
        alive = f"{' and '.join(reached)} can reach it"
    if evidence.power == "off":
        if alive:
            return Decision(
                NOTHING,
                "contradiction",
                f"The power driver of {host} says that it is off, but {alive}: that is not its power, or not the truth. "
                "Correct drover_power_address.",
            )
        held_back = _first([*_unclear(evidence), *_in_use(evidence)], lifted)
        return held_back or Decision(RESTART, None, f"{host} is off, as its power driver says, and nobody can reach it.")
    if evidence.said:
        if alive:
            sentence = f"You say that {host} is powered off, but {alive}. Its instances may run. Switch it off first"
            return Decision(NOTHING, "contradiction", f"{sentence}, or leave out drover_host_is_off where it has a power driver.")
        held_back = _first([*_says_on(evidence), *_unclear(evidence), *_in_use(evidence)], lifted)
        return held_back or Decision(RESTART, None, f"{host} is off, as a person says, and nobody can reach it.")
    if evidence.ssh and not evidence.soft_fenced and (not evidence.maintenance or "maintenance" in lifted):
        return Decision(SOFT_FENCE, None, f"{host} answers over SSH, only its libvirt does not: restart that, its instances go on.")
    held_back = _first(_lives(evidence, reached), lifted)
    if held_back is None and evidence.power == "none":
        sentence = f"{host} has no power driver that can tell that it is off: go and see"
        return Decision(WORD, "no_driver", f"{sentence}{', and switch it off, as it answers over SSH' if evidence.ssh else ''}.")
    held_back = held_back or _first(_not_now(evidence, limits), lifted)
    if held_back is not None:
        return held_back
    says = "says that it is on" if evidence.power == "on" else "does not say; only what it confirms counts"
    return Decision(HARD_FENCE, None, f"{host} is to be cut off: its power driver {says}.")


def _first(rules, lifted):
    """The Decision by the first rule that holds and is not lifted, or None."""
    for rule, act, sentence in rules:
        if rule not in lifted:
            with_force = f"{sentence} To go on all the same: -e drover_evacuate_force={rule}, which lifts just this rule."
            return Decision(act, rule, with_force)
    return None


def _says_on(evidence):
    """A person and the power driver do not say the same: somebody may have switched off another machine."""
    if evidence.power == "on":
        yield (
            "driver_says_on",
            NOTHING,
            f"You say that {evidence.host} is powered off, but its power driver says that it is on. See that it is this machine that is "
            "off; or leave out drover_host_is_off, and the driver cuts its power.",
        )


def _unclear(evidence):
    """Silence is only what is known to be silence: all else may be a host that lives."""
    if evidence.unclear:
        yield (
            "unclear_answer",
            NOTHING,
            f"It is not known whether {evidence.host} answers over SSH, which says: {evidence.unclear.rstrip('.')}. See that this controller "
            "reaches the way to it (its name, its proxy, its keys), and run this again.",
        )


def _in_use(evidence):
    """Locks on its disks, as a peer sees them: of all that is seen the strongest sign that its guests run."""
    if evidence.storage == "active":
        yield (
            "storage_active",
            WAIT,
            f"Nobody can reach {evidence.host}, but disks of its instances are in use: they run, or its locks have not run out yet. "
            "See that it is this machine that is off or cut off, mend its network, or run this again in some minutes. Where some were "
            "started on other hosts by hand, run drover.compute.discover first, which finds them there.",
        )


def _lives(evidence, reached):
    """What shows that it may live: (rule, act, sentence), the most telling first."""
    host = evidence.host
    if evidence.refused:
        yield (
            "login_refused",
            NOTHING,
            f"{host} answers and refuses the login: it lives, or another machine has its address. Correct the user or the "
            "keys, and run this again.",
        )
    yield from _unclear(evidence)
    if not evidence.ssh:
        if reached:
            yield (
                "peers_reach",
                NOTHING,
                f"{host} does not answer here, but {' and '.join(reached)} can reach it: it lives, and only the network between "
                "this controller and it is broken. Mend that.",
            )
        elif not any(answer is False for answer in evidence.peers.values()):
            yield (
                "no_witness",
                NOTHING,
                f"{host} does not answer here, and no other host could be asked whether it lives: it may be the network of this "
                "controller that is broken. See that the other hosts can be reached.",
            )
        yield from _in_use(evidence)


def _not_now(evidence, limits):
    """Why it is not cut off now, though it may well be dead."""
    host = evidence.host
    if evidence.maintenance:
        yield "maintenance", WAIT, f"{host} is in maintenance, so that somebody may be at work on it. Ask them."
    if evidence.down > 1 and evidence.down * 100 >= limits.down_percent * evidence.hosts:
        yield (
            "many_down",
            WAIT,
            f"{evidence.down} of {evidence.hosts} hosts look dead at the same time: that is a network, a power supply or a storage more "
            "often than that many hosts. Find out which; run drover.compute.discover to see who is back.",
        )
    if evidence.started is not None and evidence.started < limits.start_seconds:
        yield (
            "just_started",
            WAIT,
            f"This controller started {int(evidence.started)} s ago, and {host} may be starting too. "
            f"Run this again in {_left(limits.start_seconds, evidence.started)} s.",
        )
    if evidence.unseen is not None and evidence.unseen < limits.down_seconds:
        yield (
            "too_early",
            WAIT,
            f"{host} was seen up {int(evidence.unseen)} s ago: it may only be restarting. "
            f"Run this again in {_left(limits.down_seconds, evidence.unseen)} s.",
        )
    if evidence.fenced is not None and evidence.fenced < limits.quiet_seconds:
        yield (
            "quiet_time",
            WAIT,
            f"A host was fenced {int(evidence.fenced)} s ago, and one at a time is enough until that has settled. "
            f"Run this again in {_left(limits.quiet_seconds, evidence.fenced)} s.",
        )


def _left(limit, passed):
    return int(limit - passed) + 1

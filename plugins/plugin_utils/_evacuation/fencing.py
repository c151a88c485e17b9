# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision about a host that does not answer (rules S2 and S3).

The gentle steps come first: check the host from several places, restart its libvirt and wait. The
last step cuts its power. Afterwards the power driver must confirm that the host is off (rule S1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._common.errors import DroverError, as_sentence, refuse_unknown_rules
from . import host_answer

#: The next step.
NOTHING, SOFT_FENCE, WAIT, HARD_FENCE, WORD, RESTART = (
    "nothing",
    "soft_fence",
    "wait",
    "hard_fence",
    "word",
    "restart",
)

#: The rules that prevent fencing or an evacuation as a whole, see decide().
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
#: The rule that prevents single restarts, see conductor.dead_host: an instance may be on a host
#: that was not read.
UNREAD_HOSTS = "unread_hosts"
#: Another such rule: the host died during a change of a disk of the instance, so the image with the
#: newest data is unknown.
OPEN_DISK_CHANGE = "open_disk_change"
#: The names of the rules that an operator can lift (rule S13).
LIFTABLE = (*RULES, UNREAD_HOSTS, OPEN_DISK_CHANGE)
#: Reasons why a host answers but refuses the login -> (how it answers, the remedy).
REFUSALS = {
    host_answer.BY_LOGIN: ("refuses the login", "Correct the user or the keys"),
    host_answer.BY_KEY: (
        "has a host key that this controller does not accept",
        "See whether it is that machine, and correct its key in known_hosts",
    ),
    host_answer.BY_PORT: (
        "refuses connections to its SSH port",
        "Start its SSH server from its console, or correct ansible_port or the firewall",
    ),
    host_answer.BY_SERVER: (
        "takes a connection to its SSH port and lets nobody log in",
        "See to its SSH server from its console",
    ),
    host_answer.BY_SYSTEM: (
        "lets this controller log in and then runs nothing",
        (
            "See to it from its console: whether its disk is full, and whether privilege escalation"
            " (become) works"
        ),
    ),
}
#: A rule that applies, the next step, and the reason.
Objection = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Limits:
    """Times in seconds. The defaults come from oVirt: 300 s after a start, 180 s between fencings,
    half of the fleet.
    """

    down_seconds: int = 60
    start_seconds: int = 300
    quiet_seconds: int = 180
    down_percent: int = 50

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Limits:
        """Read the limits from a mapping with an option for each.

        :raises DroverError: a limit is negative.
        """
        for each in dataclasses.fields(cls):
            if options[each.name] < 0:
                raise DroverError(f"{each.name} must be 0 or more, not {options[each.name]}.")
        return cls(**{each.name: options[each.name] for each in dataclasses.fields(cls)})


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The known facts about a host with a libvirt that does not answer."""

    host: str
    #: True if it answers the controller over SSH.
    ssh: bool = False
    #: True if it answers over SSH or TCP but refuses the login; its libvirt may run.
    refused: bool = False
    #: The reason of the refusal, a key of REFUSALS.
    refusal: str = host_answer.BY_LOGIN
    #: The message of SSH, if it is not known to mean an answer or silence.
    unclear: str = ""
    #: {another hypervisor: True if the host answers it; None if that hypervisor could not try}.
    peers: Mapping[str, bool | None] = dataclasses.field(default_factory=dict)
    #: active (a peer sees locks on its disks), silent or unknown.
    storage: str = "unknown"
    #: on, off or unknown, from its power driver; none if no driver can read it.
    power: str = "none"
    #: True if a person says that it is off.
    said: bool = False
    #: True if this run has restarted its libvirt, which still does not answer.
    soft_fenced: bool = False
    maintenance: bool = False
    #: The number of hosts of the fleet that are not in maintenance, and the number of these that
    #: are down, with this one.
    hosts: int = 3
    down: int = 1
    #: Seconds since it was last seen up; None if it never was.
    unseen: float | None = None
    #: Seconds since the controller started; None if unknown.
    started: float | None = None
    #: Seconds since the last host of the fleet was fenced; None if none was.
    fenced: float | None = None


@dataclasses.dataclass(frozen=True)
class Decision:
    """The next step, the rule that prevents more (or None), and a sentence for the operator."""

    act: str
    rule: str | None
    sentence: str


def rules_lifted(names: Iterable[str]) -> set[str]:
    """Check the names of the rules that an operator lifts.

    :raises DroverError: one of them does not exist.
    """
    found = {name.strip() for name in names} - {""}
    refuse_unknown_rules(found, LIFTABLE)
    return found


def decide(evidence: Evidence, limits: Limits = Limits(), lifted: Collection[str] = ()) -> Decision:
    """Decide the next step for a host with a libvirt that does not answer.

    :param lifted: the rules of LIFTABLE that the operator lifts.
    """
    host, reached = evidence.host, sorted(name for name, answer in evidence.peers.items() if answer)
    alive = ""
    if evidence.ssh:
        alive = "it answers over SSH"
    elif evidence.refused:
        alive = f"it answers, and {refused_how(evidence.refusal)}"
    elif reached:
        alive = f"{' and '.join(reached)} can reach it"
    if evidence.power == "off":
        if alive:
            return Decision(
                NOTHING,
                "contradiction",
                f"The power driver of {host} says that it is off, but {alive}: the driver is wrong,"
                " or controls another machine. Correct drover_power_address.",
            )
        held_back = _first_decision([*_unclear(evidence), *_in_use(evidence)], lifted)
        return held_back or Decision(
            RESTART, None, f"{host} is off, as its power driver says, and nobody can reach it."
        )
    if evidence.said:
        if alive:
            sentence = (
                f"You say that {host} is powered off, but {alive}. Its instances may run. Switch it"
                " off first"
            )
            return Decision(
                NOTHING,
                "contradiction",
                f"{sentence}, or leave out drover_host_is_off where it has a power driver.",
            )
        held_back = _first_decision(
            [*_says_on(evidence), *_unclear(evidence), *_in_use(evidence)], lifted
        )
        return held_back or Decision(
            RESTART, None, f"{host} is off, as a person says, and nobody can reach it."
        )
    if (
        evidence.ssh
        and not evidence.soft_fenced
        and (not evidence.maintenance or "maintenance" in lifted)
    ):
        return Decision(
            SOFT_FENCE,
            None,
            f"{host} answers over SSH, only its libvirt does not: libvirt is restarted there, and"
            " its instances run on.",
        )
    # These rules hold also for a fence of its storage, which needs no driver.
    held_back = _first_decision([*_lives(evidence, reached), *_not_now(evidence, limits)], lifted)
    if held_back is not None:
        return held_back
    if evidence.power == "none":
        sentence = (
            f"{host} has no power driver that can tell whether it is off: look at the machine"
        )
        return Decision(
            WORD,
            "no_driver",
            f"{sentence}{', and switch it off, as it answers over SSH' if evidence.ssh else ''}.",
        )
    says = (
        "says that it is on"
        if evidence.power == "on"
        else "does not say, and must confirm that it is off afterwards"
    )
    return Decision(HARD_FENCE, None, f"The power of {host} is cut: its power driver {says}.")


def _first_decision(rules: Iterable[Objection], lifted: Collection[str]) -> Decision | None:
    """Return the decision by the first rule that applies and is not lifted."""
    for rule, act, sentence in rules:
        if rule not in lifted:
            with_force = (
                f"{sentence} To go on all the same: -e drover_evacuate_force={rule}, which lifts"
                " just this rule."
            )
            return Decision(act, rule, with_force)
    return None


def _says_on(evidence: Evidence) -> Iterator[Objection]:
    """Object if the power driver contradicts the person, who may have switched off another
    machine.
    """
    if evidence.power == "on":
        yield (
            "driver_says_on",
            NOTHING,
            (
                f"You say that {evidence.host} is powered off, but its power driver says that it is"
                " on. Make sure that you switched off this machine; or leave out"
                " drover_host_is_off, and the driver cuts its power."
            ),
        )


def _unclear(evidence: Evidence) -> Iterator[Objection]:
    """Object if a message is not known to mean silence: the host may live."""
    if evidence.unclear:
        yield (
            "unclear_answer",
            NOTHING,
            (
                f"It is not known whether {evidence.host} answers over SSH, which says:"
                f" {as_sentence(evidence.unclear)} Correct the way from this controller to it (its"
                " name, its proxy, its keys), and run this again."
            ),
        )


def _in_use(evidence: Evidence) -> Iterator[Objection]:
    """Object if a peer sees locks on its disks, the strongest sign that its guests run."""
    if evidence.storage == "active":
        yield (
            "storage_active",
            WAIT,
            (
                f"Nobody can reach {evidence.host}, but disks of its instances are in use: they"
                " run, or its locks have not expired yet. See that it is this machine that is off"
                " or cut off, mend its network, or run this again in some minutes. Where some were"
                " started on other hosts by hand, run drover.compute.discover first, which finds"
                " them there."
            ),
        )


def _lives(evidence: Evidence, reached: Sequence[str]) -> Iterator[Objection]:
    """Object if the host may live, the strongest sign first.

    :param reached: the peers that it answers.
    """
    host = evidence.host
    if evidence.refused:
        how, to_do = _refusal(evidence.refusal)
        yield (
            "login_refused",
            NOTHING,
            (
                f"{host} answers and {how}: it lives, or another machine has its address. {to_do},"
                " and run this again."
            ),
        )
    yield from _unclear(evidence)
    if not evidence.ssh:
        if reached:
            yield (
                "peers_reach",
                NOTHING,
                (
                    f"{host} does not answer here, but {' and '.join(reached)} can reach it: it"
                    " lives, and only the network between this controller and it is broken. Mend"
                    " that."
                ),
            )
        elif not any(answer is False for answer in evidence.peers.values()):
            yield (
                "no_witness",
                NOTHING,
                (
                    f"{host} does not answer here, and no other host could be asked whether it"
                    " lives: it may be the network of this controller that is broken. Make sure"
                    " that the other hosts can be reached."
                ),
            )
        yield from _in_use(evidence)


def words_of(host: str) -> str:
    """Return the sentence that a person writes to confirm that a host is off."""
    return f"{host} is powered off"


def say_so(host: str) -> str:
    """Return the instruction to confirm that a host is off."""
    return (
        f"Once you have seen that it is off, say so: -e 'drover_host_is_off=\"{words_of(host)}\"'"
    )


def refused_how(refusal: str) -> str:
    """Return a clause about the refusal of the login by a host that answers."""
    return _refusal(refusal)[0]


def _refusal(refusal: str) -> tuple[str, str]:
    return REFUSALS.get(refusal) or REFUSALS[host_answer.BY_LOGIN]


def _not_now(evidence: Evidence, limits: Limits) -> Iterator[Objection]:
    """Object where fencing must wait even if the host is dead."""
    host = evidence.host
    if evidence.maintenance:
        yield (
            "maintenance",
            WAIT,
            f"{host} is in maintenance, so somebody may be working on it. Ask them.",
        )
    if evidence.down > 1 and evidence.down * 100 >= limits.down_percent * evidence.hosts:
        yield (
            "many_down",
            WAIT,
            (
                f"{evidence.down} of {evidence.hosts} hosts look dead at the same time: that is a"
                " network, a power supply or a storage more often than that many hosts. Find out"
                " which; run drover.compute.discover to see who is back."
            ),
        )
    if evidence.started is not None and evidence.started < limits.start_seconds:
        yield (
            "just_started",
            WAIT,
            (
                f"This controller started {int(evidence.started)} s ago, and {host} may be starting"
                f" too. Run this again in {_seconds_left(limits.start_seconds, evidence.started)} s."
            ),
        )
    if evidence.unseen is not None and evidence.unseen < limits.down_seconds:
        yield (
            "too_early",
            WAIT,
            (
                f"{host} was seen up {int(evidence.unseen)} s ago: it may only be restarting. "
                f"Run this again in {_seconds_left(limits.down_seconds, evidence.unseen)} s."
            ),
        )
    if evidence.fenced is not None and evidence.fenced < limits.quiet_seconds:
        yield (
            "quiet_time",
            WAIT,
            (
                f"A host was fenced {int(evidence.fenced)} s ago, and one at a time is enough until"
                " that has settled. Run this again in"
                f" {_seconds_left(limits.quiet_seconds, evidence.fenced)} s."
            ),
        )


def _seconds_left(limit: float, passed: float) -> int:
    return int(limit - passed) + 1

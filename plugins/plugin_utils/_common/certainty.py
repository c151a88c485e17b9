# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of certainty: an outcome is uncertain unless the answer of a hypervisor proves it; no
room is freed without a proof.

A failure means "something may have happened" until the hypervisor shows otherwise. All code that
frees room, or that lets an instance start on another host, needs a Proof; only the functions here
create one. Data in, data out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

#: The outcomes of an answer: the change was done, nothing was begun, or the outcome is unknown.
DONE, NOTHING, UNCERTAIN = "done", "nothing", "uncertain"

#: States of a domain that has the guest's memory or may run its code.
ACTIVE = ("running", "blocked", "paused", "shutdown", "pmsuspended", "crashed", "nostate")


@dataclasses.dataclass(frozen=True)
class Answer:
    """The outcome of a module that may change a hypervisor.

    outcome: DONE, NOTHING or UNCERTAIN. result: the result of the module, plain types; empty if
    there is none. message: a sentence on a failure.
    """

    outcome: str
    result: dict[str, Any]
    message: str = ""


def judge(result: dict[str, object]) -> Answer:
    """Return the Answer of a module's result.

    A failure proves that nothing was begun only if the module reports that itself: ``begun`` is
    False. An error of Ansible's own, a crash, a time limit prove nothing.
    """
    if not result.get("failed"):
        return Answer(DONE, result)
    message = str(result.get("msg") or "the module failed without a message")
    return Answer(NOTHING if result.get("begun") is False else UNCERTAIN, result, message)


def lost(message: str) -> Answer:
    """Return the Answer for a module that ran when its host was lost."""
    return Answer(UNCERTAIN, {}, message)


def never_reached(message: str) -> Answer:
    """Return the Answer of a module that another machine refused in place of its host: nothing was
    begun.
    """
    return Answer(NOTHING, {}, message)


class Proof:
    """The certainty of a fact about an instance; ``sentence`` states the fact and its source."""

    __slots__ = ("sentence",)

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence

    def __repr__(self) -> str:
        return f"Proof({self.sentence!r})"


def require(proof: object) -> None:
    """Raise TypeError if room would be freed, or something started, on a guess."""
    if not isinstance(proof, Proof):
        raise TypeError(f"a Proof is needed, and this is none: {proof!r}")


class StartProof(Proof):
    """A proof that an instance may start on one host: no other host that may have it shows it."""

    __slots__ = ("host", "uuid")

    def __init__(self, sentence: str, host: str, uuid: str) -> None:
        super().__init__(sentence)
        self.host, self.uuid = host, uuid

    def __repr__(self) -> str:
        return f"StartProof({self.sentence!r}, {self.host!r}, {self.uuid!r})"


def require_starts(proofs: Iterable[object], host: str, uuids: Iterable[str]) -> None:
    """Raise TypeError if an instance would start on a host without a StartProof for that instance
    and that host.
    """
    proven = {each.uuid for each in proofs if isinstance(each, StartProof) and each.host == host}
    missing = [uuid for uuid in uuids if uuid not in proven]
    if missing:
        raise TypeError(f"a StartProof for {host} is needed of {', '.join(missing)}")


#: States of a domain that runs the code of its guest now.
RUNS = ("running", "blocked")


def may_start(
    host: str, uuid: str, seen: Mapping[str, str | None], silent: Iterable[str]
) -> StartProof | None:
    """Return a StartProof of an instance, or None.

    :param seen: the state of its domain on each host that was read, None if it has none.
    :param silent: the hosts that may have it and were not read; none of them counts if it runs on
        the host already.
    """
    if any(state is not None for place, state in seen.items() if place != host):
        return None
    if seen.get(host) in RUNS:
        return StartProof(
            f"It runs on {host} already, and no other host that was read shows it.", host, uuid
        )
    if list(silent):
        return None
    return StartProof(f"No other host than {host} shows it.", host, uuid)


def is_new(host: str, uuid: str) -> StartProof:
    """Return a StartProof of an instance that the store has created: it was on no host before, and
    the hosts were read for its name.
    """
    return StartProof("It is new, and the hosts were read when it was placed.", host, uuid)


def is_absent(host: str, look: Mapping[str, object] | None) -> Proof | None:
    """Return a Proof that an instance is not on a host and that nothing will bring it there, or
    None.

    :param look: an entry of the module _domain_order, or None if the host did not answer.
    """
    if look is None or look["busy"] or look["domain"] is not None:
        return None
    return Proof(
        f"{host} shows no domain of it, and what it was ordered to do can no longer begin."
    )


def has_vanished(proofs: Iterable[Proof]) -> Proof:
    """Return a Proof that an instance has vanished: none of the hosts that may have it has it.

    :param proofs: the results of is_absent(), for each of them.
    """
    return Proof(" ".join(proof.sentence for proof in proofs))


def has_not_left(host: str, look: Mapping[str, Any] | None) -> Proof | None:
    """Return a Proof that an instance is on a host, and that the move off it can no longer begin
    there, or None.
    """
    if look is None or look["busy"] or look["domain"] is None:
        return None
    return Proof(
        f"It is {look['domain']['state']} on {host}, and its move can no longer begin there."
    )


def never_begun(sentence: str) -> Proof:
    """Return a Proof from the journal: its record, which is written before a hypervisor gets the
    order, is missing.
    """
    return Proof(sentence)


def unable(host: str, answer: Answer) -> Proof | None:
    """Return a Proof that a host has done nothing and has nothing of an instance, by the report of
    its module, or None.
    """
    if answer.outcome != NOTHING or answer.result.get("domain_left") is not False:
        return None
    return Proof(f"{host} says that nothing of it is there: {answer.message}")


def has_arrived(order: Mapping[str, object], result: Mapping[str, object]) -> Proof | None:
    """Return a Proof that a move is done, or None: it is at its destination and gone from its
    source.

    :param order: source, destination.
    :param result: the result of the module _domain_migration: status, source_state,
        destination_state.
    """
    if result.get("status") != "completed" or result.get("source_state") != "absent":
        return None
    if result.get("destination_state") in (None, "absent"):
        return None
    return Proof(
        f"It is {result['destination_state']} on {order['destination']}, and {order['source']} no"
        " longer has it."
    )


def has_stayed(
    order: Mapping[str, object], result: Mapping[str, object], opened_here: bool = False
) -> Proof | None:
    """Return a Proof that a move did not happen, or None: the instance is at its source, and its
    destination has nothing of it.

    If the destination did not answer and the instance does not run at the source, the proof exists
    only if this run has opened the move: no other run can have begun it then.
    """
    source_state, destination_state = result.get("source_state"), result.get("destination_state")
    if source_state in (None, "absent"):
        return None
    if destination_state is None and source_state not in ("running", "blocked") and not opened_here:
        return None
    return Proof(f"It is {source_state} on {order['source']}, and its move is over.")


def is_nowhere(result: Mapping[str, object]) -> bool:
    """Return True if the module _domain_migration saw both ends of a move, and neither has the
    instance.
    """
    return result.get("source_state") == result.get("destination_state") == "absent"


def runs_there(result: Mapping[str, object]) -> bool:
    """Return True if the module _domain_migration saw the instance run at its destination, and saw
    it gone from its source.
    """
    return result.get("source_state") == "absent" and result.get("destination_state") in (
        "running",
        "blocked",
    )


def is_off(host: str) -> Proof:
    """Return a Proof that nothing of a host can continue: its power was seen to be off, a person
    confirmed that in exact words, or the host is cut off from its storage.
    """
    return Proof(f"{host} is off, or cut off from its storage.")


def is_not_shown(host: str) -> Proof:
    """Return a Proof that a host which was read just now does not have a domain."""
    return Proof(f"{host} was read and no longer shows it.")


def is_elsewhere(source: str, destination: str, host: str) -> Proof:
    """Return a Proof that a move is over: neither end had the instance when both were read, and a
    third host shows it.
    """
    return Proof(f"Neither {source} nor {destination} had it, and {host} was read and shows it.")


def is_shown(host: str, state: str) -> Proof:
    """Return a Proof that a host which was read just now has a domain."""
    return Proof(f"{host} was read and shows it {state}.")


def word(who: str) -> Proof:
    """Return a Proof by the word of a person, who gave the order by name."""
    return Proof(f"By order of {who}.")

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of domains that need no restart: labels, the policy for moves, autostart."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, TypedDict

from .._domain import labels as _labels
from .._domain import metadata, power
from .._domain.facts import NamedDomain
from .._host.domains import read_domain
from .._host.facts import HostDomain
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._orders import orders
from .._orders.records import Records

#: The elements of the metadata with the policy for moves.
POLICY = ("move", "on_drain", "priority", "migration")


class _Options(TypedDict):
    """The options of the module."""

    domains: list[NamedDomain]
    #: A value of None removes a label.
    labels: dict[str, str | None]
    policy: dict[str, object]
    autostart: bool | None
    uri: str
    patience: float


class _Lines(TypedDict, total=False):
    before: list[str]
    after: list[str]


class _Answer(NamedDomain, _Lines):
    """The entry of a domain in the result, with lines before and after until the end."""

    changed: bool
    status: str
    message: str
    labels: dict[str, str]
    domain: HostDomain | None


def _act(conn: Any, wanted: NamedDomain, given: _Options, check_mode: bool) -> _Answer:
    """Work on one domain and return its entry of the result, with lines that show it before and
    after.
    """
    answer: _Answer = {
        "uuid": wanted["uuid"],
        "name": wanted["name"],
        "changed": False,
        "status": "done",
        "message": "",
        "labels": {},
        "domain": None,
        "before": [],
        "after": [],
    }
    name = wanted["name"] or wanted["uuid"]
    alone = (
        contextlib.nullcontext()
        if check_mode
        else orders.alone(Records(), wanted["uuid"], name, given["patience"])
    )
    try:
        with alone:
            domain = power.find(conn, uuid=wanted["uuid"])
            if domain is None:
                return {
                    **answer,
                    "status": "absent",
                    "message": f"there is no domain {wanted['uuid']} on {host_name()}",
                }
            if wanted["name"] not in (None, domain.name()):
                raise LibvirtProblem(
                    f"the domain {wanted['uuid']} is named {domain.name()!r} on {host_name()}, not"
                    f" {wanted['name']!r}"
                )
            answer["name"] = domain.name()
            _change_settings(domain, given, answer, check_mode)
            answer["domain"] = read_domain(domain, binding.is_local(given["uri"]))
    except libvirt.libvirtError as exc:
        return {**answer, "status": "failed", "message": binding.text_of(exc)}
    except (LibvirtProblem, OSError, ValueError) as exc:
        return {**answer, "status": "failed", "message": str(exc)}
    return answer


def _change_settings(domain: Any, given: _Options, answer: _Answer, check_mode: bool) -> None:
    """Change the settings of a domain that differ from the given ones, and write the changes into
    the answer.
    """
    places = metadata.places(domain)
    steps = [
        *_label_steps(domain, places, given["labels"], answer),
        *_policy_steps(domain, places, given["policy"], answer),
    ]
    autostart = given["autostart"]
    differs = autostart is not None and bool(domain.autostart()) != autostart
    if autostart is not None:
        answer["before"].append(f"autostart={_word(autostart != differs)}")
        answer["after"].append(f"autostart={_word(autostart)}")
    if differs and not domain.isPersistent():
        raise LibvirtProblem(
            f"{domain.name()} on {host_name()} is transient, so libvirt cannot start it with its"
            " host: define it there first"
        )
    if steps and domain.hasManagedSaveImage(0):
        raise LibvirtProblem(
            f"{domain.name()} on {host_name()} has its memory saved, and would start with the"
            " metadata that it had then: start it, or drop the image with virsh managedsave-remove"
        )
    # Change the definition first. After a partial failure the running domain still shows the
    # difference.
    for place in reversed(places):
        for _place, name, text in [step for step in steps if step[0] == place]:
            answer["changed"] = True
            if not check_mode:
                metadata.change(domain, place, name, text)
    if differs:
        answer["changed"] = True
        if not check_mode:
            domain.setAutostart(int(bool(autostart)))


def _label_steps(
    domain: Any, places: list[int], changes: dict[str, str | None], answer: _Answer
) -> list[tuple[int, str, str]]:
    """Return (place, element, text) of each place with labels that differ from the wanted
    labels.
    """
    texts = {place: metadata.labels(domain, place) for place in places}
    before = texts[places[0]]
    labels, others = _labels.read(before)
    labels.update({key: value for key, value in changes.items() if value is not None})
    # An unreadable label stays, unless its key is given.
    others = [each for each in others if each.partition("=")[0] not in changes]
    answer["labels"] = {
        key: value for key, value in labels.items() if not (key in changes and changes[key] is None)
    }
    if not changes:
        return []
    if len(answer["labels"]) > _labels.MOST:
        raise LibvirtProblem(
            f"it would have {len(answer['labels'])} labels, and can have {_labels.MOST}"
        )
    expected, text = (
        (answer["labels"], sorted(others)),
        _labels.write(answer["labels"], sorted(others)),
    )
    there = {place: _labels.read(texts[place]) for place in places}
    differing = [
        place for place in places if (there[place][0], sorted(there[place][1])) != expected
    ]
    answer["before"].append(before)
    answer["after"].append(_labels.write(answer["labels"]) if differing else before)
    return [(place, _labels.ELEMENT, text) for place in differing]


def _policy_steps(
    domain: Any, places: list[int], policy: dict[str, object], answer: _Answer
) -> list[tuple[int, str, str]]:
    """Return (place, element, text) of each place with a different text of the policy. An empty
    text removes the element.
    """
    steps = []
    for name, value in policy.items():
        text = "" if value is None else str(value)
        there = {place: metadata.text(domain, place, name) for place in places}
        steps += [(place, name, text) for place in places if there[place] != text]
        answer["before"].append(f"{name}={there[places[0]]}")
        answer["after"].append(f"{name}={text}")
    return steps


def _word(value: bool) -> str:
    return "yes" if value else "no"


def _difference(answers: list[_Answer]) -> dict[str, str]:
    """Return the domains before and after the change, one line for each given setting."""
    return {
        "before": "".join(_named(each, each["before"]) for each in answers),
        "after": "".join(_named(each, each["after"]) for each in answers),
    }


def _named(answer: _Answer, lines: list[str]) -> str:
    return "".join(f"{answer['name'] or answer['uuid']}: {line}\n" for line in lines)


def act_on_all(conn: Any, given: _Options, check_mode: bool, diff: bool) -> dict[str, object]:
    """Change the settings of all domains and return the result of the module."""
    answers = [_act(conn, each, given, check_mode) for each in given["domains"]]
    result: dict[str, object] = {"changed": any(each["changed"] for each in answers)}
    if diff:
        result["diff"] = _difference(answers)
    for each in answers:
        each.pop("before")
        each.pop("after")
    return {"domains": answers, **result}


def refusal(labels: Mapping[str, object], policy: Mapping[str, object]) -> str | None:
    """Return the reason to refuse labels or a policy, or None."""
    for key, value in labels.items():
        if not _labels.is_word(key) or not (value is None or _labels.is_word(value)):
            return f"{key}={value} is no label: its key and its value have {_labels.RULE}."
    for key in policy:
        if key not in POLICY:
            return f"{key} is no part of a policy, which has {', '.join(POLICY)}."
    return None

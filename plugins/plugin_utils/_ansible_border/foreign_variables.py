# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of other playbooks, which a playbook would ignore silently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .._common.validation import shown
from .known_variables import KNOWN, PREFIX
from .playbook_variables import READ

NAMESPACE = "drover.compute."
#: Without one of these, a playbook would work on more than its user wants. So a playbook refuses
#: each of them that it does not read, wherever it is set.
TARGETS = frozenset(
    f"{PREFIX}{name}"
    for name in ("host", "instance", "instances", "selector", "pool", "destination", "disk")
)
#: The artifacts of jobs, which AWX gives to all later jobs of a workflow.
ARTIFACTS = frozenset(name for name in KNOWN if name.endswith("_result")) | {
    f"{PREFIX}audit",
    f"{PREFIX}rolling",
}
#: Playbooks that work on all hosts of a pattern.
_OF_HOSTS = frozenset({"check", "discover", "image_cache_clean", "rolling_maintenance"})
#: The number of playbooks that a message names as readers of a variable.
_NAMED = 4


def reads(playbook: str, name: str) -> bool:
    """Return True if a playbook reads a variable."""
    return name.removeprefix(PREFIX) in READ[playbook].split()


def of_others(playbook: str, typed: Collection[str], variables: Collection[str]) -> list[str]:
    """Return typed variables of other playbooks, and set variables of TARGETS from any place.

    :param typed: the variables of the command line.
    :param variables: all variables of the task.
    """
    read = {PREFIX + name for name in READ[playbook].split()} | ARTIFACTS
    return sorted(
        name for name in KNOWN - read if name in typed or (name in TARGETS and name in variables)
    )


def without_prefix(playbook: str, typed: Iterable[str]) -> list[str]:
    """Return a warning for each typed name without the prefix, such as force.

    It may be the user's own.
    """
    warnings = []
    for name in sorted(typed):
        meant = [
            each for each in READ[playbook].split() if each == name or each.endswith(f"_{name}")
        ]
        if meant and not name.startswith(PREFIX):
            warnings.append(
                f"{NAMESPACE}{playbook} does not read the variable {name}: its variables begin with"
                f" {PREFIX}. If you mean {' or '.join(PREFIX + each for each in meant)}, give that."
            )
    return warnings


def refusal(playbook: str, names: Collection[str], values: Mapping[str, object]) -> str:
    """Return the sentences that refuse variables, each with another way for their user.

    :param values: the values for the message.
    """
    sentences = [
        f"{NAMESPACE}{playbook} takes no {name}{_value(name, values)}: {_why_ignored(playbook, name)}"
        for name in names
    ]
    return (
        f"{' '.join(sentences)} Leave {'it' if len(sentences) == 1 else 'them'} out. Nothing was"
        " done."
    )


def _value(name: str, values: Mapping[str, object]) -> str:
    value = values.get(name)
    text = (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else value
        if isinstance(value, str)
        else shown(value)
    )
    return f" ({text})" if value else ""


def _why_ignored(playbook: str, name: str) -> str:
    bare = name.removeprefix(PREFIX)
    if bare == "host":
        if playbook in _OF_HOSTS:
            return (
                "it works on all hosts that the inventory has in hypervisors. Limit it with"
                f" --limit localhost,kvm1, or with -e {PREFIX}hypervisors=kvm1."
            )
        if reads(playbook, f"{PREFIX}destination"):
            return (
                f"it works on instances. Say where they go with {PREFIX}destination, or leave it to"
                " the scheduler."
            )
        if playbook == "place":
            return (
                "the scheduler picks the hosts. Say where an instance goes with force_hosts in its"
                " definition."
            )
    if bare == "destination":
        return (
            f"the scheduler picks the hosts. {NAMESPACE}instance_migrate moves instances to a host"
            " that you name."
        )
    if name in TARGETS:
        return (
            f"it would not be limited to what that {'selects' if bare == 'selector' else 'names'}."
        )
    reading = sorted(each for each in READ if reads(each, name))
    others = f", and {len(reading) - _NAMED} more" if len(reading) > _NAMED else ""
    return (
        f"it would change nothing. It is read by {', '.join(reading[:_NAMED])}{others}."
        if reading
        else "it would change nothing."
    )

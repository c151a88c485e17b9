# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception that the engine raises for anything an operator can act on, and the parts of
its sentences.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn

_DIGITS = re.compile(r"([0-9]+)")


class DroverError(Exception):
    """A failure, described in a sentence: the fault, its place, the reason and the remedy.

    ``details`` (a dict of plain types) is added to the result of the task. No code decides on them:
    where a caller continues in another way, the error is of a subclass.
    """

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


class PlanError(DroverError):
    """A plan that cannot begin; the message is a sentence."""


class InvalidSpecs(DroverError):
    """Extra specs, image properties, aliases or device specs are wrong or contradict each other.

    ``code`` is the name of Nova's exception for the same refusal; Unsupported for requests that
    drover does not support.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Unreachable(DroverError):
    """A host cannot be reached, or was lost. ``cause_of_it`` is Ansible's own error, or its
    words.
    """

    def __init__(self, host: str, problem: object) -> None:
        super().__init__(
            f"Host {host} cannot be reached: {' '.join(str(problem).split())}", host=host
        )
        self.cause_of_it = problem


class NotThisHost(Unreachable):
    """Another machine answers in place of a host. The host itself was not reached, and nothing is
    known of it.

    refused: True if that machine did nothing, because it knew that it is another one.
    """

    def __init__(self, host: str, problem: object, refused: bool) -> None:
        super().__init__(host, problem)
        self.refused = refused


class RunOver(DroverError):
    """The whole run must end: its playbook is gone, its time is over, or it has lost a lease. No
    other host is tried.
    """


class TimeOver(RunOver):
    """The time limit of the task has passed."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message, timedout={"period": limit})
        self.limit = limit


class UncertainOrder(DroverError):
    """The result of an order is not known: it may be done, or still continue."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, uncertain=True, **details)


class Answers(DroverError):
    """A host answers with facts that cannot be used. It must not count as dead."""

    def __init__(self, message: str) -> None:
        super().__init__(message, answers=True)


class HostTimeout(DroverError):
    """A host did not answer in the seconds that a call had. The operation that was begun there may
    continue.
    """

    def __init__(self, host: str, seconds: int) -> None:
        super().__init__(f"Host {host} did not answer in time, which is {seconds} s.", host=host)


def natural(name: str) -> tuple[list[int | str], str]:
    """Return the key for the sorting of names, so that kvm2 is before kvm10."""
    parts = _DIGITS.split(name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name


def as_sentence(text: object) -> str:
    """Return a text with a full stop at its end."""
    return str(text) if str(text).endswith(".") else f"{text}."


def either(choices: Iterable[str]) -> str:
    """Return several texts as a choice for a sentence: ``a, b or c``; ``none`` without any."""
    *others, last = list(choices) or ["none"]
    return f"{', '.join(others)} or {last}" if others else last


def counted(number: int, noun: str) -> str:
    """Return a number of things for a sentence: ``1 host``, ``2 hosts``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def some(names: Sequence[str], most: int = 8) -> str:
    """Return the first of a list of names for a sentence, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def said_once(found: Iterable[tuple[str, str]], start: str = "") -> list[str]:
    """Return the sentences about many things, each only once: "...  The same for web2, web3 and 118
    more."

    :param found: pairs of a name and a sentence about it. Sentences that differ in the name alone
        are the same.
    :param start: the beginning of the additions, such as blanks of a list.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, sentence in found:
        # The name is replaced as a whole word: a guest may be named a.
        groups.setdefault(re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "\0", sentence), []).append(
            (name, sentence)
        )
    sentences: list[str] = []
    for (_name, first), *others in groups.values():
        same = f"The same for {some([name for name, _sentence in others], 2)}." if others else ""
        sentences.append(
            first if not same else f"{first}{'' if first.endswith('.') else '.'} {start}{same}"
        )
    return sentences


def node_label(host: str, node: str | None) -> str:
    """Return the name of a compute node for people: the host's name, and the node's name if it
    differs.
    """
    return f"{host}/{node}" if host and node and host != node else host


def node_labels(pairs: Iterable[tuple[str, str | None]]) -> Callable[[str, str | None], str]:
    """Return a function of a host and a node: node_label() if the pairs have several nodes of the
    host, else the host alone.
    """
    nodes: dict[str, set[str | None]] = {}
    for host, node in pairs:
        nodes.setdefault(host, set()).add(node)
    return lambda host, node: node_label(host, node) if len(nodes.get(host, ())) > 1 else host


def refuse_unknown_rules(lifted: Iterable[str], rules: Collection[str]) -> None:
    """Raise DroverError if the lifted rules include a rule that does not exist."""
    unknown = sorted(set(lifted) - set(rules))
    if unknown:
        raise DroverError(
            f"There is no rule named {', '.join(unknown)} to lift; the rules are"
            f" {', '.join(rules)}. Nothing was changed."
        )


#: The requirements file of the installed collection.
_REQUIREMENTS = os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..", "..", "requirements.txt")
)


def require(name: str, module: object) -> None:
    """Raise DroverError when a guarded import left nothing behind.

    :param name: the package as pip knows it.
    :param module: the imported module, or None.
    """
    if module is None:
        raise _missing_package(name)


def _missing_package(name: str) -> DroverError:
    # Some packages of the collection leave out all but its plugins, roles and playbooks.
    requirement = f"-r {_REQUIREMENTS}" if os.path.exists(_REQUIREMENTS) else name
    return DroverError(
        f"The Python package {name} is missing on this controller. Install what drover.compute"
        f" needs, into the Python that runs Ansible: {sys.executable} -m pip install {requirement}"
    )


class MissingPackage:
    """Stands in for a Python package that is not installed: false, and each use raises require()'s
    sentence.

    :param name: the package as pip knows it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, attribute: str) -> NoReturn:
        # Python itself reads names such as __wrapped__; an AttributeError means that there is none.
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise _missing_package(self._name)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise _missing_package(self._name)

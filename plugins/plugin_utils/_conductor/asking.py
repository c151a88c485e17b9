# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way to a fresh look: read many hosts at the same time, and change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._common.errors import DroverError
from .ports import Hand, Hosts

#: A fleet of up to this number of hosts is read as a whole. In a larger fleet only the hosts are
#: read that the search needs.
ALL = 100
#: Seconds that a look at a host may take.
LIMIT = 30


class Failure(str):
    """The words of a module that ran on a host and failed there, for example without its
    libvirt.
    """


def is_read(hosts: Hosts, host: str, limit: int) -> bool:
    """Discover a host again. Return True if that worked.

    :param limit: seconds that the discovery may take.
    """
    try:
        hosts.discover(host, limit)
    except DroverError:
        return False
    return True


def ask(
    hosts: Hosts, module: str, given: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Run a module on several hosts.

    :param given: dict host -> arguments.
    :returns: (dict host -> result, dict host -> reason, for hosts that do not answer). Such a
        reason is a Failure if the module ran on the host, so the host is on.
    """

    def question(arguments: dict[str, Any]) -> Any:
        def read(hand: Hand) -> dict[str, Any]:
            return hand.read(module, arguments)

        return read

    answers: dict[str, dict[str, Any]] = {}
    silent: dict[str, str] = {}
    for host, answer in hosts.at_once(
        {host: question(given[host]) for host in given}, LIMIT
    ).items():
        if isinstance(answer, DroverError) or answer.get("failed"):
            silent[host] = _reason(answer)
        else:
            answers[host] = answer
    return answers, silent


def _reason(answer: DroverError | dict[str, object]) -> str:
    if isinstance(answer, DroverError):
        return str(answer)
    said = str(answer.get("msg"))
    # Only a module on the host itself names its machine.
    return Failure(said) if answer.get("machine") else said

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for an answer of a host to this controller, over SSH or TCP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._files import probe

from .._evacuation import host_answer
from .options import Variables

#: Time limit of the TCP connection, in seconds.
PATIENCE = 5


def answer(
    host: str,
    tried: Mapping[str, Any],
    variables: Variables,
    tcp: Callable[[], probe.TcpReaction] | None = None,
) -> host_answer.HostAnswer:
    """Judge the answer of a host; look at TCP if the result of a task on it is not conclusive.

    :param tried: the result of a module on the host that only reads.
    :param variables: the variables of the host in the inventory.
    :param tcp: a function that returns the reaction of the host to TCP, if it was already tried.
    """
    attempt = host_answer.read(tried)
    seen = (
        probe.TcpReaction(None, "")
        if attempt.settled
        else (tcp or (lambda: by_tcp(host, variables)))()
    )
    means = host_answer.judge(attempt, seen.answers)
    refusal = host_answer.refusal(attempt, seen.closed) if means == host_answer.REFUSED else ""
    return host_answer.HostAnswer(
        means, " ".join(f"{attempt.words}\n{seen.words}".split()), seen.answers, refusal
    )


def by_tcp(host: str, variables: Variables) -> probe.TcpReaction:
    """Find out if a host answers on its SSH port."""
    return probe.reach(
        str(variables.get("ansible_host") or host),
        int(str(variables.get("ansible_port") or 22)),
        PATIENCE,
    )

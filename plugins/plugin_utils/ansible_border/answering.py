# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host answers this controller: by a task that was tried on it, and by a TCP connection."""

from __future__ import annotations

import typing

from ansible_collections.drover.compute.plugins.module_utils import _probe
from ansible_collections.drover.compute.plugins.plugin_utils.planner import host_answer

#: Seconds that this controller waits for the host's TCP.
PATIENCE = 5


def answer(host: str, tried: dict, variables: typing.Mapping) -> host_answer.Answer:
    """How a host answers. TCP is tried where the task alone does not settle it.

    :param tried: the result of a module on the host that only reads something.
    :param variables: those of the host in the inventory.
    """
    said = host_answer.read(tried)
    reached, seen = None, ""
    if not said.settled:
        address, port = str(variables.get("ansible_host") or host), variables.get("ansible_port") or 22
        reached, seen = _probe.reach(address, int(port), PATIENCE)
    return host_answer.Answer(host_answer.judge(said, reached), " ".join(f"{said.words}\n{seen}".split()), reached)

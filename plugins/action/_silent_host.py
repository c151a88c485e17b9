# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out if a host answers, find peers to probe a silent host, decide the next action."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import answering
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
    variables_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    ConductorAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import evidence
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import fencing, host_answer

#: A text of another form proves nothing, least of all another boot.
_BOOT_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Args(StoreArgs):
    """The arguments of this action."""

    host: str
    state: str
    tried: Any
    boot_id: str
    others: list[str]
    ssh: bool
    refused: bool
    refusal: str
    unclear: str
    seen: list[Any]
    power: str
    said: bool
    soft_fenced: bool
    force: list[str]
    down_seconds: int
    start_seconds: int
    quiet_seconds: int
    down_percent: int


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True},
        "state": {
            "type": "str",
            "choices": ["answered", "asked", "decided", "looked"],
            "default": "decided",
        },
        "tried": {"type": "dict", "default": {}},
        "boot_id": {"type": "str", "default": ""},
        "others": {"type": "list", "elements": "str", "default": []},
        "ssh": {"type": "bool", "default": False},
        "refused": {"type": "bool", "default": False},
        "refusal": {"type": "str", "default": host_answer.BY_LOGIN},
        "unclear": {"type": "str", "default": ""},
        "seen": {"type": "list", "elements": "dict", "default": []},
        "power": {"type": "str", "choices": ["on", "off", "unknown", "none"], "default": "none"},
        "said": {"type": "bool", "default": False},
        "soft_fenced": {"type": "bool", "default": False},
        "force": {"type": "list", "elements": "str", "default": []},
        **{
            each.name: {"type": "int", "default": each.default}
            for each in dataclasses.fields(fencing.Limits)
        },
        **STORE_SPEC,
    }
    _requires_connection = False

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        host, variables = args["host"], variables_of(task_vars, args["host"])
        if args["state"] == "answered":
            answer = answering.answer(host, args["tried"], variables)
            boot_id = str(args["tried"].get("boot_id") or "")
            return {
                "answer": answer.means,
                "answers": answer.means in (host_answer.LOGIN, host_answer.REFUSED),
                "boot_id": boot_id if _BOOT_ID.fullmatch(boot_id) else args["boot_id"],
                "reached": answer.reached,
                "words": answer.words,
                "refusal": answer.refusal,
            }
        if args["state"] == "looked":
            others = [name for name in args["others"] if name != host]
            facts = evidence.collect(
                self.ports(args, task_vars), host, others, args["power"], args["said"]
            )
        else:
            with self.store(args, task_vars).read() as connection:
                if args["state"] == "asked":
                    return evidence.witnesses(connection, host, args["others"], variables)._asdict()
                facts = evidence.gather(
                    connection,
                    host,
                    _answer(args),
                    args["seen"],
                    args["power"],
                    args["said"],
                    evidence.uptime(),
                    args["soft_fenced"],
                    args["others"],
                )
        decision = fencing.decide(
            facts, fencing.Limits.of_options(args), fencing.rules_lifted(args["force"])
        )
        return {"decision": decision.act, "rule": decision.rule, "sentence": decision.sentence}


def _answer(args: Args) -> host_answer.HostAnswer:
    means = host_answer.UNCLEAR if args["unclear"] else host_answer.SILENT
    if args["ssh"]:
        means = host_answer.LOGIN
    if args["refused"]:
        means = host_answer.REFUSED
    return host_answer.HostAnswer(means, args["unclear"], refusal=args["refusal"])

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of the actions instance and instance_labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible import constants as C

from .._common.errors import DroverError
from .._conductor.instance_operations import InstanceOperations
from .._conductor.operations import Operations
from .._store.instances import instance_lookup
from .action import Args
from .conducting import ConductorAction
from .options import OptionSpec, Variables
from .selecting import SELECTOR_SPEC, SelectorArgs

#: The options that choose the instances of such a task.
CHOICE_SPEC: dict[str, OptionSpec] = {
    "name": {"type": "str"},
    "uuid": {"type": "str"},
    "instances": {"type": "list", "elements": "raw"},
    **SELECTOR_SPEC,
}


class ChoiceArgs(SelectorArgs):
    """The values of the options of CHOICE_SPEC."""

    name: str | None
    uuid: str | None
    instances: list[Any] | None


CHOICE_REQUIREMENTS: dict[str, object] = {
    "required_one_of": [["name", "uuid", "instances", "selector"]],
    "mutually_exclusive": [["name", "instances"], ["uuid", "instances"]],
}


class OperatingAction(ConductorAction[Args]):
    """An action that brings instances to a state."""

    def operate(
        self,
        wanted: Sequence[Any],
        state: str,
        args: Args,
        options: Mapping[str, object],
        task_vars: Variables,
    ) -> dict[str, Any]:
        """Work on instances of this host, or on localhost for instances of any host.

        If one instance fails, the others still follow.

        :param wanted: names, uuids, or mappings of both.
        :param state, options: see operations.Operations.carry_out(); options with timeout.
        """
        host, store = self.target(task_vars), self.store(args, task_vars)
        with store.read() as connection:
            found = instance_lookup.find(connection, wanted, [])
        ports = self.ports(args, task_vars)
        if host in C.LOCALHOST and host not in {each["host"] for each in found}:
            everywhere = InstanceOperations(ports, self._task.check_mode)
            result, differences, failed = everywhere.run(wanted, state, options)
        else:
            operations = Operations(ports, self.hand(args, task_vars), host, self._task.check_mode)
            outcomes, differences, failed = operations.carry_out(wanted, state, options)
            result = {
                "changed": any(each["changed"] for each in outcomes),
                "host": host,
                "instances": outcomes,
            }
        if self._task.diff:
            result["diff"] = differences
        if failed:
            raise DroverError(" ".join(failed), **result)
        return result

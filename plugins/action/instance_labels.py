# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set and remove labels of instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import selecting
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.operating import (
    CHOICE_REQUIREMENTS,
    CHOICE_SPEC,
    ChoiceArgs,
    OperatingAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import labels
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError

#: Seconds that a host waits for another call that works on the domain.
PATIENCE = 60


class Args(ChoiceArgs, StoreArgs):
    """The arguments of this action."""

    labels: Any


class ActionModule(OperatingAction[Args]):
    ARGUMENT_SPEC = {"labels": {"type": "dict", "required": True}, **CHOICE_SPEC, **STORE_SPEC}
    REQUIREMENTS = CHOICE_REQUIREMENTS

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        changes = labels.checked(args["labels"], "Option labels", removals=True)
        if not changes:
            raise DroverError(
                "Which labels? Name in labels those to set, such as project: web, and those to"
                " remove with null as their value."
            )
        wanted = selecting.instances(self.store(args, task_vars), args, self.show)
        return self.operate(
            wanted, "labelled", args, {"labels": changes, "timeout": PATIENCE}, task_vars
        )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of the actions resource_class and trait."""

from __future__ import annotations

from collections.abc import Mapping

from .._placement import classes_and_traits
from .action import STORE_SPEC, DroverAction, StoreArgs
from .options import Variables


class CustomNamesArgs(StoreArgs):
    """The arguments of these actions."""

    names: list[str]
    state: str


class CustomNames(DroverAction[CustomNamesArgs]):
    """Create and delete custom names of a KIND, which a subclass sets."""

    ARGUMENT_SPEC = {
        "names": {"type": "list", "elements": "str", "required": True, "aliases": ["name"]},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        **STORE_SPEC,
    }
    KIND: classes_and_traits.NameKind
    _requires_connection = False

    def act(self, args: CustomNamesArgs, task_vars: Variables) -> Mapping[str, object]:
        change = (
            classes_and_traits.ensure if args["state"] == "present" else classes_and_traits.delete
        )
        with self.store(args, task_vars).write() as connection:
            before, after = change(connection, self.KIND, args["names"])
        result = {"changed": before != after, "names": after}
        if self._task.diff:
            result["diff"] = [{"before": {"names": before}, "after": {"names": after}}]
        return result

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of the actions aggregate, flavor, image and server_group."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TypeVar

from .._definitions import keeping
from .action import STORE_SPEC, DroverAction, StoreArgs, difference
from .options import OptionSpec, Variables

#: The options of all these actions.
KEPT_SPEC: dict[str, OptionSpec] = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **STORE_SPEC,
}


class KeptArgs(StoreArgs):
    """The values of the options of KEPT_SPEC."""

    name: str
    state: str


#: The TypedDict of the arguments of an action.
Kept = TypeVar("Kept", bound=KeptArgs)


class KeptItem(DroverAction[Kept]):
    """Create, change or delete one item of a SECTION of the definitions file; a subclass sets
    it.
    """

    SECTION: str
    _requires_connection = False

    def item(self, args: Kept) -> Mapping[str, object]:
        """Return the item of the checked arguments in the form of keeping.keep_item()."""
        return args

    def act(self, args: Kept, task_vars: Variables) -> Mapping[str, object]:
        name, item, after = args["name"], self.item(args), None
        with self.store(args, task_vars).write() as connection:
            before = keeping.find(connection, self.SECTION, name)
            if args["state"] == "absent":
                changed = keeping.remove(connection, self.SECTION, name)
            else:
                after, changed = keeping.keep_item(connection, self.SECTION, item, time.time())
        result: dict[str, object] = {"changed": changed}
        if after is not None:
            result[self.SECTION.removesuffix("s")] = after
        if self._task.diff:
            result["diff"] = [difference(name, before, after)]
        return result

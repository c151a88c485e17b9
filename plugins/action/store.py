# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make or upgrade the store's schema by an explicit task."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.store import schema


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {"state": {"type": "str", "choices": ["present"], "default": "present"}, **STORE_SPEC}
    _requires_connection = False

    def act(self, args, task_vars):
        store = self.store(args, task_vars)
        before = store.upgrade()
        result = {"changed": before != schema.LATEST, "url": store.shown_url, "revision": schema.LATEST}
        if self._task.diff:
            result["diff"] = [{"before": f"{before or 'empty'}\n", "after": f"{schema.LATEST}\n"}]
        return result

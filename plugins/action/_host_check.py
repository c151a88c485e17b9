# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a hypervisor, and how far its clock is from the controller's."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]
    """Runs the module between two looks at the controller's clock."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result with clock_bounds."""
        result = super().run(tmp, task_vars)
        before = time.time()
        result.update(self._execute_module(module_name="drover.compute._host_check", task_vars=task_vars))
        after = time.time()
        host = result.get("host")
        if isinstance(host, dict) and isinstance(host.get("clock"), (int, float)):
            result["clock_bounds"] = [round(host["clock"] - after, 3), round(host["clock"] - before, 3)]
        return result

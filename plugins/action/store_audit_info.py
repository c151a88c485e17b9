# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find contradictions in the store, and between the store and the last discovery."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    has_ended,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import audit
from ansible_collections.drover.compute.plugins.plugin_utils._report.text import (
    audit_lines,
    audit_table,
)


class Args(StoreArgs):
    """The arguments of this action."""

    release_expired: bool


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {"release_expired": {"type": "bool", "default": False}, **STORE_SPEC}
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        with self.store(args, task_vars).read() as connection:
            audited = audit.audit(
                connection,
                time.time(),
                release_expired=args["release_expired"],
                has_ended=has_ended,
            )
        table = audit_table(audited["findings"])
        # Show the lines here, because some output formats of Ansible fold the long lines of a
        # result.
        for line in audit_lines(table, audited["checked"]):
            self.show(line)
        return {
            **{name: audited[name] for name in ("findings", "counts", "checked", "sound")},
            "table": table,
        }

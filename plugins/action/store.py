# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, upgrade, heal, export and import the store."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping

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
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import audit
from ansible_collections.drover.compute.plugins.plugin_utils._report.text import (
    audit_lines,
    audit_table,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.copies import transfer
from ansible_collections.drover.compute.plugins.plugin_utils._store.copies.export_file import Export
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import actions
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import schema


class Args(StoreArgs):
    """The arguments of this action."""

    state: str
    release_expired: bool
    #: Required in the states exported and imported.
    path: str


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "state": {
            "type": "str",
            "choices": ["present", "healed", "exported", "imported"],
            "default": "present",
        },
        "release_expired": {"type": "bool", "default": False},
        "path": {"type": "path"},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_if": [["state", "exported", ["path"]], ["state", "imported", ["path"]]]
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        _check_options(args)
        store = self.store(args, task_vars)
        result = getattr(self, f"_{args['state']}")(store, args)
        diff = result.pop("shown")
        if self._task.diff and diff is not None:
            result["diff"] = [{"before": _lines(diff[0]), "after": _lines(diff[1])}]
        return {**result, "url": store.shown_url, "revision": schema.LATEST}

    def _present(self, store: Store, args: Args) -> dict[str, object]:
        before = store.upgrade()
        return {"changed": before != schema.LATEST, "shown": ([before or "empty"], [schema.LATEST])}

    def _healed(self, store: Store, args: Args) -> dict[str, object]:
        with store.write() as connection:
            audited = audit.audit(
                connection, time.time(), True, args["release_expired"], has_ended=has_ended
            )
            if audited["mended"]:
                actions.note(
                    connection, "run", f"audit: {len(audited['mended'])} contradictions repaired"
                )
        table, mended, remaining = (
            audit_table(audited[name]) for name in ("findings", "mended", "left")
        )
        lines = [
            "Mended:",
            *(mended or ["Nothing was safe to mend."]),
            "",
            "Left:",
            *(remaining or ["Nothing is left."]),
        ]
        # Show the lines here, because some output formats of Ansible fold the long lines of a
        # result.
        for line in lines if table else audit_lines(table, audited["checked"]):
            self.show(line)
        return {
            **audited,
            "table": table,
            "mended_table": mended,
            "left_table": remaining,
            "shown": (table, remaining),
        }

    def _exported(self, store: Store, args: Args) -> dict[str, object]:
        with store.read() as connection:
            exported = transfer.export(
                connection, args["path"], time.time(), dry=self._task.check_mode
            )
        shown = (_count_rows(exported["before"]), _count_rows(exported["rows"]))
        return {
            "changed": exported["changed"],
            "rows": exported["rows"],
            "checksum": exported["checksum"],
            "path": args["path"],
            "shown": shown,
        }

    def _imported(self, store: Store, args: Args) -> dict[str, object]:
        # Read the whole file before the store is changed.
        with Export(args["path"]) as exported, store.write() as connection:
            found = transfer.load(connection, exported)
        before = {} if found["changed"] else found["rows"]
        return {
            **found,
            "path": args["path"],
            "shown": (_count_rows(before), _count_rows(found["rows"])),
        }


def _check_options(args: Args) -> None:
    """Refuse options of other states, and make the path absolute."""
    for option, value, states in (
        ("release_expired", args["release_expired"], ["healed"]),
        ("path", args["path"], ["exported", "imported"]),
    ):
        if value and args["state"] not in states:
            raise DroverError(
                f"{option} goes with state={' or state='.join(states)}, not with"
                f" state={args['state']}. Leave it out."
            )
    if args["path"]:
        args["path"] = os.path.abspath(os.path.expanduser(args["path"]))


def _count_rows(rows: Mapping[str, int] | None) -> list[str]:
    return [f"{name} {count}" for name, count in sorted((rows or {}).items()) if count]


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)

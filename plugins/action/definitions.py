# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read instance definitions, and write host and uuid back into their file."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.definitions import check, document, identity
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils.store import instances


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "path": {"type": "path"},
        "instances": {"type": "list", "elements": "dict"},
        "server_groups": {"type": "list", "elements": "dict", "default": []},
        "placements": {"type": "list", "elements": "dict"},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_one_of": [["path", "instances"]],
        "mutually_exclusive": [["path", "instances"], ["instances", "placements"]],
    }
    _requires_connection = False

    def act(self, args, task_vars):
        if args["path"] is None:
            return self._read(
                args, task_vars, args["instances"], args["server_groups"], lambda item: "drover_instances"
            )
        path = self._loader.path_dwim(args["path"])
        read = document.Document(path)
        if args["placements"] is not None:
            return self._write_back(read, args["placements"])
        unknown = sorted(set(map(str, read.data)) - {"instances", "server_groups"})
        if unknown:
            raise DroverError(f"{path}: unknown key {', '.join(unknown)}. Known: instances, server_groups.")
        return self._read(
            args, task_vars, read.data.get("instances") or [], read.data.get("server_groups") or [], read.where
        )

    def _read(self, args, task_vars, items, groups, where):
        wanted = to_plain(check.instances(items, where))
        with self.store(args, task_vars).read() as connection:
            known = instances.listing(connection)
        checked = to_plain(check.server_groups(groups, where))
        return {"instances": identity.resolve(wanted, known, checked), "server_groups": checked}

    def _write_back(self, read, placements):
        by_name = {placement["name"]: placement for placement in placements}
        changed = False
        for item in read.data.get("instances") or []:
            placement = by_name.get(item.get("name"))
            for key in ("host", "uuid") if placement else ():
                if item.get(key) != placement[key]:
                    item[key] = placement[key]
                    changed = True
        if changed and not self._task.check_mode:
            read.save()
        result = {"changed": changed}
        if self._task.diff and changed:
            result["diff"] = [
                {"before": read.before, "after": read.text(), "before_header": read.path, "after_header": read.path}
            ]
        return result

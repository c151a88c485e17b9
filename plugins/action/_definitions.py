# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read instance definitions, and write host and uuid back into their file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check, differences, document, identity
from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._report import text
from ansible_collections.drover.compute.plugins.plugin_utils._store import instances


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "path": {"type": "path"},
        "instances": {"type": "list", "elements": "dict"},
        "server_groups": {"type": "list", "elements": "dict", "default": []},
        "write_back": {"type": "bool", "default": False},
        "mark_absent": {"type": "list", "elements": "raw", "default": []},
        "show": {"type": "bool", "default": False},
        **STORE_SPEC,
    }
    REQUIREMENTS = {"required_one_of": [["path", "instances"]], "mutually_exclusive": [["path", "instances"]]}
    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        read = None
        if args["path"] is None:
            items, groups, where = args["instances"], args["server_groups"], _of_variables
        else:
            read = document.Document(self._file(args["path"]))
            items, groups, where = read.section("instances"), read.section("server_groups"), read.where
        groups = to_plain(check.server_groups(groups, where))
        checked = to_plain(check.instances(items, where))
        places = {item["name"]: where(item) for item in items}
        if args["mark_absent"]:
            return self._mark_absent(read, args["mark_absent"])
        wanted = [item for item in checked if item.get("state") != "absent"]
        absent = [item for item in checked if item.get("state") == "absent"]
        with self.store(args, task_vars).read() as connection:
            known = instances.listing(connection)
            stored = server_groups.names(connection)
            resolved = identity.resolve(wanted, known, groups)
            check.known_groups(zip(wanted, resolved), {*stored, *(group["name"] for group in groups)}, places)
            policies = instances.policies(connection, [each["uuid"] for each in resolved])
        result = {"changed": False, "instances": resolved, "server_groups": groups}
        result["absent"] = sorted(item["name"] for item in absent)
        result["still_there"] = sorted(item["name"] for item in absent if any(_is_of(item, each) for each in known))
        there = {each["uuid"]: each for each in known}
        placed, differing = [], []
        for item, found in zip(wanted, resolved):
            if found["state"] not in ("new", "building", identity.UNSEEN):
                placed.append(found)
                differing += differences.lines(item, there[found["uuid"]], policies[found["uuid"]])
        result["differences"] = [*differing, differences.ADVICE] if differing else []
        table = [*text.instances_table([there[found["uuid"]] for found in placed]), *result["differences"]]
        if args["show"]:
            for line in table:
                self.show(line)
        result["table"] = table
        if args["write_back"] and read is not None:
            result.update(self._write_back(read, placed))
        return result

    def _file(self, path: str) -> str:
        """Where somebody who gives a file on the command line means it to be: not beside the collection's playbook."""
        beside = self._loader.path_dwim(path)
        return beside if os.path.exists(beside) and not os.path.exists(path) else os.path.abspath(path)

    def _write_back(self, read: document.Document, placed: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        by_name = {instance["name"]: instance for instance in placed}
        for number, item in enumerate(read.section("instances")):
            instance = by_name.get(item["name"], {})
            values = {key: instance[key] for key in ("host", "uuid") if instance and item.get(key) != instance[key]}
            read.set(number, values)
        return self._save(read)

    def _mark_absent(self, read: document.Document | None, gone: Iterable[Any]) -> dict[str, Any]:
        """Mark removed instances as absent in the file, so that they are not built again."""
        if read is None:
            raise DroverError("mark_absent works on a definitions file: give its path.")
        gone = [each if isinstance(each, dict) else {"name": str(each), "uuid": str(each)} for each in gone]
        for number, item in enumerate(read.section("instances")):
            if item.get("state") != "absent" and any(_is_of(item, each) for each in gone):
                read.set(number, {"state": "absent"})
        return {"changed": False, **self._save(read)}

    def _save(self, read: document.Document) -> dict[str, Any]:
        after = read.text()
        if after == read.before:
            return {}
        if not self._task.check_mode:
            read.save()
        if not self._task.diff:
            return {"changed": True}
        headers = {"before_header": read.path, "after_header": read.path}
        return {"changed": True, "diff": [{"before": read.before, "after": after, **headers}]}


def _is_of(definition: Mapping[str, Any], instance: Mapping[str, Any]) -> bool:
    """Tell if a definition is of an instance, by its uuid, or by its name if it has no uuid."""
    if definition.get("uuid"):
        return str(definition["uuid"]).lower() == instance.get("uuid")
    return definition["name"] == instance.get("name")


def _of_variables(item: object) -> str:
    return "drover_instance_definitions"

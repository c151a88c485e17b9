# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read instance definitions, and write host and uuid back into their file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.utils.vars import load_extra_vars

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import project_paths
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
    difference,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    has_ended,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    check,
    differences,
    document,
    identity,
    keeping,
)
from ansible_collections.drover.compute.plugins.plugin_utils._definitions.definition import (
    Definition,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims, server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._report import text
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import pool_domains
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    flavors as flavors_of_store,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances,
    orders,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import decisions
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables


class Args(StoreArgs):
    """The arguments of this action."""

    #: One of these two is given.
    path: str | None
    instances: list[Any]
    server_groups: list[Any]
    keep: bool
    write_back: bool
    mark_absent: list[Any]
    show: bool
    differences: list[str] | None


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "path": {"type": "path"},
        "instances": {"type": "list", "elements": "dict"},
        "server_groups": {"type": "list", "elements": "dict", "default": []},
        "keep": {"type": "bool", "default": False},
        "write_back": {"type": "bool", "default": False},
        "mark_absent": {"type": "list", "elements": "raw", "default": []},
        "show": {"type": "bool", "default": False},
        "differences": {"type": "list", "elements": "str"},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_one_of": [["path", "instances"]],
        "mutually_exclusive": [["path", "instances"]],
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        read = None
        if args["path"] is None:
            items, sections_read, where = (
                args["instances"],
                {"server_groups": args["server_groups"]},
                _of_variables,
            )
        else:
            read = document.Document(self._file(args["path"]))
            items, sections_read, where = (
                read.section("instances"),
                {name: read.section(name) for name in keeping.CHECKS},
                read.where,
            )
        sections = {
            name: to_plain(rule(sections_read.get(name, []), where))
            for name, rule in keeping.CHECKS.items()
        }
        checked = to_plain(check.instances(items, where))
        places = {name: where(item) for item in items for name in check.names_of(item)}
        if args["mark_absent"]:
            return self._mark_absent(read, args["mark_absent"])
        store = self.store(args, task_vars)
        if args["keep"]:
            released = self._release_builds(store, checked)
            written = self._keep_definitions(store, sections)
            return {
                **written,
                "changed": written["changed"] or bool(released),
                "released": released,
            }
        with store.read() as connection:
            recorded_instances = instances.listing(connection)
            flavors, images = keeping.known(connection, sections)
            stored = server_groups.names(connection)
            definitions = check.with_flavors(
                [item for item in checked if item.get("state") != "absent"], flavors, places
            )
            resolved = identity.resolve(
                definitions, recorded_instances, sections["server_groups"], flavors, images, places
            )
            both = list(zip(definitions, resolved))
            check.known_names(
                "server_groups",
                both,
                {*stored, *(group["name"] for group in sections["server_groups"])},
                places,
            )
            check.known_names("images", both, images, places)
            known_pools, lacking = _pools_of_hosts(connection)
            check.known_pools(resolved, known_pools, places, lacking)
            kept = instances.kept(connection, [each["uuid"] for each in resolved])
            recorded = flavors_of_store.read_all(connection)
            pools = instances.pool_disks(connection, [each["uuid"] for each in resolved])
        if (
            read is not None
            and not self._task.check_mode
            and any(each["state"] == "new" for each in resolved)
        ):
            read.refuse_unwritable()
        absent = [item for item in checked if item.get("state") == "absent"]
        result = {
            "changed": False,
            "instances": resolved,
            "sections": sections,
            "server_groups": sections["server_groups"],
        }
        result["absent"] = sorted(item["name"] for item in absent)
        result.update(identity.leftover(absent, recorded_instances))
        by_uuid = {each["uuid"]: each for each in recorded_instances}
        placed, differing, strangers = [], [], []
        for item, named in both:
            if named["state"] not in ("new", "building", identity.UNSEEN):
                placed.append(named)
                instance = by_uuid[named["uuid"]]
                compared = differences.found(named, instance, kept[named["uuid"]], flavors=recorded)
                differing += differences.lines(named["name"], compared)
                strangers += differences.stranger(item, instance)
        wishes = identity.ignored_hosts(both)
        if wishes and not args["write_back"]:
            result["warnings"] = wishes
        if args["differences"] is not None:
            # The caller has read the hypervisors, so the store is not needed for the differences.
            result["differences"] = [*args["differences"], *strangers]
        else:
            result["differences"] = (
                [*differing, *strangers, differences.ADVICE] if differing or strangers else []
            )
        rows = [
            {**by_uuid[found["uuid"]], "pool_disks": pools.get(found["uuid"])} for found in placed
        ]
        table = [*text.instances_table(rows), *result["differences"]]
        if args["show"]:
            for line in table:
                self.show(line)
        result["table"] = table
        if args["write_back"] and read is not None:
            result.update(self._write_back(read, placed))
        return result

    def _release_builds(self, store: Store, checked: Iterable[Definition]) -> list[str]:
        """Give back claims of definitions that left the file before a build, if their run ended."""
        names = {
            orders.definition_of(item.get("project"), name)
            for item in checked
            for name in check.names_of(item)
        }
        with store.read() as connection:
            unbuilt = [
                each
                for each in decisions.unbuilt(connection, claims.PURPOSE)
                if each["definition"] not in names
            ]
        ended = [
            each
            for each in unbuilt
            if each["order_uuid"] is None and has_ended(each["actor"] or "")
        ]
        if ended:
            with store.write(together=True) as connection:
                claims.release_unattended(connection, [each["uuid"] for each in ended], time.time())
            would = "would be" if self._task.check_mode else "was"
            names_of = ", ".join(each["name"] for each in ended)
            self.show(
                f"Claimed and never built, and in these definitions no more: {names_of}. The room"
                f" {would} given back."
            )
        for instance in unbuilt:
            if instance["order_uuid"] is not None and has_ended(instance["actor"] or ""):
                self.show(
                    f"{instance['name']} is in these definitions no more, and its build on"
                    f" {instance['host']} was cut off: end it with drover.compute.instance_delete"
                    f" -e drover_instance={instance['uuid']}"
                )
        return [each["name"] for each in ended]

    def _keep_definitions(self, store: Store, sections: keeping.Sections) -> dict[str, object]:
        """Create and change flavors, images, aggregates and server groups in the store."""
        if not any(sections.values()):
            return {"changed": False}
        with store.write() as connection:
            changes = keeping.keep(connection, sections, time.time())
        result: dict[str, object] = {"changed": bool(changes)}
        if self._task.diff:
            result["diff"] = [difference(*each) for each in changes]
        return result

    def _file(self, path: str) -> str:
        """Return the absolute path of a file from the command line.

        The current folder comes first, because the user means that folder and not the playbook's.
        """
        beside = self._loader.path_dwim(path)
        absolute = (
            beside if os.path.exists(beside) and not os.path.exists(path) else os.path.abspath(path)
        )
        project_paths.refuse_outside(absolute, "drover_definitions", load_extra_vars(self._loader))
        return absolute

    def _write_back(
        self, read: document.Document, placed: Iterable[Mapping[str, Any]]
    ) -> dict[str, object]:
        by_name = {instance["name"]: instance for instance in placed}
        for number, item in enumerate(read.section("instances")):
            # The store knows each instance of a ``count`` by its own name, so the file keeps no
            # host and uuid for it.
            instance = by_name.get(item["name"], {}) if item.get("count") is None else {}
            values = {
                key: instance[key]
                for key in ("host", "uuid")
                if instance and item.get(key) != instance[key]
            }
            read.set(number, values)
        return self._save(read)

    def _mark_absent(
        self, read: document.Document | None, gone: Iterable[Any]
    ) -> dict[str, object]:
        """Mark removed instances as absent in the file, so that they are not built again."""
        if read is None:
            raise DroverError("mark_absent works on a definitions file: give its path.")
        gone = [
            each if isinstance(each, dict) else {"name": str(each), "uuid": str(each)}
            for each in gone
        ]
        unmarked: list[str] = []
        for number, item in enumerate(read.section("instances")):
            parts = [{**item, "name": name} for name in check.names_of(item)]
            marked = [part["name"] for part in parts if any(_is_of(part, each) for each in gone)]
            if item.get("state") == "absent" or not marked:
                continue
            if len(marked) == len(parts):
                read.set(number, {"state": "absent"})
            else:
                unmarked += marked
        return {"changed": False, "unmarked": unmarked, **self._save(read)}

    def _save(self, read: document.Document) -> dict[str, object]:
        after = read.text()
        if after == read.before:
            return {}
        if not self._task.check_mode:
            read.save()
        if not self._task.diff:
            return {"changed": True}
        headers = {"before_header": read.path, "after_header": read.path}
        return {"changed": True, "diff": [{"before": read.before, "after": after, **headers}]}


def _pools_of_hosts(connection: Connection) -> tuple[set[str], dict[str, list[str]]]:
    """Return the pools that a host has had running, and the hosts of all pools by name."""
    classes_by_pool: dict[str, str] = {}
    lacking: dict[str, list[str]] = {}
    for node in pool_domains.nodes(connection):
        pools = node.facts.get("storage_pools") or ()
        classes_by_pool.update({pool["name"]: pool["resource_class"] for pool in pools})
        for name in [*(pool["name"] for pool in pools), *(node.facts.get("lacking_pools") or ())]:
            lacking.setdefault(name, []).append(node.host)
    # A pool gets its resource class when a discovery first finds it running.
    classes = bulk.ids_by(
        connection, tables.resource_classes.c.name, classes_by_pool.values(), make=False
    )
    return {name for name, found in classes_by_pool.items() if found in classes}, lacking


def _is_of(definition: Mapping[str, Any], instance: Mapping[str, Any]) -> bool:
    """Return True if a definition belongs to an instance, by its uuid or else by its name."""
    if definition.get("uuid"):
        return str(definition["uuid"]).lower() == instance.get("uuid")
    return definition["name"] == instance.get("name")


def _of_variables(item: object) -> str:
    return "drover_instance_definitions"

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather a hypervisor's facts, or take them as data, and record them in the store."""

from __future__ import annotations

import time

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from ansible_collections.drover.compute.plugins.plugin_utils.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils.progress import milestone
from ansible_collections.drover.compute.plugins.plugin_utils.store import evacuations, services
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import node, node_data, record

NODE_SPEC = {
    "instances_path": {"type": "path", "default": "/var/lib/libvirt/images"},
    "reserved_host_cpus": {"type": "int", "default": 0},
    "reserved_host_memory_mb": {"type": "int", "default": 512},
    "reserved_host_disk_mb": {"type": "int", "default": 0},
    "cpu_allocation_ratio": {"type": "float"},
    "ram_allocation_ratio": {"type": "float"},
    "disk_allocation_ratio": {"type": "float"},
    "cpu_shared_set": {"type": "str"},
    "cpu_dedicated_set": {"type": "str"},
    "availability_zone": {"type": "str"},
    "cell": {"type": "str"},
    "migration_uri": {"type": "str"},
    "migration_address": {"type": "str"},
    "shared_pools": {"type": "raw"},
    "ip_pools": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "required": True},
        },
    },
}


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "uris": {"type": "list", "elements": "str", "default": ["qemu:///system"]},
        "nodes": {"type": "list", "elements": "dict"},
        "host": {"type": "str"},
        **NODE_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("uris", *NODE_SPEC)

    def variables(self, task_vars):
        """The variables of the host that is gathered, which delegate_to may name."""
        if not self._task.delegate_to:
            return task_vars
        return task_vars["hostvars"].get(self.target(task_vars), {})

    def act(self, args, task_vars):
        try:
            return self._act(args, task_vars)
        finally:
            # A host that could not be reached is done with, too.
            line = milestone(self.target(task_vars), list(task_vars.get("ansible_play_hosts_all") or ()))
            if line is not None:
                self.show(line)

    def _act(self, args, task_vars):
        host = args["host"] or self.target(task_vars)
        if args["nodes"] is not None:
            reports = node_data.reports(args["nodes"], host, args)
        else:
            reports = {host: self._gather(host, args, task_vars)}
        with self.store(args, task_vars).write() as connection:
            found = record.record(connection, reports, time.time())
        warnings = [sentence for nodes in reports.values() for each in nodes for sentence in each["warnings"]]
        warnings += [
            f"{each['name']} is on {' and '.join(each['nodes'])} at once. Nothing was done about it. Destroy and undefine the one "
            "that must not be, and run drover.compute.discover."
            for each in found["doubled"]
        ]
        warnings += [
            f"{sentence} Until its metadata is corrected it is left where it is." for sentence in found.pop("policies")
        ]
        return {**found, "warnings": warnings} if warnings else found

    def _gather(self, host, args, task_vars):
        if not args["uris"]:
            raise DroverError(f"Host {host}: uris is empty. Name a libvirt URI, such as qemu:///system.")
        try:
            facts = [self._facts(uri, args, task_vars) for uri in args["uris"]]
        except (AnsibleConnectionFailure, AnsibleActionFail) as problem:
            self._record_down(host, str(problem), args, task_vars)
            raise
        facts = self._without_stale(host, facts, args, task_vars)
        return [node.describe(found, args) for found in node.distinct_names(facts)]

    def _without_stale(self, host, facts, args, task_vars):
        """Remove the definitions of what was evacuated from this host while it was dead, before anything starts them.

        Only what is shut off, and what the store has on another host.

        :returns: the facts without what was removed.
        """
        if not any(each["state"] == "shutoff" for found in facts for each in found["domains"]):
            return facts
        # Not read(): the first discovery of all makes the store, and that of a new release changes it.
        with self.store(args, task_vars).write() as connection:
            left = {
                each["uuid"]: each["name"]
                for each in evacuations.left_behind(connection, [host])
                if each["host"] not in (None, host)
            }
        kept = []
        for uri, found in zip(args["uris"], facts):
            domains = found["domains"]
            stale = [each["uuid"] for each in domains if each["uuid"] in left and each["state"] == "shutoff"]
            if stale:
                gone = self._forget(uri, stale, task_vars)
                word = "would remove" if self._task.check_mode else "removed"
                for uuid in sorted(gone, key=left.get):
                    self.show(
                        f"{host}: {word} the stale definition of {left[uuid]}, which was evacuated; its disks stay"
                    )
                domains = [each for each in domains if each["uuid"] not in gone]
            kept.append({**found, "domains": domains})
        return kept

    def _forget(self, uri, uuids, task_vars):
        result = self._execute_module(
            module_name="drover.compute.domain_restart", module_args={"uri": uri, "forget": uuids}, task_vars=task_vars
        )
        if result.get("failed"):
            raise AnsibleActionFail(result.get("msg") or "domain_restart failed without a message")
        return {each["uuid"] for each in result["forgotten"] if each["status"] in ("forgotten", "absent")}

    def _facts(self, uri, args, task_vars):
        result = self._execute_module(
            module_name="drover.compute.hypervisor_info",
            module_args={"uri": uri, "instances_path": args["instances_path"]},
            task_vars=task_vars,
        )
        if result.get("failed"):
            raise AnsibleActionFail(result.get("msg") or "hypervisor_info failed without a message")
        return to_plain(result["hypervisor"])

    def _record_down(self, host, reason, args, task_vars):
        with self.store(args, task_vars).write() as connection:
            services.record_unreachable(connection, host, " ".join(reason.split())[:500], time.time())

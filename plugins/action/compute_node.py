# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the facts of a hypervisor in the store, read from it or given as data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    difference,
    variables_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.delegation import (
    AnsibleHosts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.peers import (
    of_inventory,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import Unreachable
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.discovery import (
    DiscoveryRequest,
    HostDiscovery,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.host_reading import (
    ReadingRequest,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import DiscoveryPorts
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.progress import milestone
from ansible_collections.drover.compute.plugins.plugin_utils._tracker.node_options import (
    NODE_OPTIONS,
    READING_OPTIONS,
)

#: The arguments of this action. Most options are those of _tracker.node_options.
Args = dict[str, Any]


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "uris": {"type": "list", "elements": "str", "default": ["qemu:///system"]},
        "nodes": {"type": "list", "elements": "dict"},
        "host": {"type": "str"},
        "exchanged": {"type": "bool", "default": False},
        "check_migration_trust": {"type": "bool", "default": False},
        **NODE_OPTIONS,
        **READING_OPTIONS,
        **STORE_SPEC,
    }
    VARIABLES = ("uris", *NODE_OPTIONS, *READING_OPTIONS)

    def variables(self, task_vars: Variables) -> Variables:
        """Return the variables of the host that is read; delegate_to may name it."""
        if not self._task.delegate_to:
            return task_vars
        return variables_of(task_vars, self.target(task_vars))

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        request = self._request(args, task_vars)
        self.exchanged = {request.host} if request.exchanged else set()
        try:
            outcome = HostDiscovery(self._ports(args, task_vars, request.host), request).run()
        except Unreachable as problem:
            # Ansible must see that the host is unreachable, for plays that continue without such
            # hosts.
            if isinstance(problem.cause_of_it, Exception):
                raise problem.cause_of_it from None
            raise
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # At its time limit ansible-core raises a private BaseException. Without this line it
            # would then remove the files of the module from the host, and wait for that without a
            # limit.
            self._connection._shell.tmpdir = None
            raise
        finally:
            # A host that cannot be reached counts as read here.
            hosts: Any = task_vars.get("ansible_play_hosts_all") or ()
            if line := milestone(self.target(task_vars), list(hosts)):
                self.show(line)
        if "diff" in outcome:
            outcome["diff"] = [difference(*each) for each in outcome["diff"]]
        return outcome

    def _request(self, args: Args, task_vars: Variables) -> DiscoveryRequest:
        host, nodes = args["host"] or self.target(task_vars), args["nodes"]
        groups: Any = task_vars.get("groups") or {}
        peers = of_inventory(task_vars, host) if args["check_migration_trust"] else None
        return DiscoveryRequest(
            host=host,
            options={**args, "host": host},
            reading=ReadingRequest(args["uris"], peers) if nodes is None else None,
            nodes=nodes or (),
            whole=bool(args["host"]),
            in_inventory=host in (groups.get("all") or ()),
            exchanged=args["exchanged"],
            alone=self._task.delegate_to is None,
            diff=bool(self._task.diff),
        )

    def _ports(self, args: Args, task_vars: Variables, host: str) -> DiscoveryPorts:
        given = {"store_url": args["store_url"]} if args["store_url"] else {}
        hosts = AnsibleHosts(self, task_vars, lambda: None, lambda dummy: None, given)
        return DiscoveryPorts(
            self.store(args, task_vars),
            self.hand(args, task_vars, host=host),
            hosts,
            LeaseHolder.of_this_task,
            self.show,
            time,
            self._task.timeout or 0,
        )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warn of problems between hosts that their records in the store foretell."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner import fleet_cpus
from ansible_collections.drover.compute.plugins.plugin_utils._report import fleet_check
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import recorded_hosts
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts.recorded_hosts import (
    RecordedHost,
)


class Args(StoreArgs):
    """The arguments of this action."""


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {**STORE_SPEC}
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        with self.store(args, task_vars).read() as connection:
            hosts = recorded_hosts.read(connection)
        found = fleet_check.recorded({name: _facts(host) for name, host in hosts.items()})
        result: dict[str, object] = {"findings": [each._asdict() for each in found]}
        return {**result, "warnings": fleet_check.sentences(found)} if found else result


def _facts(host: RecordedHost) -> dict[str, object]:
    missing = fleet_cpus.lacks(host.fleet_cpu, host.features) if host.fleet_cpu else ()
    further = (
        [(f"it {fleet_cpus.what(host.fleet_cpu, missing)}", fleet_cpus.REMEDY)]
        if host.fleet_cpu and missing
        else []
    )
    return {**host._asdict(), "hostname": host.hypervisor_hostname, "further": further}

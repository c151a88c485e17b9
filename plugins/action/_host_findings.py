# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warn of problems between hosts that their records in the store foretell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._planner import fleet_cpus
from ansible_collections.drover.compute.plugins.plugin_utils._report import fleet_check
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import recorded_hosts
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts.recorded_hosts import (
    RecordedHost,
)


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {**STORE_SPEC}
    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        with self.store(args, task_vars).read() as connection:
            hosts = recorded_hosts.read(connection)
        found = fleet_check.recorded({name: _facts(host) for name, host in hosts.items()})
        result: dict[str, Any] = {"findings": [each._asdict() for each in found]}
        return {**result, "warnings": fleet_check.sentences(found)} if found else result


def _facts(host: RecordedHost) -> dict[str, Any]:
    missing = fleet_cpus.lacks(host.fleet_cpu, host.features) if host.fleet_cpu else ()
    further = (
        [(f"it {fleet_cpus.what(host.fleet_cpu, missing)}", fleet_cpus.REMEDY)]
        if host.fleet_cpu and missing
        else []
    )
    return {**host._asdict(), "hostname": host.hypervisor_hostname, "further": further}

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the instance of a claim, or find out how its build ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._domain.numa_xml import with_numa
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    ConductorAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.building import Building
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.fleet_cpu import FleetCpus
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import fleet_cpu_xml
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims, selections

#: Keys of a claim that do not apply on another host: its cells and devices.
OF_THE_HOST = ("numa", "pci_devices", "mdevs")


class Args(StoreArgs):
    """The arguments of this action."""

    state: str
    uuid: str
    #: These two are required to build.
    name: str
    xml: str
    numa: Any
    disks: list[Any]
    defined_disks: list[Any]
    seed: Any
    autostart: bool
    mdevs: list[Any]
    graphics_password: str | None
    uri: str
    timeout: int
    claim: Any
    looked_at: float | None
    expires: int
    message: str


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["built", "settled"], "default": "built"},
        "uuid": {"type": "str", "required": True},
        "name": {"type": "str"},
        "xml": {"type": "str"},
        "numa": {"type": "dict"},
        "disks": {"type": "list", "elements": "dict", "default": []},
        "defined_disks": {"type": "list", "elements": "dict", "default": []},
        "seed": {"type": "dict"},
        "autostart": {"type": "bool", "default": False},
        "mdevs": {"type": "list", "elements": "dict", "default": []},
        "graphics_password": {"type": "str", "no_log": True},
        "uri": {"type": "str", "default": "qemu:///system"},
        "timeout": {"type": "int", "default": 60},
        "claim": {"type": "dict", "default": {}},
        "looked_at": {"type": "float"},
        "expires": {"type": "int", "default": claims.LIFETIME},
        "message": {"type": "str", "default": "It was not built."},
        **STORE_SPEC,
    }
    REQUIREMENTS = {"required_if": [["state", "built", ["name", "xml"]]]}

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        host = self.target(task_vars)
        ports = self.ports(args, task_vars)
        building = Building(
            ports, self.hand(args, task_vars), host, args["timeout"], args["looked_at"]
        )
        try:
            if args["state"] != "built":
                return self._settled(building, args)
            args["xml"] = self._with_fleet_cpu(FleetCpus(ports.store, ports.hosts), host, args)
            return self._built(building, host, args)
        finally:
            for sentence in building.left:
                self.warn(sentence)

    def _with_fleet_cpu(self, cpus: FleetCpus, host: str, args: Args) -> str:
        try:
            return fleet_cpu_xml.resolved(
                args["xml"], lambda domain_type: cpus.of_guest(host, args["uri"], domain_type)
            )
        except DroverError as problem:
            raise DroverError(
                f"Instance {args['name']} on {host}: {problem}", host=host, uncertain=False
            ) from None

    def _built(self, building: Building, host: str, args: Args) -> dict[str, object]:
        keys = (
            "uuid",
            "name",
            "xml",
            "disks",
            "seed",
            "autostart",
            "mdevs",
            "graphics_password",
            "uri",
        )
        given: Mapping[str, object] = args
        options = {key: given[key] for key in keys if given[key] is not None}
        if args["numa"] is not None:
            try:
                options["xml"] = with_numa(args["xml"], args["numa"])
            except ValueError as problem:
                raise DroverError(
                    f"Instance {args['name']} on {host}: its domain XML cannot be read: {problem}."
                    " Correct the template."
                ) from None
        building.refuse_miscounted(args["name"], args["defined_disks"])
        # In check mode the claim was rolled back, so nothing can be built.
        result = building.foretell(options) if self._task.check_mode else building.build(options)
        answer = {"changed": bool(result["changed"]), "host": host, "domain": result["domain"]}
        if self._task.diff and "diff" in result:
            answer["diff"] = result["diff"]
        return to_plain(answer)

    def _settled(self, building: Building, args: Args) -> dict[str, object]:
        if self._task.check_mode:
            raise DroverError(
                f"{args['message']} In check mode nothing was built, so there is nothing to settle."
            )
        before = args["claim"]
        alternates = before.get("alternates") or []
        if alternates:
            selections.check_alternates(f"Instance {args['uuid']}", alternates)
        actor = LeaseHolder.of_this_task().holder
        outcome = building.settle(args["uuid"], alternates, args["expires"], args["message"], actor)
        if outcome["claim"] is None:
            return {"changed": True, **outcome}
        same = {key: value for key, value in before.items() if key not in OF_THE_HOST}
        return {"changed": True, "built": outcome["built"], "claim": {**same, **outcome["claim"]}}

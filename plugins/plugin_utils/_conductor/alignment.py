# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison of instances with their definitions, and the changes that align them.

Each change is an operation that also exists alone: new settings, an attached device, a changed
medium, a resize. No change removes anything. Only a resize shuts down a guest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

from .._common.errors import DroverError, TimeOver
from .._definitions import differences, hardware_fields
from .._definitions.definition import Resolved
from .._definitions.devices_there import (
    DISK,
    GIB,
    GROWTH,
    INTERFACE,
    RESIZE,
    SETTINGS,
    Difference,
    InstanceChange,
)
from .._records.domains import ReportedDomain
from .._records.flavors import FlavorFields
from .._records.instances import ListedInstance, NamedInstance
from .._records.orders import NewSize
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._store.instances import flavors, instance_lookup, instances, orders
from .fleet_cpu import FleetCpus
from .instance_devices import DeviceRequest, InstanceDevices
from .instance_operations import InstanceOperations
from .ports import Ports
from .resize import ResizeRequest, ResizeRun
from .resize_steps import ResizeSteps, has_arrived
from .settings import ResizeSettings

#: Seconds that a look waits for another call on the same instance.
PATIENCE = 5
#: The folder of the disks that the role place makes, unless the host has drover_instances_path.
FOLDER = "/var/lib/libvirt/images"
#: The states of instances without a domain to compare.
NOT_THERE = ("new", "building", "missing", "unseen")


class _Known(NamedTuple):
    """The record of an instance in the store. kept: see instances.kept()."""

    named: NamedInstance
    listed: ListedInstance
    kept: Mapping[str, object]


class Alignment:
    """One run over the instances of a file.

    :param apply: align the instances with their definitions; without it, only compare them.
    :param settings: of resizes. In check mode nothing is changed.
    """

    def __init__(self, ports: Ports, settings: ResizeSettings, apply: bool) -> None:
        self._ports, self._settings, self._apply = ports, settings, apply
        #: The changes: (name of an instance, before, after).
        self.changes: list[tuple[str, dict[str, object], dict[str, object]]] = []
        #: The failures, one sentence for each.
        self.failed: list[str] = []
        #: The CPU of the fleet, by host, for instances that use it; in the form of definitions.
        self._fleet_cpus: dict[str, object] = {}

    def run(self, definitions: Sequence[Resolved]) -> dict[str, object]:
        """Compare the instances, and change them with ``apply``. A failure of one stops no other.

        :param definitions: as identity.resolve() returns them.
        :returns: a dict: changed, lines (the differences that are left), problems (a sentence for
            each failure).
        """
        by_uuid = {each["uuid"]: each for each in definitions if each["state"] not in NOT_THERE}
        recorded, of_store = self._read_records(list(by_uuid))
        looks = self._read_domains([each.named for each in recorded.values()])
        self._read_fleet_cpus(
            [each for uuid, each in recorded.items() if _asks_for_fleet_cpu(by_uuid[uuid])]
        )
        lines, changed, differs = [], False, False
        for uuid, definition in by_uuid.items():
            if uuid not in recorded:
                # Another run has removed it since the definitions were read.
                continue
            instance = recorded[uuid]
            facts, reason = looks[uuid]
            deviations = self._compare(definition, instance, facts, of_store)
            if facts is None:
                lines += [
                    f"{definition['name']}: {reason}; it is compared with what the last discovery"
                    " saw."
                ]
                if self._apply:
                    self.failed.append(f"{definition['name']} was not changed: {reason}.")
            elif self._apply:
                done = self._align_instance(definition, instance, deviations, facts)
                changed = changed or done
                if done and not self._settings.check_mode:
                    # The output shows the domain as it is now, not the change that was ordered.
                    again, of_store = self._read_records([uuid])
                    self._read_fleet_cpus(again.values() if _asks_for_fleet_cpu(definition) else [])
                    facts, reason = (
                        self._read_domains([again[uuid].named])[uuid]
                        if uuid in again
                        else (None, "it is gone")
                    )
                    deviations = (
                        self._compare(definition, again[uuid], facts, of_store)
                        if facts is not None
                        else []
                    )
            differs = differs or any(one.change is not None for one in deviations)
            lines += differences.lines(definition["name"], deviations)
        if differs and not self._apply:
            lines.append(differences.APPLY)
        return {"changed": changed, "lines": lines, "problems": self.failed}

    def _read_records(self, uuids: Sequence[str]) -> tuple[dict[str, _Known], dict[str, Any]]:
        """Return the records of instances, by uuid, and the flavors of the store, by name."""
        with self._ports.store.read() as connection:
            gone: list[Any] = []
            named = (
                instance_lookup.find(connection, [{"uuid": uuid} for uuid in uuids], gone)
                if uuids
                else []
            )
            listed = {each["uuid"]: each for each in instances.listing(connection)}
            kept = instances.kept(connection, uuids)
            of_store = flavors.read_all(connection)
        return {
            each["uuid"]: _Known(each, listed[each["uuid"]], kept[each["uuid"]])
            for each in named
            if each["host"]
        }, of_store

    def _read_fleet_cpus(self, asking: Iterable[_Known]) -> None:
        hosts = {each.named["host"] or "" for each in asking}
        if hosts:
            self._fleet_cpus.update(FleetCpus(self._ports.store, self._ports.hosts).kept_for(hosts))

    def _read_domains(
        self, named: Sequence[NamedInstance]
    ) -> dict[str, tuple[ReportedDomain | None, str]]:
        """Look at instances, with one call for each host.

        :returns: by uuid the facts of the domain, or None with the reason why it was not seen.
        """
        facts: dict[str, tuple[ReportedDomain | None, str]] = {}
        for place in dict.fromkeys(
            (each["host"] or "", each["uri"] or DEFAULT_URI) for each in named
        ):
            host, uri = place
            uuids = [
                each["uuid"]
                for each in named
                if (each["host"], each["uri"] or DEFAULT_URI) == place
            ]
            try:
                looks = self._ports.hosts.hand(host).look(
                    uri, {uuid: [] for uuid in uuids}, PATIENCE
                )
            except TimeOver:
                raise
            except DroverError as problem:
                facts.update({uuid: (None, str(problem).rstrip(".")) for uuid in uuids})
                continue
            for uuid in uuids:
                look = looks[uuid]
                if look is None:
                    facts[uuid] = (None, f"its host {host} does not answer")
                elif look["busy"]:
                    facts[uuid] = (None, f"another call works on it on {host}")
                elif look["domain"] is None or look["domain"].get("uuid") != uuid:
                    facts[uuid] = (
                        None,
                        (
                            f"{host} does not show its domain, so drover.compute.discover has to"
                            " find it"
                        ),
                    )
                else:
                    facts[uuid] = (look["domain"], "")
        return facts

    def _compare(
        self,
        definition: Resolved,
        known: _Known,
        facts: ReportedDomain | None,
        of_store: Mapping[str, FlavorFields],
    ) -> list[Difference]:
        folder = FOLDER
        if _asks_for_fleet_cpu(definition):
            # The CPU of the fleet may have changed since. Without one there is nothing to compare.
            definition = {**definition, "cpu": self._fleet_cpus.get(known.named["host"] or "")}
        if facts is not None:
            folder = (
                self._ports.hosts.variables(known.named["host"] or "").get("drover_instances_path")
                or FOLDER
            )
        return differences.found(definition, known.listed, known.kept, facts, str(folder), of_store)

    def _align_instance(
        self,
        definition: Resolved,
        known: _Known,
        found: Sequence[Difference],
        facts: ReportedDomain,
    ) -> bool:
        """Make the changes of an instance. Return True if one of them changed something."""
        name = definition["name"]
        # An earlier run may have made a change already and not ended it. Then no difference shows
        # it.
        begun = [self._open_resize(definition, known.named), _open_order(known.named, facts)]
        todo = [*(each for each in begun if each is not None), *_steps(found)]
        before: dict[str, object] = {}
        after: dict[str, object] = {}
        changed, failed = False, len(self.failed)
        for keys, change in todo:
            if change.kind == RESIZE and len(self.failed) > failed:
                # No other change is possible until a resize is confirmed.
                self.failed.append(f"{name} was not resized before its other changes are made.")
                continue
            try:
                if not self._make_change(known.named, change):
                    continue
            except TimeOver:
                raise
            except DroverError as problem:
                self.failed.append(str(problem))
                continue
            changed = True
            before.update({each.key: each.there for each in found if each.key in keys})
            after.update({each.key: each.wanted for each in found if each.key in keys})
            self._say_change(name, keys, change, facts)
        if before:
            self.changes.append((name, before, after))
        return changed

    def _open_resize(
        self, definition: Resolved, named: NamedInstance
    ) -> tuple[list[str], InstanceChange] | None:
        """Return the change that ends a resize of an earlier run to the sizes of the definition."""
        if named["migration"] is None:
            return None
        _instance, resize = ResizeSteps(self._ports, self._settings).find({"uuid": named["uuid"]})
        if resize is None or has_arrived(resize):
            return None
        old, new, wanted = (
            (of["vcpus"], of["memory_mb"]) for of in (resize["old"], resize["new"], definition)
        )
        if new == old or new != wanted:
            return None
        sizes: Mapping[str, object] = (
            dict(resize["given"]) if resize["given"] else {"flavor": resize["new"]["flavor"]}
        )
        return ["the resize that an earlier run began"], InstanceChange(RESIZE, sizes)

    def _say_change(
        self, name: str, keys: Sequence[str], change: InstanceChange, facts: ReportedDomain
    ) -> None:
        text = (
            f"{name}: {'would change' if self._settings.check_mode else 'changed'}"
            f" {', '.join(keys)}"
        )
        if change.kind == RESIZE:
            running = facts["state"] not in ("shutoff", "crashed")
            again = (
                ", which shuts it down, moves it if it has no room, and starts it again"
                if running
                else ""
            )
            text += (
                f"{again}. End the resize with drover.compute.instance_resize and"
                " drover_resize=confirm or revert"
            )
        self._ports.say(f"{text}.")

    def _make_change(self, named: NamedInstance, change: InstanceChange) -> bool:
        """Make one change. Return True if it changed anything."""
        instance = {"uuid": named["uuid"], "name": named["name"]}
        if change.kind == RESIZE:
            given = dict(change.given)
            size = NewSize(given["flavor"]) if "flavor" in given else NewSize(None, given)  # type: ignore[arg-type]
            return bool(
                ResizeRun(self._ports, ResizeRequest([instance], self._settings, size)).run()[
                    "changed"
                ]
            )
        if change.kind == SETTINGS:
            operations = InstanceOperations(self._ports, self._settings.check_mode)
            result, _differences, failed = operations.run(
                [instance], "set", {**change.given, "timeout": self._settings.timeout}
            )
            if failed:
                raise DroverError(" ".join(failed))
            return bool(result["changed"])
        request = DeviceRequest(instance, change.kind, change.given, True, self._settings.timeout)
        return bool(
            InstanceDevices(self._ports, request, self._settings.check_mode).run()["changed"]
        )


def _asks_for_fleet_cpu(definition: Resolved) -> bool:
    return (definition.get("cpu") or {}).get("mode") == hardware_fields.FLEET


def _steps(found: Sequence[Difference]) -> list[tuple[list[str], InstanceChange]]:
    """Return the changes of an instance with the keys of their differences, the resize last.

    Settings are one change together, and so are sizes.
    """
    joined: dict[str, tuple[list[str], dict[str, object]]] = {SETTINGS: ([], {}), RESIZE: ([], {})}
    devices = []
    for difference in found:
        if difference.change is None:
            continue
        if difference.change.kind in joined:
            keys, given = joined[difference.change.kind]
            keys.append(difference.key)
            given.update(difference.change.given)
        else:
            devices.append(([difference.key], difference.change))
    settings, resize = (
        [(keys, InstanceChange(kind, given))] if keys else []
        for kind, (keys, given) in joined.items()
    )
    return [*settings, *devices, *resize]


def _open_order(
    named: NamedInstance, facts: ReportedDomain
) -> tuple[list[str], InstanceChange] | None:
    """Return the change that closes an open order of an earlier run.

    The earlier run attached a device or made a disk larger. The change has the present device or
    size, so it changes nothing on the host.
    """
    keys = ["the order of an earlier run"]
    if named["task_state"] == orders.EXTENDING:
        for disk in facts["disks"]:
            if (
                disk.get("device", "disk") == "disk"
                and (size := disk.get("capacity_bytes"))
                and size % GIB == 0
            ):
                return keys, InstanceChange(
                    GROWTH, {"target": disk["target"], "size_gb": size // GIB}
                )
    if named["task_state"] != orders.ATTACHING:
        return None
    for disk in facts["disks"]:
        if (
            disk.get("device", "disk") == "disk"
            and kinds.of_disk(disk).source is Source.FILE
            and disk["source"]
        ):
            options = {
                "path": disk["source"],
                **{key: disk[key] for key in ("format", "bus", "readonly", "target")},
            }
            return keys, InstanceChange(DISK, options)
    for nic in facts["interfaces"]:
        if nic["type"] in ("bridge", "network") and nic["source"]:
            return keys, InstanceChange(
                INTERFACE, {nic["type"]: nic["source"], "mac": nic["mac"], "model": nic["model"]}
            )
    return None

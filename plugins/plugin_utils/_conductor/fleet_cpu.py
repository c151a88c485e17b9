# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that all hosts of a group can run.

libvirt of one host determines it once; the store keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict

from .._common.errors import DroverError, Unreachable
from .._common.validation import which_name
from .._planner import fleet_cpus as planning
from .._records.fleet_cpus import Cpu, CpuGroup, FleetCpu, HostModel
from .._store.database import clock
from .._store.engine import Store
from .._store.hosts import fleet_cpus
from .._store.hosts.compute_nodes import DEFAULT_URI
from .._tracker import checked_facts
from .ports import Hosts


class ListedCpu(TypedDict):
    """A recorded CPU, for people. lacking: {host: names of the features that the host lacks}."""

    cell: str | None
    arch: str
    domain_type: str
    vendor: str | None
    model: str
    policies: dict[str, str]
    hosts: list[str]
    lacking: dict[str, list[str]]
    created_at: float


class FleetCpus:
    """The CPUs of all groups of hosts."""

    def __init__(self, store: Store, hosts: Hosts) -> None:
        self._store, self._hosts = store, hosts

    def of_guest(self, host: str, uri: str | None, domain_type: str | None) -> dict[str, object]:
        """Return the CPU of a new guest on a host, and record it for the other guests of its group.

        :param uri: the URI of libvirt there, if the host has several.
        :param domain_type: the domain type of the guest.
        :returns: a CPU as in definitions (mode, model, features), with its vendor.
        :raises DroverError: no such CPU exists, or the host lacks a feature of the recorded one.
        """
        # Read only this host: the data of all hosts are large, and only the first guest of a group
        # needs them.
        kept, models = self._read_models(host)
        node = _node(host, uri, models)
        group = node["group"]
        if group is None:
            # members() refuses with a sentence that fits this host.
            planning.members(
                CpuGroup(node["cell"], node["arch"] or "", "", ""), self._read_models()[1]
            )
            raise DroverError(
                f"The store does not have what guests of {host} can have: run"
                " drover.compute.discover."
            )
        if domain_type != group.domain_type:
            raise DroverError(
                f"cpu: fleet is the CPU of {group.domain_type} guests on {host}, and the"
                f" domain_type of this one is {domain_type}. Give it a CPU model instead, or take"
                " its domain_type out."
            )
        fleet_cpu = kept.get(group)
        if fleet_cpu is None:
            cpu, hosts = self._determine(group, self._read_models()[1])
            with self._store.write() as connection:
                # Another run may have recorded one in the time between.
                fleet_cpu = fleet_cpus.keep(
                    connection,
                    group,
                    {"cpu": cpu, "hosts": hosts, "created_at": clock.now(connection)},
                )
        missing = planning.lacks(fleet_cpu, node["features"])
        if missing:
            raise DroverError(f"{host} {planning.what(fleet_cpu, missing)}. {planning.REMEDY}.")
        return as_definition(fleet_cpu["cpu"])

    def kept_for(self, hosts: Collection[str]) -> dict[str, dict[str, object]]:
        """Return the recorded CPUs for guests of hosts, as in definitions, by host.

        Omit hosts without one.
        """
        kept, models = self._read_models(*hosts)
        by_host: dict[str, dict[str, object]] = {}
        for each in models:
            if each["group"] in kept:
                by_host.setdefault(each["host"], as_definition(kept[each["group"]]["cpu"]))
        return by_host

    def renewed(self, chosen: Collection[str] = ()) -> list[ListedCpu]:
        """Determine each recorded CPU again for the present hosts. Return the CPUs like listing().

        Instances keep their CPU. A CPU without hosts is deleted.

        :param chosen: the hosts that count; only the CPUs of their groups are determined, also CPUs
            that are not recorded yet. Empty: all hosts.
        :raises DroverError: a host is not in the store, or was not read.
        """
        kept, models = self._read_models()
        nodes = _models_of_hosts(chosen, models) if chosen else models
        groups = {each["group"] for each in nodes if each["group"] is not None}
        with self._store.read() as connection:
            now = clock.now(connection)
        after: dict[CpuGroup, FleetCpu] = dict(kept) if chosen else {}
        for group in sorted(groups if chosen else groups & set(kept)):
            cpu, hosts = self._determine(group, nodes)
            before = kept.get(group)
            fleet_cpu: FleetCpu = {"cpu": cpu, "hosts": hosts, "created_at": now}
            after[group] = (
                before
                if before is not None and (cpu, hosts) == (before["cpu"], before["hosts"])
                else fleet_cpu
            )
        with self._store.write() as connection:
            for group in set(kept) - set(after):
                fleet_cpus.forget(connection, group)
            for group, fleet_cpu in after.items():
                if fleet_cpu != kept.get(group):
                    fleet_cpus.replace(connection, group, fleet_cpu)
        return _list_cpus(after, models)

    def listing(self) -> list[ListedCpu]:
        """Return all recorded CPUs, with the hosts that lack a feature of them."""
        return _list_cpus(*self._read_models())

    def _read_models(self, *hosts: str) -> tuple[dict[CpuGroup, FleetCpu], list[HostModel]]:
        """Read the recorded CPUs, and the models that these hosts, or all hosts, can give."""
        with self._store.read() as connection:
            return fleet_cpus.read(connection), fleet_cpus.host_models(connection, hosts or None)

    def _determine(self, group: CpuGroup, models: Sequence[HostModel]) -> tuple[Cpu, list[str]]:
        """Let libvirt find the CPU of a group; return the CPU and its hosts."""
        nodes = planning.members(group, models)
        return self._baseline(group, nodes), sorted({each["host"] for each in nodes})

    def _baseline(self, group: CpuGroup, nodes: Sequence[HostModel]) -> Cpu:
        features = planning.common_features(nodes)
        options = {"arch": group.arch, "domain_type": group.domain_type, "features": features}
        silent = []
        for node in planning.oldest(nodes):
            try:
                answer = self._hosts.hand(node["host"]).read(
                    "_cpu_baseline", {"uri": node["uri"] or DEFAULT_URI, **options}
                )
            except Unreachable as problem:
                silent.append(str(problem).rstrip("."))
                continue
            if answer.get("failed"):
                raise DroverError(
                    f"The CPU of the {group.label} cannot be determined on {node['host']}:"
                    f" {answer.get('msg')}"
                )
            model = answer.get("cpu") or {}
            checked_facts.cpu_model(model, f"The CPU that {node['host']} found")
            cpu: Cpu = {
                "vendor": model.get("vendor"),
                "model": model["model"],
                "policies": model.get("policies") or {},
                "features": sorted(model.get("features") or ()),
            }
            further = sorted(set(cpu["features"]) - set(features))
            if further:
                raise DroverError(
                    f"libvirt of {node['host']} has no CPU model for the features that all"
                    f" {group.label} have: the nearest is {cpu['model']}, with"
                    f" {', '.join(further)}. Give the instance a CPU model instead of cpu: fleet."
                )
            return cpu
        raise DroverError(
            f"The CPU of the {group.label} is determined on a host with their oldest QEMU, and none"
            f" of these answers: {'; '.join(silent)}. Start one, or take it out of the store"
            " (drover.compute.host_remove)."
        )


def _models_of_hosts(hosts: Collection[str], models: Sequence[HostModel]) -> list[HostModel]:
    """Return the CPU models that these hosts can give.

    :raises DroverError: a host is not in the store.
    """
    matching = [each for each in models if each["host"] in hosts]
    for host in sorted(set(hosts) - {each["host"] for each in matching}):
        raise DroverError(
            f"The store has no host {host} with"
            f" QEMU{which_name(host, (each['host'] for each in models))}. The CPU of the fleet is"
            " what it was."
        )
    return matching


def as_definition(cpu: Cpu) -> dict[str, object]:
    """Return a CPU as in definitions, with its vendor."""
    features = {"features": cpu["policies"]} if cpu["policies"] else {}
    return {"mode": "custom", "model": cpu["model"], "vendor": cpu["vendor"], **features}


def _list_cpus(kept: Mapping[CpuGroup, FleetCpu], models: Sequence[HostModel]) -> list[ListedCpu]:
    lacking = planning.lacking(kept, models)
    return [
        {
            "cell": group.cell or None,
            "arch": group.arch,
            "domain_type": group.domain_type,
            "vendor": group.vendor or None,
            "model": each["cpu"]["model"],
            "policies": each["cpu"]["policies"],
            "hosts": each["hosts"],
            "lacking": {host: list(missing) for host, missing in lacking.get(group, {}).items()},
            "created_at": each["created_at"],
        }
        for group, each in sorted(kept.items())
    ]


def _node(host: str, uri: str | None, models: Sequence[HostModel]) -> HostModel:
    nodes = [each for each in models if each["host"] == host]
    if not nodes:
        raise DroverError(
            f"cpu: fleet needs a host with QEMU that was read, and {host} is none: run"
            " drover.compute.discover."
        )
    return next((each for each in nodes if each["uri"] == uri), nodes[0])

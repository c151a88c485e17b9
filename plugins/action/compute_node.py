# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the facts of a hypervisor in the store, read from it or given as data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine
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
    Actor,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.machines import (
    Machines,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.peers import ring
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty, sizes
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    Unreachable,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import (
    default_migration_uri,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import starting
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.progress import milestone
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    guest,
    hardware_fields,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    compute_nodes,
    continuity,
    power,
    services,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts.compute_nodes import (
    DEFAULT_URI,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    evacuations,
    occupancy,
    went_down,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    checked_facts,
    host_changes,
    node,
    node_data,
    record,
    recorded,
    sharing_facts,
)
from ansible_collections.drover.compute.plugins.plugin_utils._tracker.node import NodeReport

#: Seconds that another host may take to show the instances that were evacuated to it.
LOOK = 30
#: Seconds for all these looks together, because the discovery of this host has its own time limit.
LOOKS = 90
#: The most hypervisors for the check of one host, so that a check takes no longer in a large fleet.
MOST_PEERS = 32

NODE_SPEC: dict[str, dict[str, Any]] = {
    "instances_path": {"type": "path", "default": "/var/lib/libvirt/images"},
    "reserved_host_cpus": {"type": "int", "default": 0},
    "reserved_host_memory_mb": {"type": "raw", "default": 512},
    "reserved_host_disk_mb": {"type": "raw", "default": 0},
    "cpu_allocation_ratio": {"type": "float"},
    "ram_allocation_ratio": {"type": "float"},
    "disk_allocation_ratio": {"type": "float"},
    "cpu_shared_set": {"type": "str"},
    "cpu_dedicated_set": {"type": "str"},
    "vcpu_pin_set": {"type": "str"},
    "reserved_huge_pages": {"type": "raw"},
    "pci_device_specs": {"type": "list", "elements": "dict"},
    "pci_report_in_placement": {"type": "bool", "default": False},
    "numa_report_in_placement": {"type": "bool", "default": False},
    "mdev_types": {"type": "list", "elements": "raw"},
    "availability_zone": {"type": "str"},
    "labels": {"type": "dict"},
    "cell": {"type": "str"},
    "migration_uri": {"type": "str"},
    "migration_address": {"type": "str"},
    "probe_kvm": {"type": "bool", "default": False},
    "domain_type": {"type": "str"},
    "cpu": {"type": "raw"},
    "shared_pools": {"type": "raw"},
    "shared_block_devices": {"type": "list", "elements": "str"},
    "storage_pools": {"type": "list", "elements": "raw"},
    "ip_pools": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "required": True},
        },
    },
}


#: Lists of a record for people to look at, with their words.
TO_LOOK_AT = {
    "missing": "missing here",
    "stale": "evacuated and still defined here",
    "doubled": "on several hosts",
    "unreported": "compute nodes no longer reported",
}


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "uris": {"type": "list", "elements": "str", "default": ["qemu:///system"]},
        "nodes": {"type": "list", "elements": "dict"},
        "host": {"type": "str"},
        "exchanged": {"type": "bool", "default": False},
        "check_migration_trust": {"type": "bool", "default": False},
        **NODE_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("uris", *NODE_SPEC)

    def variables(self, task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the variables of the host that is read; delegate_to may name it."""
        if not self._task.delegate_to:
            return task_vars
        return variables_of(task_vars, self.target(task_vars))

    def machines(self, args: Mapping[str, Any], task_vars: Mapping[str, Any]) -> Machines:
        return Machines(lambda: self.store(dict(args), task_vars), self._exchanged)

    def act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
        # The warnings of the module about unreadable facts, and the domains that libvirt cannot
        # describe.
        self._untold: list[str] = []
        # True if a module ran on the host, and failed there.
        self._ran_there = False
        self._untold_domains: list[dict[str, Any]] = []
        # The evacuated instances that are still defined here, and the proofs that their new hosts
        # no longer have them.
        self._evacuated: dict[str, Mapping[str, Any]] = {}
        self._absent: dict[str, certainty.Proof] = {}
        # A person says that this host has another machine now.
        self._exchanged = {args["host"] or self.target(task_vars)} if args["exchanged"] else set()
        self._store_args = {"store_url": args["store_url"]} if args.get("store_url") else {}
        try:
            return self._act(args, task_vars)
        finally:
            # A host that cannot be reached counts as read here.
            line = milestone(
                self.target(task_vars), list(task_vars.get("ansible_play_hosts_all") or ())
            )
            if line is not None:
                self.show(line)

    def _act(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> dict[str, Any]:
        host = args["host"] or self.target(task_vars)
        for name in ("reserved_host_memory_mb", "reserved_host_disk_mb"):
            args[name] = sizes.read(f"Host {host}: drover_{name}", args[name], sizes.MIB)
        args["domain_type"] = guest.checked_type(
            args["domain_type"], f"Host {host} (drover_domain_type)"
        )
        args["cpu"] = guest.checked_cpu(args["cpu"], f"Host {host} (drover_cpu)")
        if args["nodes"] is not None:
            # With host and an empty list, the store loses all nodes of the host.
            reports = node_data.reports(args["nodes"], host, args) or (
                {host: []} if args["host"] else {}
            )
        else:
            reports = {host: self._gather(host, {**args, "host": host}, task_vars)}
        try:
            found, forgotten = self._recorded(host, reports, args, task_vars)
        except record.SecondName as problem:
            # The host must not count beside its other name.
            self._record_down(host, str(problem), args, task_vars)
            raise
        # Show this here: a separate task would cost the controller a process for each host, even if
        # it is skipped.
        if args["nodes"] is None and self._task.delegate_to is None:
            if any(found[each] for each in TO_LOOK_AT):
                self.show(_to_look_at(host, found))
            for line in went_down.sentences(
                {host: found["went_down"]} if found["went_down"] else {}
            ):
                self.show(line)
        warnings = [
            sentence
            for nodes in reports.values()
            for each in nodes
            for sentence in each["warnings"]
        ]
        warnings += [*forgotten, *_doubled_sentences(found["doubled"])]
        warnings += [
            f"{sentence} It is not moved until its metadata is corrected."
            for sentence in found.pop("policies")
        ]
        warnings += [*found.pop("unmeasured"), *self._untold]
        return {**found, "warnings": warnings} if warnings else found

    def _recorded(
        self,
        host: str,
        reports: dict[str, list[NodeReport]],
        args: dict[str, Any],
        task_vars: Mapping[str, Any],
    ) -> tuple[dict[str, Any], list[str]]:
        """Record the reports of hosts.

        :returns: the result, and warnings about changes by people in an earlier store.
        """
        with self.store(args, task_vars).write() as connection:
            before = recorded.of_hosts(connection, reports) if self._task.diff else {}
            record.refuse_second_names(connection, reports)
            if self._exchanged:
                machines = {"before": _described(connection, host)}
                shown = {
                    domain["columns"]["uuid"]
                    for each in reports[host]
                    for domain in each["domains"]
                }
                host_changes.refuse_exchange(
                    connection,
                    host,
                    shown | {each["uuid"] for each in self._untold_domains if each["uuid"]},
                )
            now = clock.now(connection)
            if not self._task.check_mode:
                continuity.notice(connection, now)
            forgotten = continuity.forgotten(
                connection,
                {
                    name: sum(len(each["domains"]) for each in nodes)
                    for name, nodes in reports.items()
                },
            )
            record.end_moved_back(connection, self._evacuated, self._absent, now)
            found = record.record(connection, reports, now)
            if self._task.diff:
                after = recorded.of_hosts(connection, reports)
                changed = [name for name in sorted(reports) if before.get(name) != after.get(name)]
                found["diff"] = [
                    difference(name, before.get(name), after.get(name)) for name in changed
                ]
            leases.remove_over(connection, Actor.of_this_task())
            if args["nodes"] is None:
                found["occupants"] = occupancy.occupants(connection, host)
                # A domain that libvirt cannot describe may run.
                found["occupants"]["running"] += self._untold_domains
            if self._exchanged:
                found["machines"] = {**machines, "after": _described(connection, host)}
        return found, forgotten

    def _gather(
        self, host: str, args: dict[str, Any], task_vars: Mapping[str, Any]
    ) -> list[NodeReport]:
        if not args["uris"]:
            raise DroverError(
                f"Host {host}: uris is empty. Name a libvirt URI, such as qemu:///system."
            )
        try:
            answers = [self._facts(uri, args, task_vars) for uri in args["uris"]]
        except Unreachable as problem:
            self._record_down(host, str(problem.cause_of_it), args, task_vars)
            # Ansible must see that the host is unreachable, for plays that continue without such
            # hosts.
            raise (
                problem.cause_of_it if isinstance(problem.cause_of_it, Exception) else problem
            ) from None
        except AnsibleActionFail as problem:
            self._record_down(host, str(problem), args, task_vars)
            raise
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # At its time limit ansible-core raises a private BaseException. Without this line it
            # would then remove the files of the module from the host, and wait for that without a
            # limit.
            self._connection._shell.tmpdir = None
            # If the task has no limit, the limit of the calling task has passed, and the host may
            # be up.
            if self._task.timeout:
                self._record_down(
                    host, f"it did not answer within {self._task.timeout} s", args, task_vars
                )
            raise
        try:
            found = [
                checked_facts.reported(answer, f"Host {host}, as it reports itself")
                for answer in answers
            ]
        except DroverError as problem:
            # A host with wrong facts answers, so it must not count as dead.
            raise DroverError(
                f"{problem} Nothing of host {host} was recorded. Check its libvirt, and its root access.",
                answers=True,
            ) from None
        self._untold_domains = [
            _untold(each) for facts, dummy in found for each in facts["untold_domains"]
        ]
        facts = self._without_stale(host, [facts for facts, dummy in found], args, task_vars)
        nodes = [node.describe(each, args) for each in node.distinct_names(facts)]
        for described, (answer, sentences) in zip(nodes, found):
            described["warnings"] = [
                *sentences,
                *described["warnings"],
                *_no_kvm(host, answer.get("kvm")),
            ]
        return nodes

    def _without_stale(
        self,
        host: str,
        facts: list[dict[str, Any]],
        args: dict[str, Any],
        task_vars: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """Remove old definitions of evacuated instances on this host, before anything starts them.

        It removes only definitions that are off, and only if another host shows the instance right
        now. Otherwise the definition may be the only one: a person may have moved the instance
        back, or the store may be older.

        :returns: the facts without the removed domains.
        """
        if not any(found["domains"] for found in facts):
            return facts
        # Not read(), because a discovery also creates or upgrades the store.
        with self.store(args, task_vars).write() as connection:
            left = {
                each["uuid"]: each
                for each in evacuations.left_behind(connection, [host])
                if each["host"] not in (None, host)
            }
            self._evacuated = {
                each["uuid"]: {**left[each["uuid"]], "state": each["state"]}
                for found in facts
                for each in found["domains"]
                if each["uuid"] in left
            }
            seen = evacuations.seen_at(connection, self._evacuated)
        there = self._shown_elsewhere(host, seen, task_vars)
        kept = []
        for uri, found in zip(args["uris"], facts):
            domains = found["domains"]
            stale = [
                each["uuid"]
                for each in domains
                if each["uuid"] in there and each["state"] == "shutoff"
            ]
            if stale:
                gone = self._forget(uri, stale, task_vars)
                word = "would remove" if self._task.check_mode else "removed"
                for uuid in sorted(gone, key=lambda uuid: left[uuid]["name"]):
                    more = f"; {gone[uuid]}" if gone[uuid] else ""
                    self.show(
                        f"{host}: {word} the stale definition of {left[uuid]['name']}, which was evacuated; its disks stay{more}"
                    )
                domains = [each for each in domains if each["uuid"] not in gone]
            kept.append({**found, "domains": domains})
        return kept

    def _shown_elsewhere(
        self, host: str, seen: Mapping[str, Iterable[tuple[str, str]]], task_vars: Mapping[str, Any]
    ) -> set[str]:
        """Return the evacuated instances that another host shows now.

        Show a line for each old definition that is kept.

        Look at the new host of an instance, and at each other host that showed the instance in its
        last discovery, because a person may have moved it there. On such a third host only a
        running guest counts: a definition that is off may be old too.

        :param seen: dict uuid -> (host, URI) of the hosts that showed the instance in their last
            discovery.
        """
        hosts, until = (
            AnsibleHosts(self, task_vars, lambda: None, self._untold.append, self._store_args),
            time.monotonic() + LOOKS,
        )
        places: dict[tuple[str, str], list[str]] = {}
        for uuid, each in self._evacuated.items():
            for place in {
                (each["host"], each["uri"] or DEFAULT_URI): None,
                **dict.fromkeys((name, at or DEFAULT_URI) for name, at in seen.get(uuid, ())),
            }:
                if place[0] != host:
                    places.setdefault(place, []).append(uuid)
        shown, why = set(), {}
        for (there, uri), uuids in places.items():
            limit = min(LOOK, int(until - time.monotonic()))
            looks = (
                hosts.hand(there, limit).look(uri, dict.fromkeys(uuids, ()), 0) if limit > 0 else {}
            )
            for uuid in uuids:
                look, is_new_host = looks.get(uuid), there == self._evacuated[uuid]["host"]
                found = look["domain"] if look is not None else None
                if found is not None and (is_new_host or found["state"] != "shutoff"):
                    shown.add(uuid)
                elif is_new_host:
                    proof = certainty.is_absent(there, look)
                    if proof is not None:
                        self._absent[uuid] = proof
                    why[uuid] = (
                        f"{there} did not answer" if look is None else f"{there} does not show it"
                    )
        for uuid in sorted(self._evacuated.keys() - shown):
            each = self._evacuated[uuid]
            self.show(
                f"{host}: kept the definition of {each['name']}, which was evacuated from here to {each['host']}, as {why[uuid]}: it may be the only one. "
                "Run drover.compute.discover with all hosts up."
            )
        return shown

    def _forget(self, uri: str, uuids: list[str], task_vars: Mapping[str, Any]) -> dict[str, str]:
        """Return the definitions that are gone: dict uuid -> words for things that went with it."""
        given = {"uri": uri, "forget": uuids}
        answer = starting.order(
            self.hand(self._store_args, task_vars), self.target(task_vars), "_domain_restart", given
        )
        if answer.outcome != certainty.DONE:
            raise AnsibleActionFail(answer.message)
        return {
            each["uuid"]: each["message"]
            for each in answer.result["forgotten"]
            if each["status"] in ("forgotten", "absent")
        }

    def _facts(self, uri: str, args: dict[str, Any], task_vars: Mapping[str, Any]) -> Any:
        given = {
            "uri": uri,
            "instances_path": args["instances_path"],
            "shared_pools": sorted(
                sharing_facts.declared(args["shared_pools"], f"Host {self.target(task_vars)}")
            ),
        }
        if args["probe_kvm"] and args["domain_type"] != "qemu":
            own = args["cpu"] and args["cpu"]["mode"] != hardware_fields.FLEET
            given.update(probe_kvm=True, **({"probe_cpu": args["cpu"]} if own else {}))
        # Check this once for each host, because it concerns SSH and not one libvirt.
        if args["check_migration_trust"] and uri == args["uris"][0]:
            given["migration_trust"] = {"host": args["host"], "peers": self._peers(args, task_vars)}
        result = self.hand(args, task_vars, host=args["host"]).read("hypervisor_info", given)
        if result.get("failed"):
            # Only a module on the host itself names its machine.
            self._ran_there = bool(result.get("machine"))
            raise AnsibleActionFail(result.get("msg") or "hypervisor_info failed without a message")
        self._untold += result.get("warnings") or []
        found = result["hypervisor"]
        # Use the URI of this task, whatever the host reports.
        return {**found, "uri": uri} if isinstance(found, dict) else found

    def _peers(self, args: dict[str, Any], task_vars: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return hypervisors of the inventory, each with host and uri.

        The last discovery recorded that URI.

        A host that was never discovered has the default URI. It has none if the host of this task
        has another URI than the default, because then that host may have another one too. The
        evaluation of so many hosts' variables in the task of each host takes longer than the
        discovery.
        """
        group = (task_vars.get("groups") or {}).get(
            str(task_vars.get("drover_hypervisors") or "hypervisors")
        )
        names = ring(
            list(group or task_vars.get("ansible_play_hosts_all") or ()), args["host"], MOST_PEERS
        )
        try:
            with self.store(args, task_vars).read() as connection:
                known = compute_nodes.migration_uris(connection, names)
        except DroverError:
            # No store exists yet; the recording makes it, or reports the problem.
            known = {}
        usual = args["migration_uri"] is None and args["uris"][0].startswith("qemu")
        return [
            {
                "host": name,
                "uri": known[name]
                if name in known
                else (default_migration_uri(name) if usual else None),
            }
            for name in names
        ]

    def _record_down(
        self, host: str, reason: str, args: dict[str, Any], task_vars: Mapping[str, Any]
    ) -> None:
        # A name in no inventory, such as localhost or a misspelt name, is not added as a host that
        # is down.
        named = host in ((task_vars.get("groups") or {}).get("all") or ())
        with self.store(args, task_vars).write() as connection:
            services.record_unreachable(
                connection, host, " ".join(reason.split())[:500], clock.now(connection), add=named
            )
            if self._ran_there:
                power.note_answer(connection, host)


def _described(connection: Connection, host: str) -> str:
    """Return the machine of a host in the store, in words for people."""
    known = compute_nodes.identities(connection, [host]).get(host)
    return (
        machine.described(known["host_uuids"], next(iter(known["machine_ids"]), None))
        if known
        else "not known"
    )


def _to_look_at(host: str, found: Mapping[str, Any]) -> str:
    """Return the line with the instances and nodes that a person must look at."""
    names = {
        each: [name["name"] if isinstance(name, dict) else name for name in found[each]]
        for each in TO_LOOK_AT
    }
    return f"{host}: " + "; ".join(
        f"{words}: {', '.join(names[each])}" for each, words in TO_LOOK_AT.items() if names[each]
    )


def _doubled_sentences(doubled: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a message for each doubled domain, and one for nodes that are the same machine."""
    sentences: list[str] = []
    shared: dict[tuple[str, ...], list[str]] = {}
    for each in doubled:
        if each["one_machine"]:
            shared.setdefault(tuple(each["nodes"]), []).append(each["name"])
        else:
            where = " and ".join(f"{node} ({each['states'][node]})" for node in each["nodes"])
            sentences.append(
                f"{each['name']} is on {where}, as each host was last read. Nothing was done about it. Run drover.compute.discover, for it "
                "may have moved. If the result is the same, destroy and undefine the wrong one, but keep its disks, which the other may use."
            )
    for nodes, names in shared.items():
        sentences.append(
            f"{' and '.join(nodes)} have the same host_uuid and show the same domains: {', '.join(names)}. If it is one machine under two "
            "names, destroy nothing: take the wrong name out of the inventory, and run ansible-playbook drover.compute.host_remove "
            "-e drover_host=THE-WRONG-NAME -e drover_new_name=THE-RIGHT-NAME, then drover.compute.discover. "
            "If they are two machines, give each a host_uuid of its own in libvirtd.conf."
        )
    return sentences


def _untold(domain: Any) -> dict[str, Any]:
    """Return an occupant for a domain that libvirt cannot describe."""
    given = domain if isinstance(domain, dict) else {}
    name = str(given.get("name") or "a domain without a description")
    return {
        "uuid": str(given["uuid"]) if given.get("uuid") else None,
        "name": " ".join(name.split())[:255],
        "state": "unknown",
        "host": None,
    }


def _no_kvm(host: str, probed: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield a warning if a host offers KVM but no guest starts with it."""
    if probed and probed.get("offered") and probed.get("works") is False:
        yield (
            f"Host {host} offers KVM, but no guest starts with it: {probed.get('message')}. Set its drover_cpu, such as mode: custom and "
            "model: qemu64, or its drover_domain_type: qemu; or repair its virtualisation."
        )

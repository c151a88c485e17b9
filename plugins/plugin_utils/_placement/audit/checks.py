# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of the audit.

Instances are compared with their allocations and domains; domains with instances; consumers with
instances and migrations; compute nodes, providers and inventories with each other. Open migrations
and claims may be old.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..._common import capacity_rule
from ..._records.claims import Resources
from ..._store.database.sql import Row
from ..._store.hosts.compute_nodes import ONE_LOOK
from ..._store.instances import orders, went_down
from ..allocations import INSTANCE, MIGRATION, Held
from ..claims import BUILDING
from .findings import Findings, What
from .snapshot import AuditedDomain, AuditSnapshot

CPU, MEMORY, DISK = "VCPU", "MEMORY_MB", "DISK_GB"
#: A dedicated CPU counts as a CPU, as a shared one does.
DEDICATED = "PCPU"


def examine_instances(seen: AuditSnapshot, found: Findings) -> None:
    """Find instances that are missing, and instances with an allocation that is missing, wrong,
    doubled or elsewhere.
    """
    for uuid, instance in seen.instances.items():
        allocated = seen.held.get(uuid, {})
        shown = seen.domains.get(uuid, {})
        where = next(iter(shown)) if len(shown) == 1 else instance.compute_node_id
        what = {"uuid": uuid, "name": instance.name, "host": seen.host(where)}
        if uuid in seen.open:
            if not allocated:
                sentence = "It has an open migration and holds no room at its destination."
                found.add("allocation_missing", sentence, "leaves it: its migration is open", what)
            waiting = [row for row in seen.open[uuid] if row.status == "finished"]
            if waiting and not shown:
                sentence = (
                    f"Its resize from {waiting[0].source} to {waiting[0].destination} waits to be"
                    " confirmed, and no host shows its domain."
                )
                found.add(
                    "instance_missing",
                    sentence,
                    "leaves it: the domain may come back, and its disk may be there",
                    what,
                )
            continue
        gone = not shown and instance.state != BUILDING
        if gone:
            sentence = (
                f"It is recorded on {what['host'] or 'no host'}, and no host shows its domain."
            )
            found.add(
                "instance_missing",
                sentence,
                "leaves it: the domain may come back, and its disk may be there",
                what,
            )
        problem = _problem(seen, instance, allocated, where, len(shown))
        if problem is None or (gone and problem[0] == "allocation_missing"):
            continue
        if instance.order_uuid is not None and problem[0] in (
            "allocation_wrong",
            "allocation_missing",
        ):
            # A part of its room belongs to the order. Only the host knows if the order is done.
            sentence = (
                f"It {orders.doing(instance.task_state)}, by a run that goes on or was killed."
                f" {problem[1]}"
            )
            found.add("order_open", sentence, "leaves it: an open order keeps its room", what)
            continue
        should, reason = _remedy(seen, instance, allocated, shown)
        if should is None:
            found.add(*problem, f"leaves it: {reason}", what)
            continue
        found.mends.holdings[uuid] = should
        found.mends.owners[uuid] = (instance.project, instance.user)
        found.mends.places[uuid] = (instance.id, where)
        found.add(
            *problem, f"gives it {_words(seen, should)}, over capacity or not", what, safe=True
        )


def examine_restarted_hosts(seen: AuditSnapshot, found: Findings) -> None:
    """Find hosts that were restarted, with the instances that ran there before and are off now."""
    for host, instances in seen.went_down.items():
        found.add(
            "went_down",
            went_down.sentence(host, instances),
            f"leaves them. To start them: {went_down.command(instances)}",
            {"host": host},
        )


def _size(instance: Row) -> Resources:
    return {CPU: instance.vcpus, MEMORY: instance.memory_mb, DISK: instance.disk_gb}


def _sums(held: Held) -> Resources:
    """Return the allocations of the size of an instance, on all providers together."""
    sums = dict.fromkeys((CPU, MEMORY, DISK), 0)
    for amounts in held.values():
        for name, amount in amounts.items():
            name = CPU if name == DEDICATED else name
            if name in sums:
                sums[name] += amount
    return sums


def _problem(
    seen: AuditSnapshot, instance: Row, held: Held, where: int | None, shown: int
) -> tuple[str, str] | None:
    """Return the kind and the description of the gravest problem with an instance; None if it has
    no problem.

    :param where: the id of the node that it is on.
    :param shown: the number of hosts that show its domain.
    """
    host = seen.host(where)
    if where is None or any(seen.node_of[key] != where for key in held):
        # The tree of a node that is gone has no node; a sharing provider is in the tree of no node.
        trees = {
            (seen.node_of[key], seen.place(key))
            for key in held
            if seen.node_of[key] is not None or key in seen.former
        }
        on = ", ".join(sorted(name for dummy, name in trees))
        if len(trees) > 1:
            return "allocation_doubled", f"It holds room on {on}, and no migration of it is open."
        gone = any(node is None for node, dummy in trees)
        if gone or any(node != where for node, dummy in trees):
            return (
                "wrong_host",
                (
                    f"It is on {host or 'no host'} and holds room on"
                    f" {on}{', whose node is gone' if gone else ''}."
                ),
            )
    if shown == 1 and where != instance.compute_node_id:
        recorded = seen.host(instance.compute_node_id) or "no host"
        return "wrong_host", f"Its domain is on {host}, and it is recorded on {recorded}."
    size, sums = _size(instance), _sums(held)
    # The instance may have CPUs for its emulator, in addition to the CPUs for its vCPUs.
    others = sum(
        len(cell["reserved"])
        for each in seen.numa.get(where or 0, ())
        if each["uuid"] == instance.uuid
        for cell in each["cells"]
    )
    if {**sums, CPU: min(max(sums[CPU] - others, size[CPU]), sums[CPU])} == size:
        return None
    if not any(sums.values()):
        return "allocation_missing", f"It takes {_amounts(size)} and holds nothing."
    return "allocation_wrong", f"It takes {_amounts(size)} and holds {_amounts(sums)}."


def _remedy(
    seen: AuditSnapshot, instance: Row, held: Held, shown: Mapping[int, AuditedDomain]
) -> tuple[Held, None] | tuple[None, str]:
    """Return the allocations that an instance should have, where its domain is; or why heal leaves
    it.
    """
    if not shown:
        return None, "no host shows its domain"
    if len(shown) > 1:
        return None, "its domain is on several hosts; fence one by hand first"
    node = next(iter(shown))
    root = seen.node_providers.get(node)
    if root is None:
        return None, "its compute node has no resource provider"
    # The allocations in the tree of the node and on sharing providers stay. All others are removed.
    should = {
        key: dict(amounts)
        for key, amounts in held.items()
        if seen.node_of[key] == node or (seen.node_of[key] is None and key not in seen.former)
    }
    for resource, amount in _size(instance).items():
        if _sums(should)[resource] == amount:
            continue
        names = (resource, DEDICATED) if resource == CPU else (resource,)
        holders = [
            (key, name) for key, amounts in should.items() for name in names if name in amounts
        ]
        if not holders:
            holders = [(key, resource) for key in _holders(seen, root, resource)]
        if len(holders) != 1:
            return None, f"its {resource} may be on several providers"
        should.setdefault(holders[0][0], {})[holders[0][1]] = amount
    should = {
        key: {name: each for name, each in amounts.items() if each}
        for key, amounts in should.items()
    }
    return {key: amounts for key, amounts in should.items() if amounts}, None


def _holders(seen: AuditSnapshot, root: int, resource: str) -> list[int]:
    """Return the providers that a class of a node may be taken from: its own, or else sharing
    ones.
    """
    if (root, resource) in seen.stocked:
        return [root]
    # If no provider has any, the repair still allocates it on the node, as discovery does.
    return seen.sharing(root, resource) or [root]


def _amounts(sizes: Resources) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sizes.items() if amount) or "nothing"


def _words(seen: AuditSnapshot, holding: Held) -> str:
    return (
        "; ".join(
            f"{_amounts(amounts)} on {seen.place(key)}" for key, amounts in sorted(holding.items())
        )
        or "nothing"
    )


def examine_domains(seen: AuditSnapshot, found: Findings, now: float) -> None:
    """Find domains that are doubled, and strangers. Two hosts are compared within one look: between
    two looks a domain may move.
    """
    for uuid, places in seen.domains.items():
        if len(places) == 1 and uuid in seen.instances:
            continue
        moving = seen.open.get(uuid, ())
        # After an evacuation the domain must not appear at the dead source again.
        coming = [row for row in moving if row.status != "done"]
        ends = {node for row in coming for node in (row.source_node_id, row.destination_node_id)}
        row = next(iter(places.values()))
        what = {"uuid": uuid, "name": row.name, "host": seen.hosts(places)}
        # On its way, a domain is at both ends of its migration.
        if len(places) > 1 and not set(places) <= ends:
            read_at = {node: seen.nodes[node].updated_at for node in places}
            states = ", ".join(
                f"{places[node].state} on {seen.host(node)} (read {_ago(now - read_at[node])})"
                for node in sorted(places)
            )
            if max(read_at.values()) - min(read_at.values()) > ONE_LOOK:
                found.add(
                    "domain_seen_twice",
                    f"Hosts showed one domain at different times: {states}. It may have moved"
                    " meanwhile.",
                    "leaves it: these hosts must be read together",
                    what,
                )
            else:
                found.add(
                    "domain_doubled",
                    f"One domain is on several hosts: {states}.",
                    "leaves it: no heal touches a domain that is on two hosts; fence one by hand",
                    what,
                )
        if uuid not in seen.instances and not moving:
            found.add(
                "stranger",
                "A host shows this domain, and no instance of the store has its uuid.",
                "leaves it: only discovery adopts",
                what,
            )


def _ago(seconds: float) -> str:
    """Return a time that has passed, for people."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"


#: The seconds without a change after which an open migration is reported.
OLD_MIGRATION = 24 * 3600
#: The seconds after which a claim is reported if nothing was built for it.
OLD_BUILD = 3600


def examine_consumers(
    seen: AuditSnapshot, found: Findings, now: float, release_expired: bool
) -> None:
    """Find consumers that are neither instances nor open migrations. Consumers of other types
    belong to the user.
    """
    for uuid, consumer in seen.consumers.items():
        instance = seen.instances.get(uuid)
        if instance is not None and (instance.state != BUILDING or uuid in seen.open):
            continue
        migration = seen.migrations.get(uuid)
        what = {
            "uuid": uuid,
            "name": (
                instance.name
                if instance is not None
                else migration.instance_name
                if migration is not None
                else None
            ),
            "host": ", ".join(sorted({seen.place(key) for key in seen.held.get(uuid, {})})) or None,
        }
        if instance is not None:
            _expired(seen, found, consumer, now, release_expired, what)
        elif migration is not None:
            if uuid not in {row.uuid for row in seen.open.get(migration.instance_uuid, ())}:
                why = (
                    f"It is held by migration {uuid} of {migration.instance_name}, which is"
                    f" {migration.status}."
                )
                found.mends.holdings[uuid] = {}
                found.add("migration_closed", why, "drops it", what, safe=True)
        elif consumer.type in (INSTANCE, MIGRATION):
            if consumer.expires_at is not None:
                _expired(seen, found, consumer, now, release_expired, what)
            else:
                _nobody(seen, found, uuid, what)


def examine_builds(seen: AuditSnapshot, found: Findings, now: float) -> None:
    """Find claims of builds that no run works at: the run has ended, or nothing was built for a
    long time. A claim that has expired is found as an expired one.
    """
    for claim in seen.unbuilt:
        consumer = seen.consumers.get(claim["uuid"])
        expired = (
            consumer is not None and consumer.expires_at is not None and consumer.expires_at < now
        )
        if (
            claim["uuid"] in seen.open
            or claim["uuid"] in seen.domains
            or (expired and claim["order_uuid"] is None)
        ):
            continue
        since = now - (claim["created_at"] or now)
        ended = claim["actor"] is not None and seen.ended(claim["actor"])
        if not ended and since < OLD_BUILD:
            continue
        reason = (
            f"It was claimed {_ago(since)} by {claim['actor'] or 'a run'},"
            f" {'which has ended' if ended else 'and was not built since'}."
        )
        found.add(
            "claim_unattended",
            reason,
            "leaves it: its room is given back by its removal",
            {"uuid": claim["uuid"], "name": claim["name"], "host": claim["host"]},
        )


def _nobody(seen: AuditSnapshot, found: Findings, uuid: str, what: What) -> None:
    reason = "Its consumer is neither an instance nor an open migration."
    if uuid in seen.domains:
        hosts = seen.hosts(seen.domains[uuid])
        found.add(
            "allocation_of_nobody", reason, f"leaves it: {hosts} shows a domain of this uuid", what
        )
    elif uuid in seen.open:
        found.add(
            "allocation_of_nobody", reason, "leaves it: a migration of this uuid is open", what
        )
    else:
        found.mends.holdings[uuid] = {}
        found.add("allocation_of_nobody", reason, "drops it", what, safe=True)


def _expired(
    seen: AuditSnapshot,
    found: Findings,
    consumer: Row,
    now: float,
    release_expired: bool,
    what: What,
) -> None:
    """Find a claim that has expired and has had no domain."""
    if consumer.expires_at is None or consumer.expires_at >= now or consumer.uuid in seen.domains:
        return
    instance = seen.instances.get(consumer.uuid)
    if instance is not None and instance.order_uuid is not None:
        # A hypervisor has the order to build it: the next run of place finds out the outcome.
        return
    hours = (now - consumer.expires_at) / 3600
    reason = f"It was claimed and not built; the claim expired {hours:.1f} h ago."
    if not release_expired:
        found.add("claim_expired", reason, "leaves it: only with release_expired", what)
        return
    if consumer.uuid in seen.instances:
        found.mends.releases.append(consumer.uuid)
    else:
        found.mends.holdings[consumer.uuid] = {}
    found.add("claim_expired", reason, "releases it", what, safe=True)


def examine_migrations(seen: AuditSnapshot, found: Findings, now: float) -> None:
    """Find open migrations with records that did not change for long."""
    for rows in seen.open.values():
        for row in rows:
            age = now - row.updated_at
            if age > OLD_MIGRATION:
                found.add(
                    "migration_old",
                    f"Its migration from {row.source} to {row.destination} is {row.status} since"
                    f" {age / 3600:.0f} h.",
                    "leaves it: it may be under way",
                    {"uuid": row.instance_uuid, "name": row.instance_name, "host": row.source},
                )


def examine_providers(seen: AuditSnapshot, found: Findings) -> None:
    """Find nodes without a service or a provider, providers without a node, and use that is
    miscounted.
    """
    _nodes(seen, found)
    _providers(seen, found)
    _inventories(seen, found)


def _nodes(seen: AuditSnapshot, found: Findings) -> None:
    for key, node in seen.nodes.items():
        what = {"uuid": node.uuid, "name": node.hypervisor_hostname, "host": node.host}
        if seen.services.get(node.service_id) != node.host:
            reason = f"This compute node has no service of host {node.host}."
            found.add("node_without_service", reason, "leaves it: discovery makes it", what)
        if key not in seen.node_providers:
            reason = (
                "This compute node has no resource provider of its uuid, so nothing can be placed"
                " on it."
            )
            found.add(
                "node_without_provider",
                reason,
                "leaves it: discovery makes it with its inventories",
                what,
            )


def _providers(seen: AuditSnapshot, found: Findings) -> None:
    for key in seen.former:
        row = seen.providers[key]
        if row.root_id in (None, key):
            found.add(
                "provider_without_node",
                "This resource provider was a compute node's, and no compute node has its uuid.",
                "leaves it: the node may come back",
                {"uuid": row.uuid, "provider": row.name},
            )


def _inventories(seen: AuditSnapshot, found: Findings) -> None:
    sums: Counter[tuple[int, str]] = Counter()
    for holding in seen.held.values():
        for key, amounts in holding.items():
            for name, amount in amounts.items():
                sums[key, name] += amount
    for row in seen.inventories:
        use = sums.pop((row.provider_id, row.name), 0)
        if row.used != use:
            found.mends.recounts.append(row.id)
            reason = f"{row.name}: {row.used} is counted as used, and {use} is allocated."
            found.add(
                "use_miscounted",
                reason,
                f"counts again: {use}",
                _what(seen, row.provider_id, row.name),
                safe=True,
            )
        capacity = capacity_rule.capacity(row.total, row.reserved, row.allocation_ratio)
        if use > capacity:
            reason = f"{row.name}: {use} is allocated of {capacity:g}."
            found.add(
                "over_capacity",
                reason,
                "leaves it: what runs takes its room",
                _what(seen, row.provider_id, row.name),
            )
    for (key, name), use in sums.items():
        reason = f"{name}: {use} is allocated, and the provider has none."
        found.add(
            "over_capacity", reason, "leaves it: what runs takes its room", _what(seen, key, name)
        )


def _what(seen: AuditSnapshot, key: int, name: str) -> What:
    row = seen.providers[key]
    return {
        "uuid": row.uuid,
        "provider": row.name,
        "host": seen.host(seen.node_of[key]),
        "resource": name,
    }

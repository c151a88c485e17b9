# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quotas: the use of each project, and the refusal of claims beyond its limits (N8.1).

Claims are counted, so nothing is counted twice or forgotten however many runs claim at the same
time. The project of an instance comes from its row in the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from .._common import resource_classes
from .._common.errors import DroverError
from .._records.claims import Allocations, ClaimRequest
from .._records.quotas import ProjectQuota, ResourceQuota
from .._store.database import bulk
from .._store.database.sql import Connection, Row, sa
from .._store.instances import quotas
from .._store.instances.migrations_open import EVACUATION, RESIZE
from .._store.providers import pool_names
from .._store.schema import tables
from . import allocations

#: Nova's limits that are not resource classes.
INSTANCES, CORES, RAM = "instances", "cores", "ram"
NOVA = (INSTANCES, CORES, RAM)
#: The resource classes that each of Nova's limits counts.
_CLASSES = {CORES: ("VCPU", "PCPU"), RAM: ("MEMORY_MB",)}


class Use(NamedTuple):
    """The use of a project: instances, and amounts by resource class.

    resizing: the part that resizes hold in addition to the size that counts for the instance.
    """

    instances: int
    amounts: Counter[str]
    resizing: Counter[str]

    def of(self, name: str) -> int:
        """Return the use that a limit counts."""
        return self.instances if name == INSTANCES else counted(name, self.amounts)


def counted(name: str, amounts: Mapping[str, int]) -> int:
    """Return the amount that a limit counts, of amounts by resource class."""
    return sum(amounts.get(each, 0) for each in _CLASSES.get(name, (name,)))


def text(name: str, amount: int) -> str:
    """Return an amount of a limit for people."""
    unit = "MiB" if name == RAM else resource_classes.unit_of(name)
    return f"{amount} {unit}" if unit in ("MiB", "GiB") else str(amount)


def refuse(
    connection: Connection,
    wanted: Mapping[str, Mapping[str, int]],
    beside: Mapping[str, int] | None = None,
) -> None:
    """Refuse the claims of this transaction if a project is beyond its limit now.

    Call it last. It locks the limits: if two transactions claim for a project, the second one
    counts the claims of the first one. As in Nova a limit matters only to claims that it counts: a
    project beyond its limit may claim other things.

    :param wanted: the amounts that the transaction has claimed in addition, by project: amounts by
        resource class, and ``instances``.
    :param beside: the old amounts of a resize that this transaction opens; it holds them in
        addition to the new ones.
    :raises DroverError: a limit is reached, with the figures.
    """
    limits = quotas.read(connection, wanted, locked=True) if wanted else {}
    if not limits:
        return
    use = read(connection, limits)
    refused = []
    for project, named in limits.items():
        for name, limit in named.items():
            more = (
                wanted[project].get(INSTANCES, 0)
                if name == INSTANCES
                else counted(name, wanted[project])
            )
            if more > 0 and use[project].of(name) > limit:
                others = counted(name, use[project].resizing) - counted(name, beside or {})
                refused.append((project, name, limit, use[project].of(name) - more, more, others))
    if refused:
        pool_names.learn(connection, [name for _project, name, *_figures in refused])
        raise DroverError(
            f"{' '.join(map(_sentence, refused))} Nothing was claimed. {_advice(refused)}",
            cause="quota",
            quotas=[
                dict(zip(("project", "resource", "limit", "in_use", "wanted"), each))
                for each in refused
            ],
        )


def _sentence(refused: tuple[str, str, int, int, int, int]) -> str:
    project, name, limit, used, more, dummy = refused
    is_pool = name.startswith(resource_classes.POOL_PREFIX)
    what = f"the storage pool {resource_classes.pool_of(name)}" if is_pool else name
    return (
        f"Project {project} has a limit of {text(name, limit)} for {what}. It uses"
        f" {text(name, used)}, and {text(name, more)} more {'is' if more == 1 else 'are'} wanted."
    )


def _advice(refused: Sequence[tuple[str, str, int, int, int, int]]) -> str:
    projects = sorted({each[0] for each in refused})
    resizing = any(each[5] for each in refused)
    first = (
        "Confirm or revert the resizes of the project, which hold their old size too, remove"
        if resizing
        else "Remove"
    )
    return (
        f"{first} instances of the project, ask for less, or raise the limit with"
        f" drover.compute.quota, project {' and '.join(projects)}."
    )


def of_selections(selections: Sequence[ClaimRequest]) -> dict[str, Counter[str]]:
    """Return the claims of new instances, as refuse() takes them."""
    requested: dict[str, Counter[str]] = {}
    for selection in selections:
        project = selection.get("project")
        if project:
            requested.setdefault(project, Counter()).update(
                {INSTANCES: 1, **selection["resources"]}
            )
    return requested


def read(connection: Connection, projects: Collection[str] | None = None) -> dict[str, Use]:
    """Count the use of projects.

    An instance counts with its claimed amounts. A resize that is open, or not confirmed, counts
    with both sizes, as in Nova. A move counts once: the amounts that its source still holds are
    left out.

    :param projects: None for all that have an instance.
    :returns: by project.
    """
    instances, consumers, allocations, classes = (
        tables.instances,
        tables.consumers,
        tables.allocations,
        tables.resource_classes,
    )
    mine = (
        instances.c.project.is_not(None)
        if projects is None
        else instances.c.project.in_(sorted(projects))
    )
    uses = {project: Use(0, Counter(), Counter()) for project in projects or ()}
    query = (
        sa.select(instances.c.project, sa.func.count()).where(mine).group_by(instances.c.project)
    )
    for project, number in connection.execute(query):
        uses[project] = Use(number, Counter(), Counter())
    query = (
        sa.select(instances.c.project, classes.c.name, sa.func.sum(allocations.c.used))
        .join(consumers, consumers.c.uuid == instances.c.uuid)
        .join(allocations, allocations.c.consumer_id == consumers.c.id)
        .join(classes, classes.c.id == allocations.c.class_id)
        .where(mine)
        .group_by(instances.c.project, classes.c.name)
    )
    for project, name, amount in connection.execute(query):
        uses[project].amounts[name] = int(amount)
    _count_moves(connection, uses, mine)
    return uses


def _count_moves(
    connection: Connection, found: Mapping[str, Use], mine: sa.ColumnElement[bool]
) -> None:
    """Add the amounts that resizes hold in addition to the instances, and subtract the amounts that
    evacuated hosts still hold under the instances.
    """
    migrations, instances = tables.migrations, tables.instances
    query = (
        sa.select(
            migrations.c.uuid,
            migrations.c.instance_uuid,
            migrations.c.type,
            migrations.c.details,
            instances.c.project,
        )
        .join(instances, instances.c.uuid == migrations.c.instance_uuid)
        .where(
            mine,
            migrations.c.status.in_(tables.HOLDING_MIGRATION),
            migrations.c.type.in_((RESIZE, EVACUATION)),
        )
    )
    rows = connection.execute(query).all()
    sources: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        if row.type == EVACUATION:
            sources.setdefault(row.instance_uuid, set()).update(
                _keys(row, "old") - _keys(row, "new")
            )
    resizes = {
        row.uuid: row for row in rows if row.type == RESIZE and grows_or_shrinks(row.details)
    }
    projects = {row.instance_uuid: row.project for row in rows}
    for consumer, provider, name, amount in _read_allocations(connection, {*sources, *resizes}):
        if consumer in resizes:
            if (provider, name) not in sources.get(resizes[consumer].instance_uuid, ()):
                found[resizes[consumer].project].amounts[name] += amount
                found[resizes[consumer].project].resizing[name] += amount
        elif (provider, name) in sources[consumer]:
            found[projects[consumer]].amounts[name] -= amount


def _read_allocations(connection: Connection, uuids: Collection[str]) -> list[Row]:
    """Read the allocations of consumers: (uuid of the consumer, uuid of the provider, class,
    amount).
    """
    consumers, allocations, classes, providers = (
        tables.consumers,
        tables.allocations,
        tables.resource_classes,
        tables.resource_providers,
    )
    query = (
        sa.select(
            consumers.c.uuid, providers.c.uuid.label("provider"), classes.c.name, allocations.c.used
        )
        .join(allocations, allocations.c.consumer_id == consumers.c.id)
        .join(classes, classes.c.id == allocations.c.class_id)
        .join(providers, providers.c.id == allocations.c.provider_id)
    )
    return bulk.among(connection, query, consumers.c.uuid, uuids)


def _allocations_of(
    details: Mapping[str, Mapping[str, Allocations]] | None, which: str
) -> Allocations:
    return ((details or {}).get(which) or {}).get("holds") or {}


def _keys(migration: Row, which: str) -> set[tuple[str, str]]:
    return {
        (provider, name)
        for provider, amounts in _allocations_of(migration.details, which).items()
        for name in amounts
    }


def grows_or_shrinks(details: Mapping[str, Mapping[str, Allocations]] | None) -> bool:
    """Return True if a resize changes the allocations of its instance. A cold migration is a resize
    that does not.

    :param details: the details of the migration.
    """
    return allocations.total(_allocations_of(details, "old")) != allocations.total(
        _allocations_of(details, "new")
    )


def refuse_resize(
    connection: Connection, project: str, details: Mapping[str, Mapping[str, Allocations]]
) -> None:
    """Refuse a resize that this transaction has opened, as refuse() does; not if no amount grows.

    So a project beyond its limit can make its instances smaller.

    :param details: the details of the migration.
    """
    old, new = (allocations.total(_allocations_of(details, which)) for which in ("old", "new"))
    if any(amount > old.get(name, 0) for name, amount in new.items()):
        refuse(connection, {project: new}, old)


def listing(connection: Connection, project: str | None = None) -> list[ProjectQuota]:
    """Read limits and use for people and programs.

    :param project: the only one, also if nothing is known of it; None for all that have an instance
        or a limit.
    :returns: sorted by project.
    """
    wanted = None if project is None else [project]
    limits, use = quotas.read(connection, wanted), read(connection, wanted)
    rows: list[ProjectQuota] = []
    for project_name in sorted({*limits, *use}):
        mine, used = (
            limits.get(project_name, {}),
            use.get(project_name, Use(0, Counter(), Counter())),
        )
        names = [*NOVA, *sorted(set(mine) - set(NOVA))]
        resources: list[ResourceQuota] = [
            {"resource": name, "limit": mine.get(name), "in_use": used.of(name)} for name in names
        ]
        rows.append({"project": project_name, "resources": resources})
    return rows

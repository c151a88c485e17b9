# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions of the scheduler and their reasons: one row each; only the newest are kept.

Lookups decide and never write. The claim that carries a decision out records it in the same
transaction.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, cast

from ..._records.overview import DecisionRow, KeptExplanation, StageCount, WeighedHost
from ..database.sql import Connection, sa
from ..schema import tables
from . import actions

#: The number of kept rows, counted by their ids; there may be PRUNED_EVERY more.
KEPT = 10_000
#: The writer of each hundredth deletes old ones: in every claim that would cost a statement.
PRUNED_EVERY = 100
#: The number of hosts that are kept with their weights.
TOP = 3
#: No policy has more host filters.
_FILTERS = 50
_LONGEST = 255


def row(
    purpose: str,
    actor: str | None,
    instance: tuple[str | None, str],
    now: float,
    place: tuple[str, str] | None = None,
    alternates: Iterable[Mapping[str, object]] = (),
    explanation: Mapping[str, object] | None = None,
    message: str | None = None,
) -> dict[str, Any]:
    """Make the row of a decision, for record().

    :param purpose: place, resize or migrate.
    :param actor: the user of the scheduler, for people.
    :param instance: (uuid or None, name).
    :param place: (host, node); None without a valid host.
    :param alternates: mappings with host and maybe node.
    :param explanation: the scheduler's, see kept().
    :param message: for people: why there is no host, or why it is not the first choice.
    """
    host, node = place or (None, None)
    return {
        "created_at": now,
        "purpose": purpose,
        "actor": actor,
        "instance_uuid": instance[0],
        "instance_name": _text(instance[1]),
        "host": host,
        "node": node,
        "alternates": [_host_and_node(each) for each in alternates],
        "explanation": kept(explanation),
        "message": None if message is None else _clean(message),
    }


def record(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Record decisions in one statement; now and then delete the oldest ones."""
    if not rows:
        return
    table = tables.decisions
    if connection.dialect.name == "postgresql":
        # Far less work for both sides than a value for each column of each row.
        ids = (
            connection.exec_driver_sql(_insertion(connection.dialect), {"rows": json.dumps(rows)})
            .scalars()
            .all()
        )
    else:
        # SQLAlchemy writes one statement for all rows, because it returns something.
        ids = connection.execute(sa.insert(table).returning(table.c.id), rows).scalars().all()
    actions.note_all(connection, [_decision_row(each) for each in rows])
    if max(ids) // PRUNED_EVERY != (min(ids) - 1) // PRUNED_EVERY:
        # Do not wait for another transaction that deletes the same rows.
        old = (
            sa.select(table.c.id)
            .where(table.c.id <= max(ids) - KEPT)
            .with_for_update(skip_locked=True)
        )
        connection.execute(sa.delete(table).where(table.c.id.in_(old)))


def _decision_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return the row of actions for a decision."""
    outcome = "no valid host" if row["host"] is None else f"host {row['host']}"
    return {
        "kind": "decision",
        "message": f"{row['purpose']}: {outcome}",
        "instance": (row["instance_uuid"], row["instance_name"]),
        "host": row["host"],
    }


def newest(connection: Connection, limit: int) -> list[DecisionRow]:
    """Read the newest decisions, newest first: all columns but id."""
    table = tables.decisions
    columns = [column for column in table.c if column.name != "id"]
    rows = connection.execute(sa.select(*columns).order_by(table.c.id.desc()).limit(limit))
    return cast("list[DecisionRow]", [dict(each._mapping) for each in rows])


def placed(connection: Connection, purpose: str) -> list[dict[str, Any]]:
    """Read instance_uuid and host of the decisions of a purpose that found a host, the oldest
    first; of each instance the last one.
    """
    table = tables.decisions
    query = sa.select(table.c.instance_uuid, table.c.host).where(
        table.c.purpose == purpose, table.c.host.is_not(None)
    )
    by_uuid: dict[str, dict[str, object]] = {}
    for row in connection.execute(
        query.where(table.c.instance_uuid.is_not(None)).order_by(table.c.id)
    ):
        by_uuid.pop(row.instance_uuid, None)
        by_uuid[row.instance_uuid] = dict(row._mapping)
    return list(by_uuid.values())


def unbuilt(connection: Connection, purpose: str) -> list[dict[str, Any]]:
    """Read the instances that are claimed and not built, with the newest decision of each.

    :param purpose: the purpose of the decision.
    :returns: dicts with uuid, name, definition, order_uuid, host, actor and created_at, by name.
        actor and created_at belong to the decision, None if there is none.
    """
    instances, nodes, table = tables.instances, tables.compute_nodes, tables.decisions
    query = (
        sa.select(
            instances.c.uuid,
            instances.c.name,
            instances.c.definition,
            instances.c.order_uuid,
            nodes.c.host,
        )
        .outerjoin(nodes, nodes.c.id == instances.c.compute_node_id)
        .where(instances.c.state == "building")
        .order_by(instances.c.name, instances.c.uuid)
    )
    claimed_instances = [dict(row._mapping) for row in connection.execute(query)]
    claimed = sa.select(table.c.instance_uuid, table.c.actor, table.c.created_at).where(
        table.c.purpose == purpose,
        table.c.instance_uuid.in_(
            sa.select(instances.c.uuid).where(instances.c.state == "building")
        ),
    )
    last = {row.instance_uuid: row for row in connection.execute(claimed.order_by(table.c.id))}
    for each in claimed_instances:
        row = last.get(each["uuid"])
        each.update(actor=row.actor if row else None, created_at=row.created_at if row else None)
    return claimed_instances


def kept(explanation: Any) -> KeptExplanation | None:
    """Reduce a scheduler's explanation to the part that is kept, in the same shape.

    :param explanation: the explanation of a selection or of NoValidHost; a playbook may have
        changed it.
    :returns: hosts (their number), filters [{name, before, after, rejected}] that rejected hosts,
        and top (the best hosts with the weighers that changed their weight); None if it is no
        explanation. The message of a refusal has the nearest misses.
    """
    try:
        reduced: KeptExplanation = {
            "hosts": int(explanation["hosts"]),
            # A filter that rejects nothing, and a weigher that adds nothing, is not a reason.
            "filters": [_stage(each) for each in explanation["filters"] if each["rejected"]][
                :_FILTERS
            ],
        }
        if explanation.get("top"):
            reduced["top"] = [_weighed(each) for each in explanation["top"][:TOP]]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return reduced


def _stage(each: Mapping[str, Any]) -> StageCount:
    return {
        "name": _text(each["name"]),
        "before": int(each["before"]),
        "after": int(each["after"]),
        "rejected": int(each["rejected"]),
    }


def _weighed(each: Mapping[str, Any]) -> WeighedHost:
    weighers = {
        _text(name): {key: _number(part[key]) for key in ("raw", "normalised", "multiplier")}
        for name, part in each["weighers"].items()
        if part["normalised"] and part["multiplier"]
    }
    return {**_host_and_node(each), "weight": _number(each["weight"]), "weighers": weighers}


class _Named(TypedDict):
    host: str
    node: str


def _host_and_node(each: Mapping[str, object]) -> _Named:
    return {"host": _text(each["host"]), "node": _text(each.get("node") or each["host"])}


def _number(value: float) -> float:
    """Round to six digits; people see no further digits."""
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(f"{value:.6g}")


def _text(value: object) -> str:
    return _clean(str(value)[:_LONGEST])


def _clean(text: str) -> str:
    """Drop null characters, and replace what UTF-8 cannot encode: a database refuses both."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


@functools.cache
def _insertion(dialect: sa.Dialect) -> str:
    """Write the statement that takes all rows as one value."""
    columns = [column for column in tables.decisions.columns if column.name != "id"]
    names = ", ".join(column.name for column in columns)
    types = ", ".join(f"{column.name} {column.type.compile(dialect)}" for column in columns)
    return (
        f"INSERT INTO decisions ({names}) SELECT {names} FROM json_to_recordset(%(rows)s) AS rows"
        f" ({types}) RETURNING id"
    )

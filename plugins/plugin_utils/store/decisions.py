# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler decided, and why: one row for each decision, the newest ones are kept.

Lookups decide and never write. Whoever carries a decision out writes it down in the same transaction.
"""

from __future__ import annotations

import functools
import json
import math

from ansible_collections.drover.compute.plugins.plugin_utils.store import tables
from ansible_collections.drover.compute.plugins.plugin_utils.store.sql import sa

#: So many are kept, counted by their ids, and at most PRUNED_EVERY more.
KEPT = 10_000
#: Old ones are deleted by whoever writes each hundredth: if all who claim did it, it would cost each of them a statement.
PRUNED_EVERY = 100
#: Of so many hosts the weights are kept.
TOP = 3
#: More host filters than this no policy has.
_FILTERS = 50
_LONGEST = 255


def row(purpose, actor, instance, now, place=None, alternates=(), explanation=None, message=None):
    """One decision, for record().

    :param purpose: what it was for: place, resize or migrate.
    :param actor: who asked, in words for people, or None.
    :param instance: (uuid or None, name).
    :param place: (host, node); None when there was no valid host.
    :param alternates: dicts with host and maybe node.
    :param explanation: what the scheduler said, see kept().
    :param message: a sentence for people: why there is no host, or why it is not the one picked first.
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
        "alternates": [_named(each) for each in alternates],
        "explanation": kept(explanation),
        "message": None if message is None else _clean(message),
    }


def record(connection, rows):
    """Write decisions down, all of them in one statement, and now and then delete the oldest ones."""
    if not rows:
        return
    table = tables.decisions
    if connection.dialect.name == "postgresql":
        # Far less work for both sides than a value for each column of each row.
        ids = connection.exec_driver_sql(_insertion(connection.dialect), {"rows": json.dumps(rows)}).scalars().all()
    else:
        # Because something is returned SQLAlchemy writes one statement for all rows.
        ids = connection.execute(sa.insert(table).returning(table.c.id), rows).scalars().all()
    if max(ids) // PRUNED_EVERY != (min(ids) - 1) // PRUNED_EVERY:
        # What another one deletes at this moment need not be waited for.
        old = sa.select(table.c.id).where(table.c.id <= max(ids) - KEPT).with_for_update(skip_locked=True)
        connection.execute(sa.delete(table).where(table.c.id.in_(old)))


def newest(connection, limit):
    """The newest decisions, newest first, as dicts of the columns but id."""
    table = tables.decisions
    columns = [column for column in table.c if column.name != "id"]
    rows = connection.execute(sa.select(*columns).order_by(table.c.id.desc()).limit(limit))
    return [dict(each._mapping) for each in rows]


def kept(explanation):
    """The part of a scheduler's explanation that is kept; its shape stays.

    :param explanation: a dict as a selection or NoValidHost has it, which may have come by way of a playbook.
    :returns: a dict hosts (how many were looked at), filters [{name, before, after, rejected}] that rejected some, and
        top (the best hosts, each with those weighers that added to its weight); None where it is no explanation. What
        the nearest misses lacked is in the message of a refusal.
    """
    try:
        found = {
            "hosts": int(explanation["hosts"]),
            # What rejects nothing, and what adds nothing to a weight, is no reason.
            "filters": [_stage(each) for each in explanation["filters"] if each["rejected"]][:_FILTERS],
        }
        if explanation.get("top"):
            found["top"] = [_weighed(each) for each in explanation["top"][:TOP]]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return found


def _stage(each):
    return {"name": _text(each["name"]), **{key: int(each[key]) for key in ("before", "after", "rejected")}}


def _weighed(each):
    weighers = {
        _text(name): {key: _number(part[key]) for key in ("raw", "normalised", "multiplier")}
        for name, part in each["weighers"].items()
        if part["normalised"] and part["multiplier"]
    }
    return {**_named(each), "weight": _number(each["weight"]), "weighers": weighers}


def _named(each):
    return {"host": _text(each["host"]), "node": _text(each.get("node") or each["host"])}


def _number(value):
    """Six digits of it, as many as are ever shown."""
    if not math.isfinite(value):
        raise ValueError("databases keep no such number")
    return float(f"{value:.6g}")


def _text(value):
    return _clean(str(value)[:_LONGEST])


def _clean(text):
    """A text without what no database keeps in one."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


@functools.cache
def _insertion(dialect):
    """The statement that takes all rows as one value."""
    columns = [column for column in tables.decisions.columns if column.name != "id"]
    names = ", ".join(column.name for column in columns)
    types = ", ".join(f"{column.name} {column.type.compile(dialect)}" for column in columns)
    return f"INSERT INTO decisions ({names}) SELECT {names} FROM json_to_recordset(%(rows)s) AS rows ({types}) RETURNING id"

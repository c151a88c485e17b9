# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a refusal: "no valid host" is a decision too, and the store keeps it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .._scheduler.errors import NoValidHost
from .._store.engine import Store
from .._store.runs import decisions


@contextlib.contextmanager
def kept(store: Store, purpose: str, actor: str, now: float) -> Iterator[None]:
    """Record a refusal of the scheduler inside the block, in its own transaction, and re-raise it.

    :param purpose: see decisions.row().
    :param actor: the source of the request, in words for people.
    :param now: the time, seconds since 1970.
    :raises NoValidHost: the unchanged error.
    """
    try:
        yield
    except NoValidHost as problem:
        if problem.instance is not None:
            row = decisions.row(
                purpose,
                actor,
                problem.instance,
                now,
                explanation=problem.explanation,
                message=str(problem),
            )
            with store.write(together=True) as connection:
                decisions.record(connection, [row])
        raise

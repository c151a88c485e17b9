# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a saved and reviewed plan, and its comparison with the present plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from .._common.errors import DroverError

#: The keys that a review relies on: the same instances move in the same way, from and to the same
#: places.
_KEYS = ("uuid", "live", "from_host", "from_node", "host", "node", "provider")


def read_moves(path: str) -> list[dict[str, object]]:
    """Return the moves of a plan that was saved as JSON.

    :raises DroverError: the file cannot be read, or contains no plan.
    """
    try:
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
    except OSError as problem:
        raise DroverError(
            f"The plan file {path} cannot be read: {problem.strerror}. Nothing was moved."
        ) from None
    except ValueError as problem:
        raise _no_plan(path, f"it is not JSON ({problem})") from None
    if not isinstance(plan, dict) or not isinstance(plan.get("moves"), list):
        raise _no_plan(path, "it has no list of moves")
    for number, move in enumerate(plan["moves"], start=1):
        lacking = [key for key in _KEYS if not isinstance(move, dict) or key not in move]
        if lacking:
            raise _no_plan(path, f"move {number} has no {', '.join(lacking)}")
    return list(plan["moves"])


def is_same(moves: Iterable[Mapping[str, object]], others: Iterable[Mapping[str, object]]) -> bool:
    """Return True if two lists have the same moves in the same order. Their costs may differ."""
    return [{key: move[key] for key in _KEYS} for move in moves] == [
        {key: move[key] for key in _KEYS} for move in others
    ]


def _no_plan(path: str, why: str) -> DroverError:
    return DroverError(
        f"The file {path} is no plan of a rebalance: {why}. Nothing was moved. Write the plan"
        f" again, with drover_plan_file={path} and without drover_plan_only=false."
    )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move policies: the moves that are allowed for an instance when its host is emptied.

A definition has the mapping ``policy``; a domain's metadata has an element for each of its keys,
``migration`` as JSON. A policy that contradicts itself is refused when it is written (rule S16).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._migration import (
    options as migration_options,
)
from ansible_collections.drover.compute.plugins.module_utils._ownership.move_record import Options

from .._common import validation
from .._common.errors import DroverError, either
from .._records.instances import MovePolicy

KEYS = ("move", "on_drain", "priority", "migration")
#: The values of move. cold: shut off for the move, started again after it; live: only while it
#: runs.
MOVES = ("never", "cold", "live")
#: The values of on_drain. shutdown: it is not moved but shut down on its host.
ON_DRAIN = ("shutdown",)
#: The type of each option of a migration.
MIGRATION: dict[str, type] = {
    key: {"int": int, "bool": bool, "str": str}[str(spec["type"])]
    for key, spec in migration_options.SPEC.items()
}
MOST_PRIORITY = 10**6


def checked(policy: Any, who: str) -> MovePolicy | None:
    """Return the keys of a policy that have a value; None if there are none.

    :param who: the beginning of a refusal.
    :raises DroverError: the policy is malformed or contradicts itself.
    """
    if not isinstance(policy, dict):
        raise DroverError(
            f"{who}: policy must be a mapping with {', '.join(KEYS)}, not {policy!r}."
        )
    validation.check_keys(f"{who}: policy", policy, KEYS)
    values: Any = {key: value for key, value in policy.items() if value is not None and value != {}}
    _one_of(values, "move", MOVES, who)
    _one_of(values, "on_drain", ON_DRAIN, who)
    priority = values.get("priority")
    if priority is not None:
        validation.check_whole(f"{who}: priority", priority, -MOST_PRIORITY, MOST_PRIORITY)
    if "migration" in values:
        _migration(values["migration"], who)
    _no_contradiction(values, who)
    found: MovePolicy | None = values or None
    return found


def from_metadata(metadata: Mapping[str, str], who: str) -> MovePolicy | None:
    """Read the policy in a domain's metadata.

    :returns: the same as checked(); for an unreadable policy ``{"error": a sentence}``, so that the
        instance is not moved.
    """
    texts: dict[str, Any] = {key: metadata[key] for key in KEYS if metadata.get(key)}
    if not texts:
        return None
    try:
        if "priority" in texts:
            texts["priority"] = validation.read_whole(
                f"{who}: priority", texts["priority"], None, None
            )
        if "migration" in texts:
            texts["migration"] = _mapping(texts["migration"], who)
        return checked(texts, who)
    except DroverError as problem:
        return {"error": str(problem)}


def to_metadata(policy: Mapping[str, object] | None) -> dict[str, str]:
    """Write a policy for a domain's metadata."""
    return {
        key: json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)
        for key, value in (policy or {}).items()
        if key in KEYS
    }


def _mapping(text: str, who: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise DroverError(
            f'{who}: migration must be JSON like {{"post_copy": true}}, not {text!r}.'
        ) from None


def _one_of(found: Mapping[str, object], key: str, choices: Sequence[str], who: str) -> None:
    if key in found and found[key] not in choices:
        raise DroverError(f"{who}: {key} must be {either(choices)}, not {found[key]!r}.")


def _migration(options: Any, who: str) -> None:
    if not isinstance(options, dict):
        raise DroverError(
            f"{who}: migration must be a mapping with {', '.join(MIGRATION)}, not {options!r}."
        )
    validation.check_keys(f"{who}: migration", options, MIGRATION)
    for key, value in options.items():
        kinds = MIGRATION[key]
        if not isinstance(value, kinds) or (kinds is int and isinstance(value, bool)):
            word = {int: "a whole number", bool: "true or false", str: "a text"}[kinds]
            raise DroverError(f"{who}: migration.{key} must be {word}, not {value!r}.")
        choices = migration_options.SPEC[key].get("choices")
        if isinstance(choices, (list, tuple)):
            _one_of(options, key, choices, f"{who}: migration")


def _no_contradiction(policy: MovePolicy, who: str) -> None:
    move, options = policy.get("move"), policy.get("migration") or Options()
    live_only = sorted(set(options) - {"copy_storage"})
    if move == "never" and options:
        raise DroverError(
            f"{who}: move is never, so migration ({', '.join(sorted(options))}) says nothing; keep"
            " one."
        )
    if move == "cold" and live_only:
        raise DroverError(
            f"{who}: move is cold, but migration.{live_only[0]} is for live moves only; keep one."
        )
    if move == "live" and policy.get("on_drain") == "shutdown":
        raise DroverError(
            f"{who}: move live says that it must not be stopped, on_drain shutdown stops it; keep"
            " one."
        )
    if options.get("on_timeout") == "post_copy" and "post_copy" not in options:
        # The options of the task may allow it.
        options = {**options, "post_copy": True}
    reasons = migration_options.contradictions(options)
    if reasons:
        raise DroverError(f"{who}: migration: {'; '.join(reasons)}.")

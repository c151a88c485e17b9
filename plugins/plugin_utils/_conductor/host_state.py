# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switching hosts on and off: enable, disable, drain and its way back, force down, maintenance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._common.errors import DroverError
from .._placement import providers
from .._store import compute_nodes, drained, evacuations, looks, services
from .._store.engine import Connection

FIELDS = ("disabled", "disabled_reason", "maintenance", "forced_down")


#: The reason of a drain that nobody has given one.
NO_REASON = "drained by drover.compute"


def reason_of_drain(connection: Connection, host: str, reason: str) -> str | None:
    """Return the reason to keep with a host: None to keep its own, where this drain has none."""
    return None if reason == NO_REASON and services.get(connection, host).disabled_reason else reason


def change(
    connection: Connection,
    host: str,
    state: str | None = None,
    reason: str | None = None,
    forced_down: bool | None = None,
    shuts_down: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bring a host's service to a state.

    :param state: enabled, disabled, maintenance, draining (disabled, remembering what was before),
        restored (what draining remembered), or None to leave it.
    :param reason: why, for disabled, maintenance and draining.
    :param forced_down: None leaves it.
    :param shuts_down: with draining, uuids of instances that are about to be shut down for it: those that run are
        remembered, to be started again.
    :returns: (before, after), dicts of FIELDS.
    :raises DroverError: unknown host, or a reason or shuts_down with a state that has none.
    """
    row = services.get(connection, host)
    if shuts_down and state != "draining":
        raise DroverError(f"Host {host}: shuts_down goes with the state draining, not with {state or 'forced_down alone'}.")
    if reason is not None and state in ("enabled", "restored", None):
        raise DroverError(f"Host {host}: a reason goes with disabled, maintenance or draining, not with {state or 'forced_down alone'}.")
    before = {name: getattr(row, name) for name in FIELDS}
    wanted = {**before, "status_before_drain": row.status_before_drain}
    if state == "enabled":
        wanted.update(disabled=False, disabled_reason=None, maintenance=False, status_before_drain=None)
    elif state == "disabled":
        wanted.update(disabled=True, disabled_reason=reason or row.disabled_reason, maintenance=False)
    elif state == "maintenance":
        wanted.update(disabled=True, disabled_reason=reason or row.disabled_reason, maintenance=True)
    elif state == "draining":
        # A second drain must not remember what the first one made of the host.
        # Nor what an earlier one shut down and could not start again: that was off before this one.
        if not services.is_drained(row.status_before_drain):
            wanted["status_before_drain"] = {name: before[name] for name in FIELDS if name != "forced_down"}
        wanted.update(disabled=True, disabled_reason=reason or row.disabled_reason)
        wanted["status_before_drain"] = drained.with_shut_down(connection, wanted["status_before_drain"], shuts_down)
    elif state == "restored":
        left = drained.left_to_start(connection, host, row.status_before_drain)
        wanted.update(drained.before(row.status_before_drain))
        wanted["status_before_drain"] = drained.keep_only({}, [each["uuid"] for each in left])
    if state == "draining" and forced_down:
        # An evacuation, perhaps in the middle of a drain: its way back lifts what it has forced.
        memory = wanted["status_before_drain"] or row.status_before_drain
        wanted["status_before_drain"] = {"forced_down": before["forced_down"], **memory}
    if forced_down is not None:
        wanted["forced_down"] = forced_down
    if before["forced_down"] and not wanted["forced_down"]:
        _refuse_while_stale(connection, host)
    changes = {name: value for name, value in wanted.items() if getattr(row, name) != value}
    services.change(connection, row, changes)
    if "disabled" in changes:
        uuids = [node.uuid for node in compute_nodes.by_host(connection, [host]).values()]
        providers.set_disabled_trait(connection, providers.ids(connection, uuids).values(), wanted["disabled"])
    return before, {name: wanted[name] for name in FIELDS}


def _refuse_while_stale(connection: Connection, host: str) -> None:
    """Refuse to count a host as up that may still have instances that were evacuated from it (N9.4).

    If their new host is off too, only a definition that is left here may be needed for their restart, so it stays and holds nothing back.
    """
    left = evacuations.left_behind(connection, [host])
    if not left:
        return
    off = {name for name, known in looks.hosts(connection).items() if known.is_off}
    states = compute_nodes.domain_states(connection, [each["uuid"] for each in left])
    names = [each["name"] for each in left if each["host"] not in off or states.get((each["uuid"], each["source_node"])) != "shutoff"]
    if names:
        raise DroverError(
            f"Host {host} stays forced down: {', '.join(names)} was evacuated from it and has not been seen to be gone "
            "from it since. Run drover.compute.discover, which removes what is stale there; what runs there although it "
            "was evacuated has to be destroyed there by hand first."
        )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a host: enabled, disabled, draining, restored, forced down, maintenance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._common.errors import DroverError
from .._placement import providers
from .._store.engine import Connection
from .._store.hosts import compute_nodes, looks, services
from .._store.instances import drained, evacuations

FIELDS = ("disabled", "disabled_reason", "maintenance", "forced_down")


#: The reason of a drain if the operator gave none.
NO_REASON = "drained by drover.compute"


def reason_of_drain(connection: Connection, host: str, reason: str) -> str | None:
    """Return the reason to record with a host.

    Return None to keep its old one if the drain has none.
    """
    return (
        None if reason == NO_REASON and services.get(connection, host).disabled_reason else reason
    )


def change(
    connection: Connection,
    host: str,
    state: str | None = None,
    reason: str | None = None,
    forced_down: bool | None = None,
    shuts_down: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bring a host's service to a state.

    :param state: enabled, disabled, maintenance, draining (disabled, with a record of the state
        before), restored (the state that draining recorded), or None to keep the state.
    :param reason: the reason of disabled, maintenance or draining.
    :param forced_down: None keeps it.
    :param shuts_down: with draining, uuids of instances that the drain is about to shut down. The
        running ones are recorded, to be started again.
    :returns: (before, after), dicts of FIELDS.
    :raises DroverError: an unknown host, or a reason or shuts_down with a state that takes none.
    """
    row = services.get(connection, host)
    if shuts_down and state != "draining":
        raise DroverError(
            f"Host {host}: shuts_down goes with the state draining, not with"
            f" {state or 'forced_down alone'}."
        )
    if reason is not None and state in ("enabled", "restored", None):
        raise DroverError(
            f"Host {host}: a reason goes with disabled, maintenance or draining, not with"
            f" {state or 'forced_down alone'}."
        )
    before = {name: getattr(row, name) for name in FIELDS}
    after = {**before, "status_before_drain": row.status_before_drain}
    if state == "enabled":
        after.update(
            disabled=False, disabled_reason=None, maintenance=False, status_before_drain=None
        )
    elif state == "disabled":
        after.update(
            disabled=True, disabled_reason=reason or row.disabled_reason, maintenance=False
        )
    elif state == "maintenance":
        after.update(disabled=True, disabled_reason=reason or row.disabled_reason, maintenance=True)
    elif state == "draining":
        # A second drain must not record the state that the first one made. Nor may it record
        # instances that an earlier one shut down and could not start again: they were off before
        # this drain.
        if not services.is_drained(row.status_before_drain):
            after["status_before_drain"] = {
                name: before[name] for name in FIELDS if name != "forced_down"
            }
        after.update(disabled=True, disabled_reason=reason or row.disabled_reason)
        after["status_before_drain"] = drained.with_shut_down(
            connection, after["status_before_drain"], shuts_down
        )
    elif state == "restored":
        left = drained.left_to_start(connection, host, row.status_before_drain)
        after.update(drained.before(row.status_before_drain))
        after["status_before_drain"] = drained.keep_only({}, [each["uuid"] for each in left])
    if state == "draining" and forced_down:
        # An evacuation, perhaps during a drain. Its undrain lifts forced_down again.
        memory = after["status_before_drain"] or row.status_before_drain
        after["status_before_drain"] = {"forced_down": before["forced_down"], **memory}
    if forced_down is not None:
        after["forced_down"] = forced_down
    if before["forced_down"] and not after["forced_down"]:
        _refuse_while_stale(connection, host)
    changes = {name: value for name, value in after.items() if getattr(row, name) != value}
    services.change(connection, row, changes)
    if "disabled" in changes:
        uuids = [node.uuid for node in compute_nodes.by_host(connection, [host]).values()]
        providers.set_disabled_trait(
            connection, providers.ids(connection, uuids).values(), after["disabled"]
        )
    return before, {name: after[name] for name in FIELDS}


def _refuse_while_stale(connection: Connection, host: str) -> None:
    """Refuse to count a host as up while it may have instances that were evacuated (N9.4).

    If their new host is off too, their restart may need a definition that is left here. Such a
    definition stays, and does not keep the host down.
    """
    stale = evacuations.left_behind(connection, [host])
    if not stale:
        return
    off = {name for name, known in looks.hosts(connection).items() if known.is_off}
    states = compute_nodes.domain_states(connection, [each["uuid"] for each in stale])
    names = [
        each["name"]
        for each in stale
        if each["host"] not in off or states.get((each["uuid"], each["source_node"])) != "shutoff"
    ]
    if names:
        raise DroverError(
            f"Host {host} stays forced down: {', '.join(names)} was evacuated from it and has not"
            " been seen to be gone from it since. Run drover.compute.discover, which removes what"
            " is stale there; what runs there although it was evacuated has to be destroyed there"
            " by hand first."
        )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim, release, swap and replace allocations."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    DroverAction,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    refuse_unknown_rules,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (
    claims,
    reshaper,
    selections,
)
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import ResizeTarget
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Connection
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import continuity
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instances,
    migrations_open,
)

STATES = (
    "claimed",
    "next",
    "released",
    "swapped",
    "resized",
    "moved",
    "swapped_back",
    "confirmed",
    "reverted",
    "replaced",
    "reshaped",
)


class Args(StoreArgs):
    """The arguments of this action."""

    state: str
    #: REQUIREMENTS says which states have these, the instances and the alternates.
    selections: list[Any]
    of_definitions: bool
    force: list[str]
    inventory_hosts: list[str]
    instances: list[str]
    alternates: list[Any]
    host: str | None
    node: str | None
    resources: Any
    flavor: str | None
    expires: int
    consumers: Any
    inventories: Any


class ActionModule(DroverAction[Args]):
    ARGUMENT_SPEC = {
        "state": {
            "type": "str",
            "choices": list(STATES),
            "default": "claimed",
        },
        "selections": {"type": "list", "elements": "dict"},
        "of_definitions": {"type": "bool", "default": False},
        "force": {"type": "list", "elements": "str", "default": []},
        "inventory_hosts": {"type": "list", "elements": "str", "default": []},
        "instances": {"type": "list", "elements": "str"},
        "alternates": {"type": "list", "elements": "dict"},
        "host": {"type": "str"},
        "node": {"type": "str"},
        "resources": {"type": "dict"},
        "flavor": {"type": "str"},
        "expires": {"type": "int", "default": claims.LIFETIME},
        "consumers": {"type": "dict"},
        "inventories": {"type": "dict"},
        **STORE_SPEC,
    }
    REQUIREMENTS = {
        "required_if": [
            ["state", "claimed", ["selections"]],
            ["state", "next", ["instances", "alternates"]],
            ["state", "released", ["instances"]],
            ["state", "swapped", ["instances", "host"]],
            ["state", "resized", ["instances", "resources"]],
            ["state", "moved", ["instances"]],
            ["state", "swapped_back", ["instances"]],
            ["state", "confirmed", ["instances"]],
            ["state", "reverted", ["instances"]],
            ["state", "replaced", ["consumers"]],
            ["state", "reshaped", ["consumers", "inventories"]],
        ]
    }
    _requires_connection = False

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        now = time.time()
        if args["expires"] < 0:
            raise DroverError("expires must be 0 (never) or more seconds.")
        refuse_unknown_rules(args["force"], [continuity.UNREAD])
        store = self.store(args, task_vars)
        try:
            # Only a reshape excludes other writers, because it changes providers.
            with store.write(together=args["state"] != "reshaped") as connection:
                result = getattr(self, f"_{args['state']}")(connection, args, now)
        except continuity.UnreadHosts as problem:
            if problem.born is not None:
                with store.write(together=True) as connection:
                    continuity.remember(connection, problem.born)
                self._witness(store)
            raise
        if args["of_definitions"]:
            self._witness(store)
        return result

    def _witness(self, store: Store) -> None:
        if not self._task.check_mode:
            with store.read() as connection:
                continuity.witness(connection)

    def _claimed(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        selected, actor = selections.check(args["selections"]), LeaseHolder.of_this_task().holder
        uuids = {each["uuid"] for each in selected}
        is_recorded = not args["of_definitions"] or uuids <= set(
            instances.concerned(connection, uuids, [])
        )
        claimed = claims.claim(
            connection, selected, now, args["expires"], actor, args["of_definitions"]
        )
        if not is_recorded:
            # Last, because concurrent claims wait for each other from here on.
            continuity.refuse_unknown(connection, args["force"], args["inventory_hosts"])
        return {"changed": any(item["new"] for item in claimed), "claims": claimed}

    def _next(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        uuid = self._only_instance(args)
        if not args["alternates"]:
            raise DroverError(
                f"Instance {uuid}: no alternate is left. Free some room or schedule it again."
            )
        selections.check_alternates(f"Instance {uuid}", args["alternates"])
        actor = LeaseHolder.of_this_task().holder
        claimed = claims.reclaim(
            connection, uuid, args["alternates"], certainty.word(actor), now, args["expires"], actor
        )
        return {"changed": True, "claims": [claimed]}

    def _released(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        released = claims.release(connection, args["instances"], self._word(), now)
        return {"changed": bool(released), "released": released}

    def _swapped(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        opened = [
            migration_claims.begin(
                connection, uuid, str(args["host"]), args["node"], "migration", now
            )
            for uuid in args["instances"]
        ]
        return {"changed": any(move["new"] for move in opened), "migrations": opened}

    def _resized(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        uuid = self._only_instance(args)
        selections.check_resources("resources", args["resources"])
        place = instances.place(connection, uuid)
        host, node = args["host"], args["node"]
        if host is None and place is not None:
            host, node = place.host, place.hypervisor_hostname
        wanted: ResizeTarget = {"flavor": args["flavor"], "resources": args["resources"]}
        opened = migration_claims.begin_resize(connection, uuid, host or "", node, wanted, now)
        return {"changed": opened["new"], "migrations": [opened]}

    def _moved(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        return self._close_migrations(
            connection,
            args,
            lambda row: migration_claims.finish(connection, row.uuid, self._word(), None, now),
        )

    def _confirmed(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        return self._close_migrations(
            connection,
            args,
            lambda row: migration_claims.confirm(connection, row.uuid, self._word(), now),
            ["finished"],
        )

    def _reverted(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        return self._close_migrations(
            connection,
            args,
            lambda row: migration_claims.revert(connection, row.uuid, self._word(), None, now),
            ["finished"],
        )

    def _swapped_back(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        message = "swapped back by drover.compute.allocation"
        proof = self._word()
        return self._close_migrations(
            connection,
            args,
            lambda row: migration_claims.undo(
                connection, row.uuid, proof, message, now, "cancelled"
            ),
        )

    def _replaced(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        written = reshaper.replace(connection, args["consumers"], now)
        return {"changed": any(each["changed"] for each in written), "consumers": written}

    def _reshaped(self, connection: Connection, args: Args, now: float) -> dict[str, object]:
        return reshaper.reshape(connection, args["inventories"], args["consumers"], now)

    def _close_migrations(
        self,
        connection: Connection,
        args: Args,
        close: Callable[[Any], object],
        statuses: Collection[str] = migration_claims.UNDER_WAY,
    ) -> dict[str, object]:
        migrations = {
            uuid: row
            for uuid, row in migrations_open.holding(connection, args["instances"]).items()
            if row.status in statuses
        }
        for uuid in sorted(migrations):
            close(migrations[uuid])
        return {
            "changed": bool(migrations),
            "migrations": [
                {"uuid": migrations[uuid].uuid, "instance_uuid": uuid} for uuid in migrations
            ],
        }

    def _word(self) -> certainty.Proof:
        """Return the proof that an operator ordered this. The operator has named the instances."""
        return certainty.word(LeaseHolder.of_this_task().holder)

    def _only_instance(self, args: Args) -> str:
        if len(args["instances"]) != 1:
            raise DroverError(
                f"state={args['state']} works on exactly one instance, not on"
                f" {len(args['instances'])}."
            )
        return args["instances"][0]

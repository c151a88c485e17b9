# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One call of the module _domain_migration: moves are checked, started, aborted and followed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from .._libvirt import binding
from .._orders.records import Records
from .._ownership.move_record import Move
from . import following
from . import options as migration_options

if TYPE_CHECKING:
    from .control import Precheck


def _moves(module: AnsibleModule) -> tuple[list[Move], list[Move]]:
    """Return the moves to start and the moves to abort, with canonical uuids and defaults."""
    seen = set()
    moves_by_option: dict[str, list[Move]] = {"start": [], "abort": []}
    for option in ("start", "abort"):
        for given in module.params[option]:
            move: Move = copy.copy(given)
            move["uuid"] = binding.domain_uuid(module, given["uuid"], "started")
            if move["uuid"] in seen:
                module.fail_json(
                    msg=(
                        f"The domain {move['uuid']} is named twice in one call: nothing was"
                        " started."
                    )
                )
            seen.add(move["uuid"])
            reasons = migration_options.contradictions(move) if option == "start" else []
            if reasons:
                module.fail_json(
                    msg=(
                        f"The options of {move['name'] or move['uuid']}: {'; '.join(reasons)}."
                        " Nothing was started."
                    )
                )
            if move["destination_uri"] is None:
                move["destination_uri"] = f"qemu+ssh://root@{move['destination']}/system"
            moves_by_option[option].append(move)
    return moves_by_option["start"], moves_by_option["abort"]


def _followed(module: AnsibleModule, item: Any) -> Move:
    """Return the uuid, and the migration if given, of an item of the option follow."""
    if isinstance(item, dict):
        unknown = sorted(set(item) - {"uuid", "migration"})
        if unknown or not item.get("uuid"):
            module.fail_json(
                msg=(
                    f"follow: {item!r} must be a uuid, or a mapping with uuid and migration:"
                    " nothing was started."
                )
            )
        return {
            "uuid": binding.domain_uuid(module, str(item["uuid"]), "started"),
            "migration": item.get("migration"),
        }
    return {"uuid": binding.domain_uuid(module, str(item), "started")}


def _check_moves(moves: Sequence[Move], uri: str, records: Records) -> list[Precheck]:
    """Check moves."""
    # Here, because a call that only follows need not compile it.
    from . import control

    return control.check(moves, uri, records)


def _start_and_abort_moves(
    moves: Sequence[Move],
    unwanted: Sequence[Move],
    orphans: Sequence[Move],
    uri: str,
    records: Records,
    most: int | None,
) -> bool:
    """Start moves, abort other moves, and care for moves with a dead worker. Return True if
    anything changed.
    """
    # Here, because a call that only follows need not compile it.
    from . import control

    words = control.launch(moves, uri, records, most=most)
    aborted = control.abort(unwanted, uri, records)
    control.launch(orphans, uri, records, may_start=False)
    return aborted or any(word in ("started", None) for word in words.values())


class MigrationCall:
    """The work of one run of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        """Check the options. End the module with a sentence if one cannot be used."""
        self.module, self.params, self.uri = module, module.params, module.params["uri"]
        self.moves, self.unwanted = _moves(module)
        self.started = [*self.moves, *self.unwanted]
        uuids = {move["uuid"] for move in self.started}
        self.waiting = [
            binding.domain_uuid(module, each, "started") for each in self.params["waiting"]
        ]
        by_uuid = {
            each["uuid"]: each
            for each in (_followed(module, each) for each in self.params["follow"])
        }
        self.followed = [each for uuid, each in by_uuid.items() if uuid not in uuids]
        for option in ("wait", "until", "news_within"):
            if (self.params[option] or 0) < 0:
                module.fail_json(msg=f"{option} is {self.params[option]}: give 0 or more.")
        most = self.params["max_migrations"]
        if most is not None and most < 1:
            module.fail_json(
                msg=f"max_migrations is {most}: give 1 or more, or nothing would ever move."
            )
        self.records = Records(self.params["run_dir"])

    def run(self) -> dict[str, object]:
        """Do the work and return the result of the module."""
        if self.params["check"] or self.module.check_mode:
            return self._check_moves()
        changed = False
        orphans = following.orphans(self.followed, self.records)
        if self.started or orphans:
            # Make the processes first, before any call to libvirt.
            changed = _start_and_abort_moves(
                self.moves,
                self.unwanted,
                orphans,
                self.uri,
                self.records,
                self.params["max_migrations"],
            )
        news = following.News(self.params["news_within"], self.waiting)
        reports = following.follow(
            self.started + self.followed,
            self.uri,
            self.records,
            self.params["wait"],
            self.params["until"],
            news,
        )
        return _result(changed, reports, reports)

    def _check_moves(self) -> dict[str, object]:
        check_mode = self.module.check_mode
        answers = _check_moves(self.moves, self.uri, self.records) if self.moves else []
        changed = check_mode and any(answer.get("would_start") for answer in answers)
        looked_at = self.unwanted + self.followed
        reports = following.follow(looked_at, self.uri, self.records, 0) if looked_at else []
        aborts = [move["uuid"] for move in self.unwanted]
        changed = changed or (
            check_mode
            and any(each["uuid"] in aborts and each["status"] == "running" for each in reports)
        )
        return _result(changed, [*answers, *reports], reports)


def _result(
    changed: bool, moves: Sequence[object], reports: Sequence[following.Report]
) -> dict[str, object]:
    finished = all(each["status"] != "running" for each in reports)
    return {"changed": changed, "moves": moves, "finished": finished}

#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_migration
short_description: Move domains to other hypervisors, live or shut off, and follow them
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on the source hypervisor. Each move has a worker process, which continues if the SSH connection or Ansible ends. libvirt's
    peer-to-peer migration continues even if the worker ends.
  - A live move transfers the guest's memory, and its disks if the destination does not share their storage. A cold move
    transfers a domain that is shut off.
  - To test if storage is shared, the module creates an empty folder beside the disk. If the destination sees the folder, the disk is not
    copied.
  - A move is complete when the destination shows the domain running (shut off, for a cold move) and the source no longer has it.
    Only then the copied local files are removed at the source, if they belong to the domain and nothing else needs them. After a failure
    the copies at the destination are removed.
  - No file at the destination is ever overwritten. If both hosts have the domain, the module
    repairs nothing.
  - A second call is harmless. It follows a move that is under way, and reports a completed move as completed.
options:
  start:
    description:
      - The moves to start. The module follows a move that is already under way.
    type: list
    elements: dict
    default: []
  follow:
    description:
      - Moves to follow, each the uuid of the domain, or a mapping with C(uuid) and C(migration). With C(migration) only that
        migration is followed; if the record here is of another one, the status is V(lost).
      - If the worker of a move has died, a new worker determines the result. It does not start the move again.
    type: list
    elements: raw
    default: []
  abort:
    description:
      - Moves to abort, each as in O(start). The worker of the move aborts it as soon as libvirt can. Without a worker, the module aborts
        libvirt's job and removes the copies.
      - The domain continues at the source. A domain that has already arrived, or was switched to post-copy, is not brought back.
      - Repeat the call, or follow the move, until it has ended.
    type: list
    elements: dict
    default: []
  max_migrations:
    description:
      - The most moves off this host at a time, of all calls. Further moves of O(start) wait in a queue with the C(phase) V(waiting); the
        first in the queue is already checked and connected.
      - By default there is no limit.
    type: int
  wait:
    description:
      - The longest time to wait, in seconds. The module returns earlier if a move ends.
    type: int
    default: 0
  until:
    description:
      - With O(wait), return early only when at most so many moves are under way.
    type: int
  news_within:
    description:
      - With O(wait), return at most so many seconds after a move has ended, or after one of O(waiting) has begun.
      - By default only O(until) counts.
    type: float
  waiting:
    description: The uuids of the moves that the caller knows as waiting.
    type: list
    elements: str
    default: []
  check:
    description:
      - Only check if the moves in O(start) are possible. Check mode does the same.
    type: bool
    default: false
  run_dir:
    description:
      - The folder on the source with the records of moves.
      - By default C(/var/lib/drover/migrations) for root, and a folder below C(XDG_STATE_HOME) or C(~/.local/state) for others. Workers of
        all users do not interfere with each other; workers with different folders do not know each other.
    type: path
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.migration_options.moves
  - drover.compute.attributes
  - drover.compute.attributes.platform
attributes:
  check_mode:
    support: full
    details:
      - The moves in O(start) are checked and none is started. C(changed) is true if one would be started.
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: drover.compute.hypervisor_info
  - module: drover.compute.domain
"""

EXAMPLES = "# Only the roles and playbooks of this collection call this module."

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._migration import following
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    options as migration_options,
)
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records

MOVE_SPEC = {
    "uuid": {"type": "str", "required": True},
    "name": {"type": "str"},
    "migration": {"type": "str"},
    "destination": {"type": "str", "required": True},
    "destination_uri": {"type": "str"},
    "host_uuids_there": {"type": "list", "elements": "str", "default": []},
    "migrate_uri": {"type": "str"},
    "live": {"type": "bool"},
    "autostart": {"type": "bool"},
    "numa": {"type": "dict"},
    "devices": {"type": "dict"},
    "resized": {"type": "bool", "default": False},
    "will_stop": {"type": "bool", "default": False},
    "begin": {"type": "bool", "default": True},
    "used_elsewhere": {"type": "list", "elements": "raw", "default": []},
    "shared_folders": {"type": "list", "elements": "str", "default": []},
    "devices_there": {"type": "dict", "default": {}},
    "file_systems_there": {"type": "dict", "default": {}},
    "addresses_there": {"type": "list", "elements": "str", "default": []},
    "images_there": {"type": "list", "elements": "dict", "default": []},
    **migration_options.SPEC,
}


def _moves(module: AnsibleModule) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the moves to start and the moves to abort, with canonical uuids and defaults."""
    seen = set()
    found: dict[str, list[dict[str, Any]]] = {}
    for option in ("start", "abort"):
        moves = []
        for move in module.params[option]:
            move = {**move, "uuid": binding.domain_uuid(module, move["uuid"], "started")}
            if move["uuid"] in seen:
                module.fail_json(
                    msg=f"The domain {move['uuid']} is named twice in one call: nothing was started."
                )
            seen.add(move["uuid"])
            reasons = migration_options.contradictions(move) if option == "start" else []
            if reasons:
                module.fail_json(
                    msg=f"The options of {move['name'] or move['uuid']}: {'; '.join(reasons)}. Nothing was started."
                )
            if move["destination_uri"] is None:
                move["destination_uri"] = f"qemu+ssh://root@{move['destination']}/system"
            moves.append(move)
        found[option] = moves
    return found["start"], found["abort"]


def _followed(module: AnsibleModule, item: Any) -> dict[str, Any]:
    """Return the uuid, and the migration if given, of an item of the option follow."""
    if isinstance(item, dict):
        unknown = sorted(set(item) - {"uuid", "migration"})
        if unknown or not item.get("uuid"):
            module.fail_json(
                msg=f"follow: {item!r} must be a uuid, or a mapping with uuid and migration: nothing was started."
            )
        return {
            "uuid": binding.domain_uuid(module, str(item["uuid"]), "started"),
            "migration": item.get("migration"),
        }
    return {"uuid": binding.domain_uuid(module, str(item), "started")}


def _check(moves: Sequence[Mapping[str, Any]], uri: str, records: Records) -> list[dict[str, Any]]:
    """Check moves."""
    # Here, because a call that only follows need not compile it.
    from ansible_collections.drover.compute.plugins.module_utils._migration import control

    return control.check(moves, uri, records)


def _begin(
    moves: Sequence[Mapping[str, Any]],
    unwanted: Sequence[Mapping[str, Any]],
    orphans: Sequence[Mapping[str, Any]],
    uri: str,
    records: Records,
    most: int | None,
) -> bool:
    """Start moves, abort other moves, and care for moves with a dead worker. Return True if
    anything changed.
    """
    # Here, because a call that only follows need not compile it.
    from ansible_collections.drover.compute.plugins.module_utils._migration import control

    words = control.launch(moves, uri, records, most=most)
    aborted = control.abort(unwanted, uri, records)
    control.launch(orphans, uri, records, may_start=False)
    return aborted or any(word in ("started", None) for word in words.values())


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "start": {"type": "list", "elements": "dict", "default": [], "options": MOVE_SPEC},
            "abort": {"type": "list", "elements": "dict", "default": [], "options": MOVE_SPEC},
            "follow": {"type": "list", "elements": "raw", "default": []},
            "max_migrations": {"type": "int"},
            "wait": {"type": "int", "default": 0},
            "until": {"type": "int"},
            "news_within": {"type": "float"},
            "waiting": {"type": "list", "elements": "str", "default": []},
            "check": {"type": "bool", "default": False},
            "run_dir": {"type": "path"},
        },
        supports_check_mode=True,
    )
    binding.require_binding(module)
    uri = module.params["uri"]
    moves, unwanted = _moves(module)
    started = [*moves, *unwanted]
    known = {move["uuid"] for move in started}
    waiting = [binding.domain_uuid(module, each, "started") for each in module.params["waiting"]]
    by_uuid = {
        each["uuid"]: each for each in (_followed(module, each) for each in module.params["follow"])
    }
    followed = [each for uuid, each in by_uuid.items() if uuid not in known]
    for option in ("wait", "until", "news_within"):
        if (module.params[option] or 0) < 0:
            module.fail_json(msg=f"{option} is {module.params[option]}: give 0 or more.")
    most = module.params["max_migrations"]
    if most is not None and most < 1:
        module.fail_json(
            msg=f"max_migrations is {most}: give 1 or more, or nothing would ever move."
        )
    records = Records(module.params["run_dir"])
    checking = module.params["check"] or module.check_mode
    changed = False
    with module.failures(files=f"The records of moves in {records.folder}"):
        if checking:
            answers = _check(moves, uri, records) if moves else []
            changed = module.check_mode and any(answer.get("would_start") for answer in answers)
            looked_at = unwanted + followed
            reports = following.follow(looked_at, uri, records, 0) if looked_at else []
            answers += reports
            aborts = [move["uuid"] for move in unwanted]
            changed = changed or (
                module.check_mode
                and any(r["uuid"] in aborts and r["status"] == "running" for r in reports)
            )
        else:
            orphans = following.orphans(followed, records)
            if started or orphans:
                # Make the processes first, before any call to libvirt.
                changed = _begin(moves, unwanted, orphans, uri, records, most)
            news = following.News(module.params["news_within"], waiting)
            wait, until = module.params["wait"], module.params["until"]
            reports = answers = following.follow(
                started + followed, uri, records, wait, until, news
            )
    module.exit_json(
        changed=changed,
        moves=answers,
        finished=all(report["status"] != "running" for report in reports),
    )


if __name__ == "__main__":
    main()

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
  - Runs on the source hypervisor. Each move has a worker process, which continues if the SSH
    connection or Ansible ends. libvirt's peer-to-peer migration continues even if the worker ends.
  - A live move transfers the guest's memory, and its disks if the destination does not share their
    storage. A cold move transfers a domain that is shut off.
  - To test if storage is shared, the module creates an empty folder beside the disk. If the
    destination sees the folder, the disk is not copied.
  - A move is complete when the destination shows the domain running (shut off, for a cold move) and
    the source no longer has it. Only then the copied local files are removed at the source, if they
    belong to the domain and nothing else needs them. After a failure the copies at the destination
    are removed.
  - No file at the destination is ever overwritten. If both hosts have the domain, the module
    repairs nothing.
  - A second call is harmless. It follows a move that is under way, and reports a completed move as
    completed.
options:
  start:
    description:
      - The moves to start. The module follows a move that is already under way.
    type: list
    elements: dict
    default: []
  follow:
    description:
      - Moves to follow, each the uuid of the domain, or a mapping with C(uuid) and C(migration).
        With C(migration) only that migration is followed; if the record here is of another one, the
        status is V(lost).
      - If the worker of a move has died, a new worker determines the result. It does not start the
        move again.
    type: list
    elements: raw
    default: []
  abort:
    description:
      - Moves to abort, each as in O(start). The worker of the move aborts it as soon as libvirt
        can. Without a worker, the module aborts libvirt's job and removes the copies.
      - The domain continues at the source. A domain that has already arrived, or was switched to
        post-copy, is not brought back.
      - Repeat the call, or follow the move, until it has ended.
    type: list
    elements: dict
    default: []
  max_migrations:
    description:
      - The most moves off this host at a time, of all calls. Further moves of O(start) wait in a
        queue with the C(phase) V(waiting); the first in the queue is already checked and connected.
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
      - With O(wait), return at most so many seconds after a move has ended, or after one of
        O(waiting) has begun.
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
      - By default C(/var/lib/drover/migrations) for root, and a folder below C(XDG_STATE_HOME) or
        C(~/.local/state) for others. Workers of all users do not interfere with each other; workers
        with different folders do not know each other.
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
      - The moves in O(start) are checked and none is started. C(changed) is true if one would be
        started.
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: drover.compute.hypervisor_info
  - module: drover.compute.domain
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""


from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    options as migration_options,
)
from ansible_collections.drover.compute.plugins.module_utils._migration.call import MigrationCall

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
    call = MigrationCall(module)
    with module.failures(files=f"The records of moves in {call.records.folder}"):
        result = call.run()
    module.exit_json(**result)


if __name__ == "__main__":
    main()

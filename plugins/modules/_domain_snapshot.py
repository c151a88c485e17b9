#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_snapshot
short_description: Make, delete, revert to and list snapshots of one libvirt domain
author:
  - The drover.compute authors (@drover-compute)
description:
  - The step of M(drover.compute.instance_snapshot) on a hypervisor.
  - A new snapshot is external and has no memory. The image of each disk that the guest writes to stays as it is, and the guest writes to a new
    image over it. The agent of the guest, if there is one, freezes the file systems during the snapshot.
  - To delete an external snapshot, the image over it is merged into it. libvirt does that while the guest runs, qemu-img while it is off. A
    merge that is cut off can be repeated, as the upper image has its content until the end.
  - To revert to an external snapshot, the domain gets new, empty images above the images of the snapshot. The images that it had are kept.
  - libvirt itself deletes internal snapshots and reverts to them.
  - A file is removed only if it was merged, or was discarded by O(discard), and if nothing else needs it.
options:
  uuid:
    description: The uuid of the domain.
    type: str
    required: true
  name:
    description: The name of the domain. The module fails if libvirt has the uuid under another name.
    type: str
  state:
    description: V(present) makes the snapshot, V(absent) deletes it, V(reverted) goes back to it. Without it, nothing is changed.
    type: str
    choices: [present, absent, reverted]
  snapshot:
    description: The name of the snapshot.
    type: str
  description:
    description: A text for a new snapshot.
    type: str
  discard:
    description: With V(reverted), remove the images that the guest has written to since the snapshot.
    type: bool
    default: false
  used_elsewhere:
    description: Files that domains of other hypervisors use or may use, as in M(drover.compute.domain). They are kept, and not written to.
    type: list
    elements: raw
    default: []
  timeout:
    description: Seconds for a merge. It goes on when they are over, and the next call waits for it.
    type: int
    default: 600
  order:
    description:
      - A name of this order, any text. M(drover.compute._domain_order) can withdraw the order by
        it. A withdrawn order does nothing and fails.
    type: str
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute.instance_snapshot
"""

EXAMPLES = "# Only the roles and playbooks of this collection call this module."

import contextlib
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.drover.compute.plugins.module_utils._domain import power
from ansible_collections.drover.compute.plugins.module_utils._host.domains import read_domain
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
    LibvirtProblem,
    host_name,
)
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records
from ansible_collections.drover.compute.plugins.module_utils._snapshots import records
from ansible_collections.drover.compute.plugins.module_utils._snapshots import (
    snapshots as _snapshots,
)
from ansible_collections.drover.compute.plugins.module_utils._snapshots import (
    steps as _snapshot_steps,
)


def _find(conn: Any, uuid: str, name: str | None) -> Any:
    domain = power.find(conn, uuid=uuid)
    if domain is None:
        raise LibvirtProblem(
            f"There is no domain {name or uuid} on {host_name()}. Run drover.compute.discover to find it."
        )
    if name not in (None, domain.name()):
        raise LibvirtProblem(
            f"The domain {uuid} is named {domain.name()!r} on {host_name()}, not {name!r}: correct the name."
        )
    return domain


def _run(module: AnsibleModule, conn: Any, steps: _snapshot_steps.Steps) -> dict[str, Any]:
    """Bring the snapshot to its state and return the result of the module."""
    given = module.params
    uuid, name, state = given["uuid"], given["name"], given["state"]
    alone: Any = contextlib.nullcontext()
    if state is not None and not module.check_mode:
        alone = orders.alone(Records(), uuid, name or uuid, orders.LEAST_PATIENCE, given["order"])
    with alone:
        steps.domain = _find(conn, uuid, name)
        if state is not None and not module.check_mode:
            # An interrupted move may have taken the records from libvirt.
            records.give_back(steps.domain)
        before = _snapshots.read(steps.domain)
        changed = steps.carry_out(state, before) if state is not None else False
        after = (
            steps.foreseen
            if module.check_mode and changed
            else [each.facts() for each in _snapshots.read(steps.domain)]
        )
        result = {
            "changed": changed,
            "snapshots": after,
            "domain": read_domain(steps.domain, local=True),
            **steps.told,
        }
        if module._diff:
            result["diff"] = {
                "before": _lines([each.facts() for each in before]),
                "after": _lines(after),
            }
            result["diff"].update(
                before_header=steps.domain.name(), after_header=steps.domain.name()
            )
            if state == "reverted" and changed:
                result["diff"]["after"] += f"the disks are as of {given['snapshot']}\n"
        return result


def _lines(snapshots: list[dict[str, Any]]) -> str:
    return "".join(f"snapshot {each['name']} ({each['kind']})\n" for each in snapshots)


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "uuid": {"type": "str", "required": True},
            "name": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent", "reverted"]},
            "snapshot": {"type": "str"},
            "description": {"type": "str"},
            "discard": {"type": "bool", "default": False},
            "used_elsewhere": {"type": "list", "elements": "raw", "default": []},
            "timeout": {"type": "int", "default": 600},
            "order": {"type": "str"},
        },
        required_if=[(("state"), each, ["snapshot"]) for each in ("present", "absent", "reverted")],
        supports_check_mode=True,
    )
    given = module.params
    given["uuid"] = binding.domain_uuid(module, given["uuid"], "changed")
    if given["timeout"] < 0:
        module.fail_json(msg=f"timeout is {given['timeout']} s: give 0 or more.", begun=False)
    steps = None
    with module.hypervisor(lambda: {"begun": steps.begun if steps else False}, local=True) as conn:
        steps = _snapshot_steps.Steps(module, conn)
        result = _run(module, conn, steps)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

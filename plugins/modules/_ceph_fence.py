#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _ceph_fence
short_description: Shut a host out of a Ceph cluster by its blocklist
author:
  - The drover.compute authors (@drover-compute)
description:
  - The role drover.compute.evacuate uses this module where a dead host cannot be switched off.
  - It runs where the commands C(ceph) and C(rbd) of an administrator of the cluster work.
options:
  state:
    description:
      - V(cut) puts all clients of the addresses on the blocklist, for ten years. V(verified) sees
        that they are on it, and which of the disks no other client has open. V(lifted) takes them
        off.
    type: str
    choices: [cut, verified, lifted]
    required: true
  addresses:
    description: The IP addresses of the host.
    type: list
    elements: str
    required: true
  disks:
    description: With O(state=verified), the disks of its instances, as C(origin) in the facts of
      domains.
    type: list
    elements: str
    default: []
  arguments:
    description: Of both commands, before all others.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.attributes
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._storage.ceph_fence import (
    CephProblem,
    Cluster,
)

_FAILED = {
    "cut": "is not shut out of Ceph",
    "verified": "is not known to be shut out of Ceph",
    "lifted": "is still shut out of Ceph",
}


def main() -> None:
    module = HostModule(
        argument_spec={
            "state": {"type": "str", "choices": ["cut", "verified", "lifted"], "required": True},
            "addresses": {"type": "list", "elements": "str", "required": True},
            "disks": {"type": "list", "elements": "str", "default": []},
            "arguments": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    cluster = Cluster(params["arguments"])
    done: list[str] = []
    cut: list[str] = []
    problems: list[str] = []
    try:
        if params["state"] == "verified":
            cut, problems = cluster.verify(params["addresses"], params["disks"])
        else:
            act = cluster.cut if params["state"] == "cut" else cluster.lift
            done = act(params["addresses"], module.check_mode)
    except CephProblem as exc:
        module.fail_json(
            msg=f"The host with {', '.join(params['addresses'])} {_FAILED[params['state']]}: {exc}."
        )
    except ValueError as exc:
        module.fail_json(msg=f"The host {_FAILED[params['state']]}: {exc}.")
    module.exit_json(changed=bool(done), addresses=done, cut=cut, problems=problems)


if __name__ == "__main__":
    main()

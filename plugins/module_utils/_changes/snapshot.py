# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A snapshot of a domain: made, deleted or reverted to."""

from __future__ import annotations

import contextlib
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from .._domain import power
from .._host.domains import read_domain
from .._orders import orders
from .._orders.records import Records
from .._snapshots import records
from .._snapshots import snapshots as _snapshots
from .._snapshots import steps as _snapshot_steps


class SnapshotChange:
    """The work of one run of the module."""

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self.module, self.conn = module, conn
        self.steps = _snapshot_steps.Steps(module, conn)

    def certain(self) -> dict[str, object]:
        """Return the certain facts after a failure."""
        return {"begun": self.steps.begun}

    def run(self) -> dict[str, object]:
        """Bring the snapshot to its state and return the result of the module."""
        module, steps, params = self.module, self.steps, self.module.params
        uuid, name, state = params["uuid"], params["name"], params["state"]
        alone: Any = contextlib.nullcontext()
        if state is not None and not module.check_mode:
            alone = orders.alone(
                Records(), uuid, name or uuid, orders.LEAST_PATIENCE, params["order"]
            )
        with alone:
            steps.domain = power.find_named(self.conn, uuid, name)
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
            result: dict[str, object] = {
                "changed": changed,
                "snapshots": after,
                "domain": read_domain(steps.domain, local=True),
                **steps.told,
            }
            if module._diff:
                diff = {
                    "before": _lines([each.facts() for each in before]),
                    "after": _lines(after),
                    "before_header": steps.domain.name(),
                    "after_header": steps.domain.name(),
                }
                if state == "reverted" and changed:
                    diff["after"] += f"the disks are as of {params['snapshot']}\n"
                result["diff"] = diff
            return result


def _lines(snapshots: list[_snapshots.SnapshotFacts]) -> str:
    return "".join(f"snapshot {each['name']} ({each['kind']})\n" for each in snapshots)

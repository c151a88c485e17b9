# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domains as they are once no earlier call works on them, and the withdrawal of orders."""

from __future__ import annotations

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from .._domain import power
from .._host.domains import read_domain
from .._libvirt import binding
from .._orders import orders
from .._orders.records import Records
from .._orders.unfinished import UnfinishedBuild


def _withdraw_and_read(
    conn: Any,
    records: Records,
    uuid: str,
    withdrawn: list[str],
    patience: float,
    module: AnsibleModule,
) -> dict[str, object]:
    entry: dict[str, object] = {
        "uuid": uuid,
        "busy": False,
        "domain": None,
        "kept_disks": [],
    }
    try:
        with orders.alone(records, uuid, uuid, patience):
            if not module.check_mode:
                orders.withdraw(records, uuid, withdrawn)
            domain = power.find(conn, uuid=uuid)
            if domain is not None:
                entry["domain"] = read_domain(domain, binding.is_local(module.params["uri"]))
            elif not module.check_mode and binding.is_local(module.params["uri"]):
                entry["kept_disks"] = UnfinishedBuild(records, uuid).drop(conn, withdrawn)
    except orders.DomainBusy:
        entry["busy"] = True
    return entry


def look_at_all(conn: Any, module: AnsibleModule) -> list[dict[str, object]]:
    """Return the entries of all domains. Withdraw their orders first."""
    records, deadline = Records(), time.monotonic() + module.params["patience"]
    return [
        _withdraw_and_read(
            conn,
            records,
            each["uuid"],
            each["withdraw"],
            max(0.0, deadline - time.monotonic()),
            module,
        )
        for each in module.params["domains"]
    ]

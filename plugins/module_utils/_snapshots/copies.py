# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies of the disks of all domains of a host into a folder."""

from __future__ import annotations

import os
from typing import Any, TypedDict

from ansible.module_utils.basic import AnsibleModule

from .._files import access
from .._libvirt.binding import LibvirtProblem, host_name
from .._orders import orders
from .._orders.records import Records
from . import backup


class Result(TypedDict):
    """The result of the module."""

    changed: bool
    copies: list[dict[str, str]]
    left_out: list[dict[str, str]]
    lines: list[str]


def copy_all(module: AnsibleModule, conn: Any, result: Result) -> None:
    """Copy the disks of each domain, and add each copy to the result of the module."""
    folder = module.params["folder"]
    if not os.path.isabs(folder) or not access.call(os.path.isdir, folder):
        raise LibvirtProblem(
            f"the folder {folder} does not exist on {host_name()}: make it, or mount it there"
        )
    for domain in sorted(conn.listAllDomains(0), key=lambda each: each.name()):
        uuid, name = domain.UUIDString(), domain.name()
        reason = backup.why_left_out(domain)
        if reason:
            result["left_out"].append({"uuid": uuid, "name": name, "reason": reason})
            result["lines"].append(f"{name} on {host_name()} has no copy: {reason}.")
            continue
        if module.check_mode:
            copies = [
                {"target": target, "path": "", "since": "", "why_whole": ""}
                for target in backup.targets(domain)
            ]
        else:
            with orders.alone(Records(), uuid, name, orders.LEAST_PATIENCE):
                copies = backup.copy(
                    domain, folder, module.params["timeout"], module.params["incremental"]
                )
        result["copies"] += [{"uuid": uuid, "name": name, **each} for each in copies]
        result["lines"] += [
            f"{name} on {host_name()}: {each}." for each in backup.not_copied(domain)
        ]
        result["lines"] += [
            f"{name} on {host_name()}: {each['target']} {_outcome(each)}." for each in copies
        ]
        result["changed"] = True


def _outcome(copied: dict[str, str]) -> str:
    if not copied["path"]:
        return "would be copied"
    if copied["since"]:
        return (
            f"was copied to {copied['path']}: what was written since {copied['since']}, which it"
            " needs"
        )
    return f"was copied to {copied['path']}" + (
        f": the whole disk, because {copied['why_whole']}" if copied["why_whole"] else ""
    )

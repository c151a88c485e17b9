# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance for people: its host, the ways to reach it, and its former hosts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._common import labels
from .._common.errors import node_label
from .._records.hosts import HostStatus
from .._records.overview import MigrationRow
from . import formatting
from .text import align

#: A name that both shells and virsh accept as the name of a domain.
_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def console(instance: Mapping[str, Any], variables: Mapping[str, Any]) -> str | None:
    """Write the command that opens the serial console of an instance; None for an instance on no
    host.

    :param instance: with name, uuid, host and uri.
    :param variables: the variables of its host in the inventory: ansible_host, ansible_user and
        ansible_port.
    """
    if instance["host"] is None or not instance["uri"]:
        return None
    name = instance["name"] if _SAFE.fullmatch(instance["name"]) else instance["uuid"]
    user = variables.get("ansible_user")
    target = (f"{user}@" if user else "") + str(variables.get("ansible_host") or instance["host"])
    port = ["-p", str(variables["ansible_port"])] if variables.get("ansible_port") else []
    return shlex.join(
        ["ssh", "-t", *port, target, shlex.join(["virsh", "-c", instance["uri"], "console", name])]
    )


def instance_lines(
    instance: Mapping[str, Any],
    host: HostStatus | None,
    command: str | None,
    now: float,
    label: Callable[[str, str | None], str] = node_label,
) -> list[str]:
    """Return the lines about an instance.

    :param instance: a row of the store's instances.listing(), with addresses, uri, flavor, nodes
        and migrations (its newest ones).
    :param host: the state of its host, from hosts.states().
    :param command: see console().
    :param now: seconds since 1970.
    :param label: the function that names a host and a node for people.
    """
    disk = formatting.disks(instance["disk_gb"], instance.get("pool_disks"))
    sizes = (
        f"{instance['vcpus']} vCPU, {formatting.memory(instance['memory_mb'])} memory, {disk} disk"
    )
    where = (
        f"{instance['state']} on {label(instance['host'], instance['node'])}"
        if instance["host"]
        else f"{instance['state']}, on no host"
    )
    rows: list[list[Any]] = [["state", where + _of_host(host, now)]]
    if len(instance["nodes"]) > 1:
        rows.append(
            [
                "seen on",
                (
                    f"{' and '.join(instance['nodes'])}; run drover.compute.discover, which says"
                    " what to do"
                ),
            ]
        )
    rows += [
        ["addresses", ", ".join(instance["addresses"]) or "none known"],
        ["console", command],
        ["size", sizes + (f", flavor {instance['flavor']}" if instance["flavor"] else "")],
        ["server group", instance["server_group"]],
        ["zone", instance["availability_zone"]],
        ["project, user", ", ".join(filter(None, (instance["project"], instance["user"]))) or None],
        ["labels", labels.as_text(instance["labels"])],
        ["definition", _definition(instance)],
        ["autostart", instance["autostart"]],
    ]
    return [
        f"{instance['name']} ({instance['uuid']})",
        *align(("", ""), rows, indent="  ")[1:],
        *_migrations(instance["migrations"]),
    ]


def _of_host(host: HostStatus | None, now: float) -> str:
    if host is None:
        return ""
    seen = host["last_seen_up"]
    down = f", which is down: {host['down_reason']}" if host["state"] == "down" else ""
    return f" ({'never seen' if seen is None else 'seen ' + str(formatting.ago(now - seen))}){down}"


def _migrations(newest: Sequence[MigrationRow]) -> list[str]:
    if not newest:
        return []
    rows = [
        [
            formatting.moment(each["created_at"]),
            each["type"],
            f"{each['source']} -> {each['destination']}",
            each["status"],
            formatting.duration(round(each["updated_at"] - each["created_at"])),
            each["message"],
        ]
        for each in newest
    ]
    return [
        "",
        "Newest migrations:",
        *align(("WHEN", "TYPE", "FROM -> TO", "STATUS", "TOOK", "MESSAGE"), rows, indent="  "),
    ]


def _definition(instance: Mapping[str, Any]) -> str | None:
    """Return the definition of an instance if it differs from the instance's own name."""
    project, _slash, name = (instance["definition"] or "").partition("/")
    if name in ("", instance["name"]) and project == (instance["project"] or ""):
        return None
    return f"{name}, of the project {project}" if project else name

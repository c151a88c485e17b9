# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host shows of its boot: which one it is, and whether a file asks for another one."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Hosts
from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id(hosts: Hosts, host: str) -> str:
    """Read the id of the boot that a host runs, another one after each boot (rule S14).

    :raises Unreachable: the host cannot be reached.
    :raises DroverError: it was reached and could not be read.
    """
    content = _ask(hosts, host, "ansible.builtin.slurp", {"src": BOOT_ID})["content"]
    return base64.b64decode(content).decode("ascii").strip()


def has_any(hosts: Hosts, host: str, paths: Iterable[str]) -> bool:
    """Find out whether a host has one of these files.

    :raises Unreachable: the host cannot be reached.
    :raises DroverError: it was reached and could not be asked.
    """
    asked = ({"path": path, "get_checksum": False} for path in paths)
    return any(_ask(hosts, host, "ansible.builtin.stat", args)["stat"]["exists"] for args in asked)


def _ask(hosts: Hosts, host: str, module: str, args: dict[str, Any]) -> dict[str, Any]:
    found = hosts.hand(host).read(module, args)
    if found.get("failed"):
        raise DroverError(f"Host {host}: {found.get('msg') or f'{module} failed without a message'}")
    return found

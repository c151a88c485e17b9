# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host shows of its boot: which one it is, and whether it needs another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .._common.errors import DroverError
from .ports import Hosts


def boot_id(hosts: Hosts, host: str) -> str:
    """Read the id of the boot that a host runs, another one after each boot (rule S14).

    :raises Unreachable: the host cannot be reached.
    :raises DroverError: it was reached and could not be read.
    """
    return str(_ask(hosts, host, "_boot_info", {})["boot_id"])


class Need(NamedTuple):
    """Whether a host needs a reboot. needed: None where it cannot be told. why: part of a sentence."""

    needed: bool | None
    why: str


def needs_reboot(hosts: Hosts, host: str, sentinels: Iterable[str]) -> Need:
    """Find out whether a host needs a reboot.

    :param sentinels: files that ask for one; without them, the signs of the host's own system count.
    :raises Unreachable: the host cannot be reached.
    :raises DroverError: it was reached and could not be asked.
    """
    found = _ask(hosts, host, "_reboot_info", {"sentinels": list(sentinels)})
    return Need(found["needed"] if isinstance(found["needed"], bool) else None, str(found["message"]))


def _ask(hosts: Hosts, host: str, module: str, args: dict[str, Any]) -> dict[str, Any]:
    found = hosts.hand(host).read(module, args)
    if found.get("failed"):
        raise DroverError(f"Host {host}: {found.get('msg') or f'{module} failed without a message'}")
    return found

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot of a host: its id, and the need of another boot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .._common.errors import DroverError
from .ports import Hosts


def boot_id(hosts: Hosts, host: str) -> str:
    """Read the id of the present boot of a host. Each boot has another id (rule S14).

    :raises Unreachable: the host cannot be reached.
    :raises DroverError: the host was reached but could not be read.
    """
    return str(_run_module(hosts, host, "_boot_info", {})["boot_id"])


class Need(NamedTuple):
    """The need of a reboot of a host. needed: None if it is not known. why: part of a sentence."""

    needed: bool | None
    why: str


def needs_reboot(hosts: Hosts, host: str, sentinels: Iterable[str]) -> Need:
    """Find out if a host needs a reboot.

    :param sentinels: files that request a reboot; without them, the signs of the host's own system
        count.
    :raises Unreachable: the host cannot be reached.
    :raises DroverError: the host was reached but could not be read.
    """
    found = _run_module(hosts, host, "_reboot_info", {"sentinels": list(sentinels)})
    return Need(
        found["needed"] if isinstance(found["needed"], bool) else None, str(found["message"])
    )


def _run_module(hosts: Hosts, host: str, module: str, args: dict[str, object]) -> dict[str, object]:
    answer = hosts.hand(host).read(module, args)
    if answer.get("failed"):
        raise DroverError(
            f"Host {host}: {answer.get('msg') or f'{module} failed without a message'}"
        )
    return answer

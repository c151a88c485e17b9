# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The destinations of the check of a host for migrations."""

from __future__ import annotations

from typing import Any

from .options import Variables

#: The most hypervisors for the check of one host, so that a check takes no longer in a large fleet.
MOST_PEERS = 32


def ring(hosts: list[str], of: str, most: int) -> list[str]:
    """Return the hosts after one in the ring of all.

    So each host is equally often destination and source.

    :param of: the host; it is left out.
    :param most: the maximum number of hosts; 0 for all.
    """
    begin = hosts.index(of) + 1 if of in hosts else 0
    found = [each for each in hosts[begin:] + hosts[:begin] if each != of]
    return found[:most] if most else found


def of_inventory(task_vars: Variables, host: str) -> list[str]:
    """Return the hypervisors of the inventory that a host must reach for migrations."""
    groups: Any = task_vars.get("groups") or {}
    group = groups.get(str(task_vars.get("drover_hypervisors") or "hypervisors"))
    hosts: Any = group or task_vars.get("ansible_play_hosts_all") or ()
    return ring(list(hosts), host, MOST_PEERS)

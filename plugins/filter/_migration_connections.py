# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter migration_connections: which connections between hosts were tried, and which of them
work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.filter._migration_peers import migration_uri
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain

NO_QEMU = "the first URI in drover_uris is no QEMU, and there is no drover_migration_uri"
NO_NAME = "its name is no name that SSH can reach, and there is no drover_migration_uri"


def migration_connections(hosts: Sequence[str], hostvars: Mapping[str, Any]) -> list[str]:
    """See _migration_connections.yml."""
    looks = [look for host in hosts for look in _looks(hostvars[host])]
    tried, unreached = (sum(len(look[key]) for look in looks) for key in ("tried", "unreached"))
    lines = list(dict.fromkeys(sentence for look in looks for sentence in look["sentences"]))
    if tried:
        plural, verb = ("", "was") if tried == 1 else ("s", "were")
        end = (
            f"; {unreached} {'does' if unreached == 1 else 'do'} not work."
            if unreached
            else ", and all work."
        )
        end = ", and it works." if tried == 1 and not unreached else end
        made = "a migration makes it" if tried == 1 else "a migration makes them"
        lines.append(f"{tried} connection{plural} {verb} tried as {made}{end}")
    else:
        lines.append(
            "No connection was tried"
            + (f": {hosts[0]} is the only host." if len(hosts) == 1 else ".")
        )
    return lines + (_without_uri(hosts, hostvars) if len(hosts) > 1 else [])


def _looks(variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results of each account of a host; the second account is left out if Ansible is
    root.
    """
    looks = [
        to_plain(variables[name])
        for name in ("hypervisor_reach", "hypervisor_root_reach")
        if name in variables
    ]
    return [each for each in looks if "tried" in each]


def _without_uri(hosts: Sequence[str], hostvars: Mapping[str, Any]) -> list[str]:
    """Return a line for each reason why no host connects to some."""
    grouped: dict[str, list[str]] = {}
    for host in hosts:
        why = _why_no_uri(host, hostvars[host])
        if why:
            grouped.setdefault(why, []).append(host)
    return [f"No connection to {', '.join(names)}: {why}." for why, names in grouped.items()]


def _why_no_uri(host: str, variables: Mapping[str, object]) -> str:
    try:
        if migration_uri(host, variables):
            return ""
    except Exception as problem:  # pylint: disable=broad-exception-caught
        return f"its drover_migration_uri or drover_uris cannot be read: {str(problem).rstrip('.')}"
    # A name that SSH can reach has a URI unless its libvirt is another one.
    return NO_QEMU if migration_uri(host, {}) else NO_NAME


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_migration_connections": migration_connections}

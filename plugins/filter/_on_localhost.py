# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter on_localhost: the hosts of a playbook that works on localhost, with any --limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader


def on_localhost(
    limit: str | None,
    groups: Mapping[str, Iterable[str]],
    takes_limit: bool = False,
    later: str = "",
) -> str:
    """See _on_localhost.yml."""
    if limit and not hosts_of("localhost", limit, groups):
        advice = (
            f"Add it: --limit localhost,{limit}."
            if takes_limit
            else (
                "Run it without --limit. Name the host or the instance with a variable, such as -e"
                " drover_host=kvm1 or -e drover_instance=web1."
            )
        )
        raise AnsibleFilterError(
            f"Nothing was done: --limit {limit} leaves out localhost, where this playbook works."
            f" {advice}"
        )
    if limit and later and not hosts_of(later, limit, _with(later, groups)):
        raise AnsibleFilterError(
            f"Nothing was done: --limit {limit} leaves out {later}, on which this playbook works"
            " after localhost. Run it without --limit."
        )
    return "localhost"


def _with(later: str, groups: Mapping[str, Iterable[str]]) -> Mapping[str, Iterable[str]]:
    """Add a group that a playbook makes: it has no host yet, but a limit applies to it too."""
    if any(later in hosts for hosts in groups.values()):
        return groups
    return {**groups, "all": [*groups.get("all", ()), "new"], later: ["new"]}


def hosts_of(pattern: str, limit: str, groups: Mapping[str, Iterable[str]]) -> list[str]:
    """Ask Ansible itself which hosts a play has under a limit; "" means no limit."""
    inventory = InventoryManager(DataLoader(), parse=False)
    for group, hosts in groups.items():
        inventory.add_group(group)
        for host in hosts:
            inventory.add_host(host, group)
    inventory.subset(limit or None)
    return [host.name for host in inventory.get_hosts(pattern)]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_on_localhost": on_localhost}

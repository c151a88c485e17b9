# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter whole_fleet: the hosts of a playbook that needs all hypervisors, with any --limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.filter._on_localhost import hosts_of
from ansible_collections.drover.compute.plugins.filter._some_host import some_host


def whole_fleet(pattern: str, limit: str | None, groups: Mapping[str, Iterable[str]]) -> str:
    """See _whole_fleet.yml."""
    some_host(pattern, "", groups)
    if limit:
        wanted, left = hosts_of(pattern, "", groups), hosts_of(pattern, limit, groups)
        missing = [each for each in wanted if each not in left]
        if missing:
            named = ", ".join(missing[:5]) + (
                f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            )
            raise AnsibleFilterError(
                f"Nothing was done: --limit {limit} leaves out {named}, and this playbook needs"
                " every hypervisor. Hosts that need no change stay as they are, so run it without"
                " --limit. For a part of the fleet alone, name its group, such as -e"
                " drover_hypervisors=site_a."
            )
    return pattern


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_whole_fleet": whole_fleet}

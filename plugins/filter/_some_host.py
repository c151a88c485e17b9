# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter some_host: the hosts of a play that must not be empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.filter._on_localhost import hosts_of
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import which_name


def some_host(
    pattern: str | list[str], limit: str | None, groups: Mapping[str, Iterable[str]]
) -> str | list[str]:
    """See _some_host.yml."""
    if any(context.CLIARGS.get(name) for name in ("syntax", "listhosts", "listtasks", "listtags")):
        # Such a run works on no host anyway.
        return pattern
    unknown = no_host(pattern, groups)
    if unknown:
        raise AnsibleFilterError(unknown)
    named = _join_patterns(pattern)
    if limit and not hosts_of(named, limit, groups):
        raise AnsibleFilterError(
            f"Nothing was done: --limit {limit} leaves out every host that matches {named}. Run it"
            " without --limit."
        )
    return pattern


def no_host(pattern: str | list[str], groups: Mapping[str, Iterable[str]]) -> str | None:
    """Return a sentence if the inventory has no host that matches a pattern."""
    named = _join_patterns(pattern)
    if hosts_of(named, "", groups):
        return None
    known = {host for hosts in groups.values() for host in hosts} | set(groups)
    return (
        "Nothing was done: the inventory has no host that matches"
        f" {named}{which_name(named, known)}. Correct the name, or add the host to the inventory."
    )


def _join_patterns(pattern: str | list[str]) -> str:
    return pattern if isinstance(pattern, str) else ",".join(map(str, pattern))


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_some_host": some_host}

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter on_localhost: where a playbook works that works on localhost, whatever --limit says."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.constants import LOCALHOST
from ansible.errors import AnsibleFilterError


def on_localhost(limit: str | None, groups: Mapping[str, Iterable[str]]) -> str:
    """See on_localhost.yml."""
    if limit and not _includes_localhost(re.split(r"[,:]", limit), groups):
        raise AnsibleFilterError(
            f"Nothing was done: --limit {limit} leaves out localhost, where this playbook works. Run it without --limit, and say with "
            "variables what it is to work on, such as -e drover_host=kvm1 or -e drover_instance=web1."
        )
    return "localhost"


def _includes_localhost(patterns: Iterable[str], groups: Mapping[str, Iterable[str]]) -> bool:
    """Tell whether patterns of hosts have localhost; groups and wildcards have it only if the inventory names it."""
    named = "localhost" in groups.get("all", ())
    patterns = [pattern.strip() for pattern in patterns]
    # As Ansible does: exclusions alone are made from all hosts.
    found = named and all(pattern.startswith("!") for pattern in patterns)
    for pattern in patterns:
        if pattern in LOCALHOST:
            found = True
        elif pattern.lstrip("!&") in LOCALHOST and pattern.startswith("!"):
            return False
        elif named and not pattern.startswith(("!", "&")):
            found = found or fnmatch.fnmatch("localhost", pattern) or pattern == "all" or "localhost" in groups.get(pattern, ())
    return found


class FilterModule:
    """What Ansible finds."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"on_localhost": on_localhost}

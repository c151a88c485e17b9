# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter following: the other hosts with which the SSH of a host is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.peers import ring
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain


def following(
    peers: Sequence[Mapping[str, object]], of: str, most: int = 0
) -> list[dict[str, object]]:
    """See _following.yml."""
    by_host = {each["host"]: each for each in to_plain(peers)}
    return [by_host[host] for host in ring(list(by_host), of, most)]


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_following": following}

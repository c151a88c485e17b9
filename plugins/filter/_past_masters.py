# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter past_masters: arguments of ssh with which a probe waits for no dead master."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import ssh_ways


class FilterModule:
    """What Ansible finds."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"_past_masters": ssh_ways.past_masters}

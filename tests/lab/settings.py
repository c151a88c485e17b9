# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the fleet, which a test gives to each of its runs: a playbook refuses the settings
that it does not read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.known_variables import (
    PREFIX,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.playbook_variables import (
    READ,
)

#: Settings with a place in an inventory.
SETTINGS = frozenset(READ["discover"].split()) | {
    name for name in READ["evacuate"].split() if name.endswith(("_seconds", "_percent"))
}


def read_by(playbook: str, words: Sequence[str]) -> list[str]:
    """Return the words of a command line without the settings that the playbook does not read."""
    unread_names = SETTINGS - set(READ.get(playbook, " ".join(SETTINGS)).split())
    kept: list[str] = []
    for word in words:
        if kept and kept[-1] == "-e" and word.startswith("{"):
            kept.append(
                json.dumps(
                    {
                        name: value
                        for name, value in json.loads(word).items()
                        if name.removeprefix(PREFIX) not in unread_names
                    }
                )
            )
        elif (
            kept
            and kept[-1] == "-e"
            and word.partition("=")[0].removeprefix(PREFIX) in unread_names
        ):
            kept.pop()
        else:
            kept.append(word)
    return kept

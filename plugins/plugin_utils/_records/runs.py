# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of a playbook: the user, the command, the controller and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Run:
    """A run, in words for people and without secrets."""

    user: str
    #: The machine that runs ansible-playbook.
    controller: str
    command: str
    #: Empty if none is given.
    reason: str = ""
    #: The fields of AWX: id, template, workflow, user, ...; empty outside of it.
    job: Mapping[str, str] = field(default_factory=dict)


#: The run of a caller that gives none, such as a script that uses the store itself.
UNKNOWN = Run("unknown", "unknown", "unknown")

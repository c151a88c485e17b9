# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The terminal or job log that a person watches."""

from __future__ import annotations

import shutil

from ansible.utils.display import Display

from ansible_collections.drover.compute.plugins.plugin_utils._report import formatting
from ansible_collections.drover.compute.plugins.plugin_utils._report.text import folded

#: Columns of a line: COLUMNS, else those of the terminal, else 160. Found when ansible-playbook loads its plugins, as its worker processes
#: have no terminal.
WIDTH = max(shutil.get_terminal_size(fallback=(160, 24)).columns, 40)


def show(text: str) -> None:
    """Show a line, or several, none wider than the terminal. Characters that control a terminal are shown as unknown ones."""
    for line in text.splitlines() or [""]:
        for part in folded(formatting.clean(line), WIDTH):
            Display().display(part)

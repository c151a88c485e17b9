# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The terminal or job log that a person watches."""

from __future__ import annotations

import os
import shutil

from ansible import constants as C
from ansible.utils.display import Display

from .._report import formatting
from .._report.text import BAD, NOTABLE, Row, folded

#: The settings of Ansible that name the colour of a row, red and yellow by default.
_COLOURS = {BAD: "COLOR_ERROR", NOTABLE: "COLOR_CHANGED"}


def _width() -> int | None:
    """Return COLUMNS, else the columns of the terminal; None without both.

    ansible-runner, and so AWX, gives ansible-playbook a pseudo-terminal of 80 columns, independent
    of the page that shows the job.
    """
    nobody = "AWX_ISOLATED_DATA_DIR" in os.environ and not os.environ.get("COLUMNS")
    columns = 0 if nobody else shutil.get_terminal_size(fallback=(0, 0)).columns
    return max(columns, 20) if columns else None


#: Columns of a line, None for any number. It is set when ansible-playbook loads its plugins,
#: because its worker processes have no terminal.
WIDTH = _width()


def _is_data(callback: str) -> bool:
    """Return True if a callback writes one document for programs, such as ansible.posix.json."""
    return callback.rpartition(".")[2] in ("json", "jsonl")


def show(text: str) -> None:
    """Show one or several lines, none wider than the terminal.

    Replace characters that control a terminal.

    If the standard output is one JSON document, lines go to the standard error. A row of a table
    has the colour of its state, if Ansible shows colours.
    """
    colour = None
    if isinstance(text, Row):
        colour = getattr(C, _COLOURS[text.alarm]) if text.alarm else None
        text = text.within(WIDTH) if WIDTH else text
    for line in text.splitlines() or [""]:
        clean = formatting.clean(line)
        for part in folded(clean, WIDTH) if WIDTH else [clean]:
            Display().display(part, color=colour, stderr=_is_data(str(C.DEFAULT_STDOUT_CALLBACK)))

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the tests that a machine may be unable to run: they are skipped, and ``make test`` names
them in its last line."""

from __future__ import annotations

import os
import pathlib
import socket
import typing

import pytest

#: With this environment variable the tests of a missing part fail.
SKIP_NOTHING = "DROVER_SKIP_NOTHING"
#: One line for each part that was left out. `make test` removes it first; see tests/setup/seen.py.
LEFT_OUT = pathlib.Path(__file__).parents[1] / ".cache" / "left-out"
_MARK = "left out: "


def leave_out(part: str, reason: str) -> typing.NoReturn:
    """End a test of a part that this machine cannot run."""
    sentence = f"{part}: {reason}"
    if os.environ.get(SKIP_NOTHING):
        pytest.fail(f"{sentence} ({SKIP_NOTHING} is set.)", pytrace=False)
    pytest.skip(_MARK + sentence)


def require_ipv6() -> None:
    """Leave a test out if no socket can use the address ::1."""
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError as problem:
        leave_out("IPv6", f"this machine has none: {problem}")


def left_out(report: pytest.TestReport) -> str:
    """Return the part of a skipped test, and the reason; nothing for any other report."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    return reason.partition(_MARK)[2]


def note(found: list[str]) -> None:
    """Add parts to the file, each once."""
    lines = LEFT_OUT.read_text(encoding="utf-8").splitlines() if LEFT_OUT.exists() else []
    LEFT_OUT.parent.mkdir(exist_ok=True)
    LEFT_OUT.write_text(
        "".join(f"{line}\n" for line in dict.fromkeys([*lines, *found])), encoding="utf-8"
    )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event in the form for rulebooks."""

from __future__ import annotations

import datetime
from typing import Any

Event = dict[str, Any]


def make(
    kind: str,
    since: float,
    sentence: str,
    host: str | None = None,
    uuid: str | None = None,
    name: str | None = None,
    **more: Any,
) -> Event:
    """Make an event.

    :param since: seconds since 1970.
    :param name: the name of the instance; None for the name of the host.
    :param more: the further values of this type of event.
    """
    return {
        "type": kind,
        "name": name or host,
        "uuid": uuid,
        "host": host,
        "since": (
            datetime.datetime.fromtimestamp(since, datetime.timezone.utc).isoformat(
                timespec="seconds"
            )
        ),
        "sentence": sentence,
        **more,
    }


def clock(at: float) -> str:
    """Write a time for people."""
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%H:%M:%S UTC")

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one clock of all controllers: the database's.

Two controllers with different clocks would misjudge each other's times: a lease of five minutes is
over at once for a controller that is six minutes ahead.
"""

from __future__ import annotations

import time

from ..._common.errors import DroverError
from .sql import Connection, sa

#: Seconds that a controller's clock may differ from the database's.
TOLERANCE = 60


def now(connection: Connection) -> float:
    """Read the database's clock, in seconds since 1970; SQLite uses the clock of this machine."""
    if connection.dialect.name != "postgresql":
        return time.time()
    return float(
        connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
    )


def refuse_other_time(connection: Connection) -> None:
    """Raise DroverError if this controller's clock differs from the database's, because its times
    would mislead other controllers.
    """
    off = time.time() - now(connection)
    if abs(off) > TOLERANCE:
        raise DroverError(
            f"The clock of this controller is {abs(off):.0f} s"
            f" {'ahead of' if off > 0 else 'behind'} that of the database. Nothing was done. Set"
            " the clocks of both right (chronyc tracking, timedatectl), then run this again."
        )

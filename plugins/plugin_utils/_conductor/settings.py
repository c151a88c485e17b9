# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run moves and resizes instances, as the operator wants it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from .._migrations.options import Options
from .._records.orders import MigrationLimits
from .._records.plans import Move
from .._scheduler.policy import Policy
from .migrate import PATIENCE


@dataclasses.dataclass(frozen=True)
class MoveSettings:
    """How instances are moved.

    - migration: options of each migration (module_utils._migration.options).
    - max_wait: seconds to wait for other runs. shutdown_timeout: seconds that a guest may take to shut down.
    """

    limits: MigrationLimits
    migration: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_wait: int = PATIENCE
    shutdown_timeout: int = 300

    def options(self, moves: Sequence[Move] = ()) -> Options:
        """Lay the options of moves over those of all.

        :raises DroverError: there is no such option, or two contradict each other.
        """
        return Options(self.migration, moves)


@dataclasses.dataclass(frozen=True)
class ResizeSettings:
    """How instances are resized.

    - timeout: seconds that one may take to shut down or to start. force: cut the power of one that does not shut down.
    - despite_policy: move it though its policy says otherwise.
    - migration: options of its move (module_utils._migration.options).
    - service_down_time: seconds.
    - check_mode: change nothing.
    """

    policy: Policy
    timeout: int = 60
    force: bool = False
    despite_policy: bool = False
    migration: dict[str, Any] = dataclasses.field(default_factory=dict)
    service_down_time: int = 0
    check_mode: bool = False

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the operator for moves and resizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from .._migrations.options import MigrationOptions
from .._records.orders import MigrationLimits
from .._records.plans import Move
from .._scheduler.policy import Policy
from .migrate import PATIENCE


@dataclasses.dataclass(frozen=True)
class MoveSettings:
    """The settings of moves.

    - limits: the limits of migrations at a time.
    - migration: options of each migration (module_utils._migration.options).
    - max_wait: seconds to wait for other runs.
    - shutdown_timeout: seconds that a guest may take to shut down.
    """

    limits: MigrationLimits
    migration: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_wait: int = PATIENCE
    shutdown_timeout: int = 300

    def options(self, moves: Sequence[Move] = ()) -> MigrationOptions:
        """Return the options of all migrations, overridden by the options of single moves.

        :raises DroverError: an unknown option, or two options that contradict each other.
        """
        return MigrationOptions(self.migration, moves)


@dataclasses.dataclass(frozen=True)
class ResizeSettings:
    """The settings of resizes.

    - timeout: seconds that an instance may take to shut down or to start.
    - force: cut the power of an instance that does not shut down.
    - despite_policy: move an instance that its policy keeps.
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

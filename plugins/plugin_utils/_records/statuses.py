# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of all states. A field of such a type is only compared with a word that it may have."""

from __future__ import annotations

from typing import Literal

from ansible_collections.drover.compute.plugins.module_utils._domain import facts
from ansible_collections.drover.compute.plugins.module_utils._ownership import move_record

#: The state of the service of a host. unreported: no discovery reports the host any more.
UpState = Literal["up", "down", "unreported"]
#: A host that is disabled gets no new instances.
ServiceStatus = Literal["enabled", "disabled"]

PowerState = facts.PowerState

#: The status of a migration in the store. finished: a resize that waits to be confirmed. done: an
#: evacuation whose instance runs elsewhere, while its room at the dead host is still held.
MigrationStatus = Literal[
    "accepted",
    "running",
    "finished",
    "done",
    "completed",
    "confirmed",
    "reverted",
    "cancelled",
    "failed",
]
MigrationType = Literal["live-migration", "migration", "evacuation", "resize"]

#: The status and the step of a move on its source. After conflict and lost, the place of the
#: instance is not known.
MoveStatus = move_record.Status
#: The result of a move for people, also of one that another run ended or that would be aborted.
MoveResult = Literal[MoveStatus, MigrationStatus, "would be aborted"]
MovePhase = move_record.Phase

#: The result of a drain for one host. maintenance: nothing runs there. disabled: instances that
#: cannot move still run there. planned: nothing was changed.
DrainStatus = Literal["maintenance", "disabled", "failed", "planned"]

#: The result of the restart of an instance of a dead host. there: it was so already. failed:
#: nothing of it is left on the host. uncertain: its state there is not known.
RestartStatus = Literal["restarted", "there", "failed", "uncertain"]

#: The step of a rolling maintenance on a host that was begun last.
RollingStage = Literal[
    "waiting",
    "before_drain",
    "drain",
    "after_drain",
    "reboot",
    "after_reboot",
    "enable",
    "after_enable",
    "back",
    "done",
]

#: The result of an operation on an instance. absent: it is not on its host.
OperationStatus = Literal["done", "absent", "failed"]

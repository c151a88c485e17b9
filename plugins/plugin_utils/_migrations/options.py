# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of migrations: the options of the task, and over them the options of the instance's
policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.drover.compute.plugins.module_utils._migration import (
    options as migration_options,
)
from ansible_collections.drover.compute.plugins.module_utils._ownership import move_record

from .._common.errors import DroverError
from .._common.validation import check_keys
from .._records.orders import MovedInstance
from .._records.plans import Move


class MigrationOptions:
    """The options of the moves of one task.

    :param general: the task's options.
    :param moves: their key ``migration`` overrides all others.
    :raises DroverError: there is no such option, or options contradict each other.
    """

    def __init__(self, general: Mapping[str, object], moves: Sequence[Move] = ()) -> None:
        self._general = migration_options.merged(
            _validated("The options", general, "Correct drover_migration.")
        )
        self._of_moves = {move["uuid"]: move.get("migration") or {} for move in moves}
        _not_contradicting("The options", self._general)
        for move in moves:
            self.of({"uuid": move["uuid"], "name": move["name"]})

    def general(self) -> move_record.Options:
        """Return the options of the task, without options that are None."""
        return migration_options.merged(self._general)

    def of(self, order: MovedInstance) -> move_record.Options:
        """Return the options of one move, without options that are None."""
        own = {**(order.get("migration_options") or {}), **self._of_moves.get(order["uuid"], {})}
        if not own:
            return self.general()
        own = _validated(f"The migration options of {order['name']}", own, "Correct its policy.")
        merged = migration_options.merged(self._general, own)
        _not_contradicting(
            f"The migration options of {order['name']}, with those of its policy", merged
        )
        return merged


def _validated(whose: str, options: Mapping[str, object], advice: str) -> dict[str, object]:
    values = {name: value for name, value in options.items() if value is not None}
    check_keys(
        whose,
        values,
        migration_options.SPEC,
        "option",
        lambda sentence: DroverError(f"{sentence} {advice}"),
    )
    checked = ArgumentSpecValidator(migration_options.SPEC).validate(values)
    if checked.error_messages:
        raise DroverError(
            f"{whose}: {'; '.join(each.rstrip('.') for each in checked.error_messages)}. {advice}"
        )
    return checked.validated_parameters


def _not_contradicting(whose: str, options: move_record.Options) -> None:
    reasons = migration_options.contradictions(options)
    if reasons:
        raise DroverError(f"{whose}: {'; '.join(reasons)}. Nothing was moved.")

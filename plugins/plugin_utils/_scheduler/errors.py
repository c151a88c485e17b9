# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exceptions of the scheduler. Every message is written for the operator."""

from __future__ import annotations

from collections.abc import Iterable

from .._common.errors import DroverError
from .._records.claims import FailureExplanation


class SchedulerError(DroverError):
    """The base of all exceptions that the scheduler raises on purpose."""


class RequestError(SchedulerError):
    """A request is malformed or contradicts the store. The message names the key."""


class PolicyError(SchedulerError):
    """The policy (``drover_scheduler``) is malformed. The message names the key.

    path: tuple of keys and list places that lead to the mistake, for a caller that knows its line.
    """

    def __init__(self, message: str, path: Iterable[str | int] = ()) -> None:
        super().__init__(message)
        self.path = tuple(path)


class NoValidHost(SchedulerError):
    """No host can take an instance.

    ``explanation``, a plain dict, is a detail of the DroverError, so it also reaches the result of
    a task. ``why`` is the message without its head, for a caller with other words for the failure.
    ``instance`` is (uuid or None, name), if known.
    """

    def __init__(
        self, message: str, explanation: FailureExplanation | None = None, why: str = ""
    ) -> None:
        super().__init__(message, explanation=explanation or {})
        self.why = why or message
        self.explanation = self.details["explanation"]
        self.instance: tuple[str | None, str] | None = None

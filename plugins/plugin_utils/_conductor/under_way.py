# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work that hypervisors continue by themselves if this run ends now."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from .._common.errors import some

#: Clauses with the names of instances, by the kind of work.
MOVES, COPIES, BUILDS = "Moves of {} go on", "Copies of disks of {} go on", "Builds of {} may go on"


class UnderWay:
    """The work of one run that is under way."""

    def __init__(self) -> None:
        self._known: list[tuple[str, Callable[[], Sequence[str]]]] = []
        self._left: list[tuple[str, Sequence[str]]] = []

    @contextlib.contextmanager
    def known(
        self, clause: str, names: Callable[[], Sequence[str]], after_error: bool = False
    ) -> Iterator[None]:
        """Count names as under way, as long as the block runs.

        :param names: a function that returns the names at the time of need.
        :param after_error: the work continues after an error in the block.
        """
        entry = (clause, names)
        self._known.append(entry)
        try:
            yield
        except Exception:
            if after_error:
                self._left.append((clause, names()))
            raise
        finally:
            self._known.remove(entry)

    def sentence(self) -> str:
        """Return a sentence on the work that continues if the run ends now.

        Return an empty text without such work.
        """
        return _sentence([(clause, names()) for clause, names in self._known])

    def left(self) -> str:
        """Return a sentence on the work that continues after an error of this run.

        Return an empty text without it.
        """
        return _sentence(self._left)


def _sentence(known: Sequence[tuple[str, Sequence[str]]]) -> str:
    names_by_clause: dict[str, list[str]] = {}
    for clause, names in known:
        names_by_clause.setdefault(clause, []).extend(names)
    sentences = [
        f"{clause.format(some(list(dict.fromkeys(names))))}."
        for clause, names in names_by_clause.items()
        if names
    ]
    return " ".join([*sentences, "Give the same command again."]) if sentences else ""

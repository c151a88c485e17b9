# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""That there was no valid host is a decision too, and is kept in the store."""

from __future__ import annotations

import contextlib

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import NoValidHost
from ansible_collections.drover.compute.plugins.plugin_utils.store import decisions


@contextlib.contextmanager
def kept(store, purpose, actor, now):
    """Write down what the scheduler refuses inside, in a transaction of its own, and raise it on.

    :param store: a Store that may be written.
    :param purpose: see decisions.row().
    :param actor: who asked, in words for people.
    :param now: the time, seconds since 1970.
    :raises NoValidHost: as it came.
    """
    try:
        yield
    except NoValidHost as problem:
        why, message = problem.explanation, str(problem)
        row = decisions.row(purpose, actor, problem.instance, now, explanation=why, message=message)
        with store.write(together=True) as connection:
            decisions.record(connection, [row])
        raise

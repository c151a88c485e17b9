# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The orders of controllers: one call works on a domain at a time, and a withdrawn order does not
begin.

Private to the collection. A call whose controller has given up may still be on its way, or at work. To learn its
result, a call waits for the domain's lock and withdraws the order under it: from then on libvirt shows the result.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator

from .._libvirt.binding import LibvirtProblem, host_name
from .records import Records

#: So many withdrawn orders are remembered of one domain; a call is on its way for minutes at most.
REMEMBERED = 200

#: Seconds to wait for another call at least: one that only looks is soon over, and timeout=0 is about the guest.
LEAST_PATIENCE = 3


class Withdrawn(LibvirtProblem):
    """The order was withdrawn before it began."""


class Busy(LibvirtProblem):
    """Another call works on the domain."""


@contextlib.contextmanager
def alone(records: Records, uuid: str, name: str, patience: float, order: str | None = None) -> Iterator[None]:
    """Be the only call that works on a domain, for as long as the ``with`` block lasts.

    :param name: the name of the domain in a sentence.
    :param patience: seconds to wait for another call.
    :raises Busy: another call still works on it.
    :raises Withdrawn: the order no longer counts.
    """
    lock = records.lock(uuid, patience)
    if lock is None:
        raise Busy(
            f"another call works on {name} on {host_name()}, such as a move of it, and was not done within {patience} s: "
            "wait for its end, then run this again"
        )
    try:
        refuse_withdrawn(records, uuid, name, order)
        yield
    finally:
        os.close(lock)


def refuse_withdrawn(records: Records, uuid: str, name: str, order: str | None) -> None:
    """See that an order still counts; the caller has the lock of the domain."""
    if order is not None and order in read_withdrawn(records, uuid):
        raise Withdrawn(f"what was to be done with {name} on {host_name()} was withdrawn by a later run")


def may_begin(records: Records, uuid: str, order: str | None) -> bool:
    """Return True if an order still counts; if this is not known, nothing may begin."""
    try:
        return order not in read_withdrawn(records, uuid)
    except LibvirtProblem:
        return False


def withdraw(records: Records, uuid: str, orders: Iterable[str]) -> None:
    """Let orders no longer begin; the caller has the lock of the domain."""
    known = read_withdrawn(records, uuid)
    new = [order for order in orders if order not in known]
    if not new:
        return
    records.prepare()
    path = _path(records, uuid)
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8") as handle:
        json.dump((known + new)[-REMEMBERED:], handle)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(part, path)


def read_withdrawn(records: Records, uuid: str) -> list[str]:
    """The orders of a domain that no longer begin, the oldest first.

    :raises LibvirtProblem: they cannot be read, so it is not known whether an order may begin.
    """
    path = _path(records, uuid)
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
        if not isinstance(found, list):
            raise ValueError
        return [str(order) for order in found]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is damaged"
        raise LibvirtProblem(
            f"On {host_name()} the list of withdrawn orders {path} cannot be read ({why}), so nothing is begun with this domain. See to its file "
            "system. Once no run works on the domain any more, remove the file."
        ) from exc


def _path(records: Records, uuid: str) -> str:
    return os.path.join(records.folder, f"{uuid}.withdrawn")

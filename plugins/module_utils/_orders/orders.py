# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The orders of controllers: one call at a time works on a domain, and a withdrawn order does not
begin.

Private to the collection. After a controller has given up, its call may still be on its way or at
work. To learn the result, a later call waits for the lock of the domain and withdraws the order
under the lock. After that libvirt shows the final result.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator

from .._libvirt.binding import LibvirtProblem, host_name
from .records import Records

#: The number of withdrawn orders in the list of one domain. A call is on its way for minutes at
#: most.
REMEMBERED = 200

#: The shortest wait in seconds for another call. A call that only reads ends soon, and timeout=0 is
#: about the guest.
LEAST_PATIENCE = 3


class Withdrawn(LibvirtProblem):
    """The error for an order that was withdrawn before its begin."""


class DomainBusy(LibvirtProblem):
    """The error for a domain that another call works on."""


@contextlib.contextmanager
def alone(
    records: Records, uuid: str, name: str, patience: float, order: str | None = None
) -> Iterator[None]:
    """Hold the lock of a domain during the ``with`` block, so that no other call works on the
    domain.

    :param name: name of the domain for messages.
    :param patience: seconds to wait for another call.
    :raises DomainBusy: another call still works on the domain.
    :raises Withdrawn: the order was withdrawn.
    """
    lock = records.lock(uuid, patience)
    if lock is None:
        raise DomainBusy(
            f"another call works on {name} on {host_name()}, such as a move of it, and was not done"
            f" within {patience} s: wait for its end, then run this again"
        )
    try:
        refuse_withdrawn(records, uuid, name, order)
        yield
    finally:
        os.close(lock)


def refuse_withdrawn(records: Records, uuid: str, name: str, order: str | None) -> None:
    """Refuse a withdrawn order. The caller has the lock of the domain.

    :raises Withdrawn: the order was withdrawn.
    :raises LibvirtProblem: the list of withdrawn orders cannot be read.
    """
    if order is not None and order in read_withdrawn(records, uuid):
        raise Withdrawn(f"the order for {name} on {host_name()} was withdrawn by a later run")


def may_begin(records: Records, uuid: str, order: str | None) -> bool:
    """Return True if an order may begin. Return False if it was withdrawn, or if the list cannot be
    read.
    """
    try:
        return order not in read_withdrawn(records, uuid)
    except LibvirtProblem:
        return False


def withdraw(records: Records, uuid: str, orders: Iterable[str]) -> None:
    """Withdraw orders, so that they do not begin. The caller has the lock of the domain."""
    withdrawn = read_withdrawn(records, uuid)
    new = [order for order in orders if order not in withdrawn]
    if not new:
        return
    records.prepare()
    path = _path(records, uuid)
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8") as handle:
        json.dump((withdrawn + new)[-REMEMBERED:], handle)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(part, path)


def read_withdrawn(records: Records, uuid: str) -> list[str]:
    """Return the withdrawn orders of a domain, the oldest first.

    :raises LibvirtProblem: the list cannot be read, so no order may begin.
    """
    path = _path(records, uuid)
    try:
        with open(path, encoding="utf-8") as handle:
            orders = json.load(handle)
        if not isinstance(orders, list):
            raise ValueError
        return [str(order) for order in orders]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is damaged"
        raise LibvirtProblem(
            f"On {host_name()} the list of withdrawn orders {path} cannot be read ({why}), so"
            " nothing is begun with this domain. See to its file system. Once no run works on the"
            " domain any more, remove the file."
        ) from exc


def _path(records: Records, uuid: str) -> str:
    return os.path.join(records.folder, f"{uuid}.withdrawn")

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of restarts that an evacuation left open, when their host answers again.

The destinations decide by the domains that they show. A restart is not a move: its source has no
record of it, and its order may still begin at the destination.
"""

from __future__ import annotations

from .._records.plans import StayingInstance
from .._store.instances import evacuations
from . import asking
from .dead_host import DeadHost
from .evacuation_request import EvacuationRequest
from .evacuation_settling import EvacuationSettling
from .ports import Ports


def settle(
    ports: Ports,
    host: str,
    patience: int = EvacuationRequest.start_timeout,
    limit: int = EvacuationRequest.call_timeout,
) -> tuple[list[str], list[StayingInstance]]:
    """Withdraw the orders of open restarts at their destinations, and close decided restarts.

    The caller has the lease of the host.

    :param patience: seconds to wait for a start that is under way.
    :param limit: seconds that a hypervisor may take to answer.
    :returns: (sentences on the closed restarts, the instances with an uncertain place).
    """
    with ports.store.read() as connection:
        places = evacuations.open_destinations(connection, host)
        begun = evacuations.begun_destinations(connection, host) if places else []
    if not places:
        return [], []
    dead = DeadHost(
        ports.store,
        host,
        (),
        lambda connection: ports.leasing.renew(connection, host),
        clock=ports.clock,
    )
    settling, sentences = EvacuationSettling(dead), []
    for place in begun:
        sentences += settling.withdraw(place, ports.hosts.hand(place, limit + patience), patience)
    dead.read = {place for place in places if asking.is_read(ports.hosts, place, limit)}
    more, staying = settling.settle_returned()
    sentences += more
    if sentences:
        # A discovery removes the stale domains on the host.
        ports.hosts.discover(host, limit)
    return sentences, staying

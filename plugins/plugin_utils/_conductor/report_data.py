# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of a report, from the store.

The store, the planner and the report do not know each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._placement import quotas
from .._planner.capacity import plan_capacities
from .._records.overview import Overview
from .._report.growth import growth_lines
from .._report.host_loss import host_losses, sizes
from .._report.parts import ReportView, WantedSize
from .._report.plan import plan_view
from .._report.projects import projects_view
from .._report.view import view
from .._scheduler.errors import RequestError
from .._scheduler.policy import Policy
from .._scheduler.request_spec import RequestSpec
from .._store.engine import Connection
from .._store.instances import evacuations, instances
from .._store.reports import overview
from .._tracker import pools_listing
from . import capacity, scheduling
from .own_machines import OwnMachine


def read(
    connection: Connection,
    policy: Policy,
    now: float,
    service_down_time: float = 0,
    plans: Iterable[Mapping[str, Any]] = (),
    own: Iterable[OwnMachine] = (),
) -> ReportView:
    """Collect the data of the fleet at one moment, with capacity and plans.

    :param policy: the policy that would place more instances.
    :param plans: as the lookups of plans return them.
    :param own: the controller and the server of the store, if they are in this fleet.
    :raises DroverError: a mapping is not a plan.
    """
    listed = instances.listing(connection)
    sizes_asked = sizes(overview.flavors(connection), listed)
    specs = _specs(connection, sizes_asked, policy)
    columns, placed = scheduling.read_for_losses(connection, specs, policy, now, service_down_time)
    addresses = instances.addresses(connection)
    for each in listed:
        each["addresses"] = addresses.get(each["uuid"], [])
    losses = host_losses(
        sizes_asked,
        plan_capacities(columns, specs, policy, placed),
        evacuations.with_local_disks(connection),
    )
    seen: Overview = {
        **overview.read(connection, now, service_down_time, columns),
        "instances": listed,
        "own": [
            {"what": each.what, "host": each.host, "uuid": each.uuid, "name": each.name}
            for each in own
        ],
        "further_pools": pools_listing.of_fleet(connection),
    }
    fleet_view = view(seen, losses["fatal"])
    return {
        **fleet_view,
        "capacity": losses,
        "growth": growth_lines(capacity.read_growth(connection)),
        "projects": projects_view(quotas.listing(connection)),
        "plans": [plan_view(plan, fleet_view["hosts"], listed) for plan in plans],
    }


def _specs(
    connection: Connection, wanted: Sequence[WantedSize], policy: Policy
) -> list[RequestSpec]:
    """Return the requests to count for sizes.

    If a flavor needs an image to complete it, use only its size.
    """
    requests = [_request(each) for each in wanted]
    try:
        return scheduling.read_specs(connection, requests, policy)
    except RequestError:
        specs = []
        for size, request in zip(wanted, requests):
            try:
                specs += scheduling.read_specs(connection, [request], policy)
            except RequestError:
                specs += scheduling.read_specs(
                    connection,
                    [_size(size)],
                    policy,
                )
        return specs


def _request(size: WantedSize) -> dict[str, object]:
    if "flavor" in size:
        return {"name": size["name"], "flavor": size["flavor"]}
    return _size(size)


def _size(size: WantedSize) -> dict[str, object]:
    return {
        "name": size["name"],
        "vcpus": size["vcpus"],
        "memory_mb": size["memory_mb"],
        "disk_gb": size["disk_gb"],
    }

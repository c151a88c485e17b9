# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of further instances that fit into the fleet, from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._common.errors import DroverError, natural
from .._planner import growth
from .._planner.capacity import plan_capacities
from .._records.history import UseForecast
from .._records.hosts import FleetColumns
from .._records.instances import InstanceAmounts
from .._scheduler.policy import Policy
from .._scheduler.request_spec import RequestSpec
from .._store.database import clock
from .._store.engine import Connection
from .._store.instances import flavors
from .._store.reports import history
from . import scheduling


def count(
    connection: Connection,
    wanted: Sequence[Any],
    policy: Policy,
    loss: bool,
    service_down_time: int = 0,
) -> list[dict[str, object]]:
    """Count the further instances of each flavor or request that fit.

    :param wanted: names of flavors, and requests as the lookup schedule takes them, with or without
        a name.
    :param loss: count also the instances that fit after the loss of the worst host.
    :param service_down_time: seconds.
    :returns: for each flavor or request a CapacityPlan with its name.
    :raises DroverError: an unknown flavor, or a request that is malformed or for several instances.
    """
    specs = read_specs(connection, wanted, policy)
    now, instances = clock.now(connection), None
    if loss:
        columns, instances = scheduling.read_for_losses(
            connection, specs, policy, now, service_down_time
        )
    else:
        columns = scheduling.read_all_columns(
            connection, now, service_down_time, scheduling.columns_for_specs(specs, policy)
        )
    return named_plans(columns, specs, policy, instances)


def read_specs(connection: Connection, wanted: Sequence[Any], policy: Policy) -> list[RequestSpec]:
    """Make the spec of each flavor or request, see count().

    :raises DroverError: an unknown flavor, or a request that is malformed or for several instances.
    """
    scheduling.refuse_unknown(wanted)
    specs = scheduling.read_specs(connection, [_request(each) for each in wanted], policy)
    if len(specs) != len(wanted):
        raise DroverError(
            "num_instances of a request for capacity must be 1, because the answer is how many fit."
        )
    return specs


def named_plans(
    columns: FleetColumns,
    specs: Sequence[RequestSpec],
    policy: Policy,
    instances: Sequence[InstanceAmounts] | None,
) -> list[dict[str, object]]:
    """Return for each spec a CapacityPlan with its name, see plan_capacities()."""
    return [
        {"name": spec.name, **plan}
        for spec, plan in zip(specs, plan_capacities(columns, specs, policy, instances))
    ]


def read_growth(connection: Connection) -> list[UseForecast]:
    """Return when resource classes of zones are full, from the last recorded days."""
    today = int(clock.now(connection) // history.DAY)
    return growth.find(history.read(connection, today - growth.DAYS), today)


def all_flavors(connection: Connection) -> list[str]:
    """Return the names of all flavors, the smallest first.

    :raises DroverError: there is none.
    """
    names = flavors_by_size(connection)
    if not names:
        raise DroverError(
            "The store has no flavor to count. Make one with drover.compute.flavor, or give a size,"
            " such as drover_vcpus and drover_memory_mb (vcpus and memory_mb of the module)."
        )
    return names


def flavors_by_size(connection: Connection) -> list[str]:
    """Return the names of all flavors, the smallest first."""
    by_name = flavors.read_all(connection)
    return sorted(
        by_name,
        key=lambda name: (
            by_name[name]["memory_mb"],
            by_name[name]["vcpus"],
            by_name[name]["disk_gb"],
            natural(name),
        ),
    )


def _request(wanted: Any) -> dict[str, object]:
    """Return a request. It takes a request, or the name of a flavor."""
    if isinstance(wanted, dict):
        flavor = wanted.get("flavor")
        return {"name": flavor if isinstance(flavor, str) else "one more", **wanted}
    return {"name": wanted, "flavor": wanted}

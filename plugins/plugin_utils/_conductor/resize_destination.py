# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The destination and the new size of an instance in a resize or a cold migration."""

from __future__ import annotations

from typing import Any

from .._common.errors import DroverError
from .._common.validation import which_name
from .._placement import allocations
from .._records.claims import Resources, Selection
from .._records.instances import NamedInstance
from .._records.orders import NewSize, Size, Sizes
from .._scheduler.errors import NoValidHost
from .._scheduler.policy import Policy
from .._store.engine import Connection
from .._store.hosts import numa
from .._store.instances import flavors
from .scheduling import decide, read_specs

# The resource classes that a flavor or a size sets; the instance keeps all its others.
SIZED = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")


def request(connection: Connection, instance: NamedInstance) -> dict[str, object]:
    """Return the scheduler's request for an instance in its present state."""
    columns = {
        "name": instance["name"],
        "uuid": instance["uuid"],
        "vcpus": instance["vcpus"],
        "memory_mb": instance["memory_mb"],
        "disk_gb": instance["disk_gb"],
        "availability_zone": instance["availability_zone"],
        "server_group": instance["server_group"],
        "project": instance["project"],
        "user": instance["user"],
    }
    fields: dict[str, object] = {key: value for key, value in columns.items() if value is not None}
    if instance["flavor"] and flavors.find(connection, instance["flavor"]) is not None:
        fields["flavor"] = instance["flavor"]
    if instance["extra_specs"]:
        fields["extra_specs"] = instance["extra_specs"]
    image = {
        "name": instance["image_name"],
        "id": instance["image_id"],
        "disk_format": instance["image_format"],
    }
    if instance["image"] or any(image.values()):
        fields["image"] = {**image, "properties": instance["image"]}
    return fields


def find_destination(
    connection: Connection,
    instance: NamedInstance,
    new: NewSize | None,
    host: str | None,
    policy: Policy,
    now: float,
    service_down_time: int = 0,
) -> tuple[Selection, Size]:
    """Find the new size and the destination of an instance.

    The destination is its own host if possible, else the best other host.

    Both sizes stay allocated until the resize is confirmed. Its own host must have room for both.

    :param new: None for a cold migration, which keeps the size and takes another host. An instance
        that gets sizes keeps its flavor, because the extra specs of the flavor still restrict its
        hosts.
    :param host: the destination; None to let the scheduler choose one.
    :returns: a selection with all resources that the instance will hold, and the size.
    :raises DroverError: no such flavor, a smaller disk, or no host has room.
    """
    fields, size = request(connection, instance), wanted_size(connection, instance, new)
    of_instance = dict(fields)
    if new is None:
        fields["ignore_hosts"] = [instance["host"]]
    elif new.flavor is not None:
        for key in ("vcpus", "memory_mb"):
            fields.pop(key)
        fields.update(flavor=new.flavor, disk_gb=size["disk_gb"])
    else:
        fields.update(new.sizes)
    tries = [host] if host else ([instance["host"]] if new is not None else []) + [None]
    for number, where in enumerate(tries, 1):
        wanted = {**fields, "host": where} if where else fields
        try:
            (selection,) = decide(connection, [wanted], policy, now, service_down_time)
            break
        except NoValidHost:
            if number == len(tries):
                raise
    if not selection.get("host_request"):
        _refuse_tied(connection, instance, of_instance, policy)
    amounts_kept: Resources = {}
    for amounts in (
        allocations.read(connection, [instance["uuid"]]).get(instance["uuid"], {}).values()
    ):
        for each, amount in amounts.items():
            if each not in SIZED:
                amounts_kept[each] = amounts_kept.get(each, 0) + amount
    return {**selection, "resources": {**amounts_kept, **selection["resources"]}}, size


def _refuse_tied(
    connection: Connection, instance: NamedInstance, asked: dict[str, Any], policy: Policy
) -> None:
    """Refuse an instance that a person pinned by hand.

    No record has its needs on another host or with another size.
    """
    cells = any(
        uuid == instance["uuid"]
        for dummy, uuid in numa.of_consumers(connection, [instance["uuid"]])
    )
    if cells and read_specs(connection, [asked], policy)[0].host_request.topology is None:
        raise DroverError(
            f"Instance {instance['name']} has CPUs or NUMA cells of {instance['host']} for itself,"
            " and neither its flavor nor its extra specs ask for them: it would lose them. Nothing"
            " was done. Move it live, or resize it to a flavor with hw:cpu_policy."
        )


def size_of(instance: NamedInstance) -> Size:
    return {
        "flavor": instance["flavor"],
        "vcpus": instance["vcpus"],
        "memory_mb": instance["memory_mb"],
        "disk_gb": instance["disk_gb"],
    }


def wanted_size(connection: Connection, instance: NamedInstance, new: NewSize | None) -> Size:
    """Return the size that an instance gets.

    :param new: None for a cold migration, which keeps the size.
    :raises DroverError: no such flavor, or a smaller disk.
    """
    if new is None:
        return size_of(instance)
    if new.flavor is None:
        return _of_sizes(instance, new.sizes)
    name = new.flavor
    flavor = flavors.find(connection, name)
    if flavor is None:
        near = which_name(name, flavors.read_all(connection))
        raise DroverError(
            f"Flavor {name} is not in the store{near}, so {instance['name']} is not resized. Make"
            " it with drover.compute.flavor, or correct the name."
        )
    # A flavor without a disk does not change the disks.
    disk_gb = flavor["disk_gb"] or instance["disk_gb"]
    if disk_gb < instance["disk_gb"]:
        raise DroverError(
            f"Flavor {name} has a disk of {disk_gb} GiB, and {instance['name']} has"
            f" {instance['disk_gb']} GiB: a disk is never made smaller. Nothing was done; choose a"
            " flavor with a larger disk, or one without."
        )
    return {
        "flavor": name,
        "vcpus": flavor["vcpus"],
        "memory_mb": flavor["memory_mb"],
        "disk_gb": disk_gb,
    }


def _of_sizes(instance: NamedInstance, sizes: Sizes) -> Size:
    disk_gb = sizes.get("disk_gb", instance["disk_gb"])
    if disk_gb < instance["disk_gb"]:
        raise DroverError(
            f"A disk of {disk_gb} GiB was requested, and {instance['name']} has"
            f" {instance['disk_gb']} GiB: a disk is never made smaller. Nothing was done; ask for a"
            " larger disk, or for none to leave the disks as they are."
        )
    size = size_of(instance)
    return {
        "flavor": size["flavor"],
        "vcpus": sizes.get("vcpus", size["vcpus"]),
        "memory_mb": sizes.get("memory_mb", size["memory_mb"]),
        "disk_gb": disk_gb,
    }

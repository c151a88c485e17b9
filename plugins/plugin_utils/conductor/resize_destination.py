# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where an instance goes that is resized or migrated, and the size it gets there."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.conductor.scheduling import decide
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.placement import allocations
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import NoValidHost
from ansible_collections.drover.compute.plugins.plugin_utils.store import flavors

# What a flavor sets; all else that an instance holds stays with it.
SIZED = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")


def request(connection, instance):
    """What the scheduler is asked for an instance as it is (a dict of store.instance_lookup.find())."""
    keys = ("name", "uuid", "vcpus", "memory_mb", "disk_gb", "availability_zone", "server_group", "project", "user")
    found = {key: instance[key] for key in keys if instance[key] is not None}
    if instance["flavor"] and flavors.find(connection, instance["flavor"]) is not None:
        found["flavor"] = instance["flavor"]
    if instance["image"]:
        found["image"] = {"properties": instance["image"]}
    return found


def find_destination(connection, instance, name, host, policy, now, service_down_time=0):
    """Find the new size of an instance, and where it fits: its own host if it does, or else the best other one.

    Both sizes are held until the resize is confirmed, so there must be room for both where it stays.

    :param instance: a dict of store.instance_lookup.find().
    :param name: the flavor; None for a cold migration, which keeps the size and takes another host.
    :param host: the host to take, None for the one that the scheduler picks.
    :returns: (selection, size): a selection as scheduler.drivers.schedule() returns it, whose resources are all
        that the instance shall hold, and a dict flavor, vcpus, memory_mb, disk_gb.
    :raises DroverError: no such flavor, a smaller disk, or no host has room.
    """
    asked, size = request(connection, instance), _size(connection, instance, name)
    if name is None:
        asked["ignore_hosts"] = [instance["host"]]
    else:
        for key in ("vcpus", "memory_mb", "disk_gb"):
            asked.pop(key)
        asked.update(flavor=name, disk_gb=size["disk_gb"])
    tries = [host] if host else ([instance["host"]] if name is not None else []) + [None]
    for number, where in enumerate(tries, 1):
        wanted = {**asked, "host": where} if where else asked
        try:
            (selection,) = decide(connection, [wanted], policy, now, service_down_time)
            break
        except NoValidHost:
            if number == len(tries):
                raise
    held = {}
    for amounts in allocations.read(connection, [instance["uuid"]]).get(instance["uuid"], {}).values():
        for each, amount in amounts.items():
            if each not in SIZED:
                held[each] = held.get(each, 0) + amount
    return {**selection, "resources": {**held, **selection["resources"]}}, size


def _size(connection, instance, name):
    if name is None:
        return {key: instance[key] for key in ("flavor", "vcpus", "memory_mb", "disk_gb")}
    found = flavors.find(connection, name)
    if found is None:
        raise DroverError(
            f"Flavor {name} is not in the store, so {instance['name']} is not resized. Make it with drover.compute.flavor, or "
            "correct the name."
        )
    # A flavor without a disk leaves the disks as they are.
    disk_gb = found["disk_gb"] or instance["disk_gb"]
    if disk_gb < instance["disk_gb"]:
        raise DroverError(
            f"Flavor {name} has a disk of {disk_gb} GiB, and {instance['name']} has {instance['disk_gb']} GiB: a disk is never made "
            "smaller. Nothing was done; choose a flavor with a larger disk, or one without."
        )
    return {"flavor": name, "vcpus": found["vcpus"], "memory_mb": found["memory_mb"], "disk_gb": disk_gb}

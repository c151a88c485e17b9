# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of a definition for the scheduler, and its sizes, filled in from its flavor."""

from __future__ import annotations

from collections.abc import Mapping

from .._common import resource_classes
from .._common.errors import DroverError
from .._records.flavors import FlavorFields
from .._scheduler import request_fields
from . import hardware_fields
from .definition import DefinedDisk, Definition

#: The longest suffix of a group of resources in Placement.
_LONGEST_SUFFIX = 64

#: The keys of a definition that are passed to the scheduler unchanged, by the names of the lookup
#: schedule.
KEYS = (
    "name",
    "uuid",
    "vcpus",
    "memory_mb",
    "disk_gb",
    "flavor",
    "extra_specs",
    "resources",
    "traits",
    "image",
    "availability_zone",
    "hints",
    "requested_destination",
    "ignore_hosts",
    "force_hosts",
    "force_nodes",
    "scheduler",
    "project",
    "user",
)


def names_flavor(definition: Definition) -> bool:
    """Return True if a definition names a flavor, which the file or the store describes."""
    return isinstance(definition.get("flavor"), str) and bool(definition["flavor"])


def complete(definition: Definition, flavor: FlavorFields | None, place: str) -> Definition:
    """Fill in the sizes of a definition.

    :param flavor: the flavor that it names, with vcpus, memory_mb and disk_gb; None if it names
        none.
    :param place: the beginning of a refusal.
    :returns: the definition with vcpus, memory_mb (MiB), disks, each with size_gb (GiB), and
        disk_gb, the sum of the disks in no pool.
    :raises DroverError: a size is missing, or given twice.
    """
    of_flavor: FlavorFields = flavor or (
        definition["flavor"] if isinstance(definition.get("flavor"), Mapping) else {}
    )
    memory_mb = definition.get("memory_mb") or of_flavor.get("memory_mb")
    if memory_mb is None:
        raise DroverError(f"{place}: memory_mb is missing. Give a size such as 4GiB, or a flavor.")
    disks = _disks(definition, definition.get("disk_gb"), of_flavor.get("disk_gb"), place)
    return {
        **definition,
        "vcpus": definition.get("vcpus") or of_flavor.get("vcpus") or 1,
        "memory_mb": memory_mb,
        "disks": disks,
        "disk_gb": sum(disk["size_gb"] for disk in disks if not disk.get("pool")),
    }


def _disks(
    definition: Definition, own: int | None, of_flavor: int | None, place: str
) -> list[DefinedDisk]:
    """Return the disks with their sizes; the first one may have the size of the definition or of
    the flavor.
    """
    first = own if own is not None else of_flavor
    disks = definition.get("disks")
    if disks is None:
        return [{"size_gb": first}] if first else []
    if own and not (disks and disks[0].get("size_gb") is None and not disks[0].get("source")):
        raise DroverError(
            f"{place}: disk_gb is the size of the first disk, and disks says it too, or has no"
            " disk. Take one of them out."
        )
    sized: list[DefinedDisk] = []
    for number, disk in enumerate(disks, 1):
        if disk.get("source"):
            # On the network it takes nothing of a host.
            sized.append({**disk, "size_gb": disk.get("size_gb") or 0})
            continue
        size_gb = disk.get("size_gb") or (first if number == 1 else None)
        if not size_gb:
            also = ", or a flavor with a disk" if number == 1 else ""
            raise DroverError(
                f"{place}, disk {number}: size_gb is missing. Give a size such as 20 or 2T{also}."
            )
        sized.append({**disk, "size_gb": size_gb})
    return sized


def request(definition: Definition) -> dict[str, object]:
    """Return the request of a definition with its sizes, as the lookup schedule takes it, without
    its server group.
    """
    fields = {key: definition.get(key) for key in KEYS if definition.get(key) is not None}
    ports = [
        {key: network.get(key) for key in request_fields.PORT_KEYS}
        for network in definition.get("networks") or ()
        if network.get("vnic")
    ]
    if ports:
        fields["networks"] = ports
    specs = {
        **(definition.get("extra_specs") or {}),
        **_hardware_specs(definition),
        **_pool_specs(definition),
    }
    return {**fields, "extra_specs": specs} if specs else fields


def _pool_specs(definition: Definition) -> dict[str, str]:
    """Return extra specs for the storage pools of the disks of a definition; each pool has its own
    class (N1.3).

    :raises DroverError: an extra spec of the definition has the class of a pool already.
    """
    sizes: dict[str, int] = {}
    traits: dict[str, set[str]] = {}
    for disk in definition.get("disks") or ():
        if disk.get("pool"):
            name = resource_classes.pool_class(disk["pool"])
            sizes[name] = sizes.get(name, 0) + disk["size_gb"]
            traits.setdefault(name, set()).update(disk.get("traits") or ())
    specs = {}
    for name, size in sorted(sizes.items()):
        # A resource that only one provider can give needs no group.
        suffix = f"_{name}"[:_LONGEST_SUFFIX] if traits[name] else ""
        specs[f"resources{suffix}:{name}"] = str(size)
        specs.update({f"trait{suffix}:{trait}": "required" for trait in sorted(traits[name])})
    for key in definition.get("extra_specs") or {}:
        if key in specs:
            raise DroverError(
                f"Instance {definition['name']}: its disks ask for room or traits of their storage"
                f" pools, and the extra spec {key} too. Take it out."
            )
    return specs


def _hardware_specs(definition: Definition) -> dict[str, str]:
    """Return Nova's extra specs for the TPM and the Secure Boot of a definition, which ask for
    hosts with their traits (N1.3).

    They are recorded with the instance, so later moves ask for them again. As in its domain, these
    keys override all others.
    """
    specs = {}
    tpm = definition.get("tpm")
    if tpm:
        specs = {
            "hw:tpm_version": tpm["version"],
            "hw:tpm_model": tpm.get("model") or hardware_fields.TPM_MODELS[0],
        }
    if definition.get("firmware"):
        specs["os:secure_boot"] = (
            "required" if definition["firmware"] == hardware_fields.SECURE_BOOT else "disabled"
        )
    return specs

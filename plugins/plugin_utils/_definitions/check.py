# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instance definition may hold, checked before anything is decided or built."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils import _labels as labels
from ansible_collections.drover.compute.plugins.plugin_utils import _sizes as sizes
from ansible_collections.drover.compute.plugins.plugin_utils import _validation as validation
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import disk_files, guest, hardware, hardware_fields
from ansible_collections.drover.compute.plugins.plugin_utils._definitions.fields import Table, read
from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError, natural, some
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import policy as move_policy
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups as placement_groups

#: The tables of hardware_fields check these.
_ANY = (object, bool)
KEYS = {
    "name": str,
    "uuid": str,
    "host": str,
    "vcpus": int,
    # Of a size sizes.read() says what is wrong.
    "memory_mb": object,
    "disks": list,
    "networks": list,
    "server_group": str,
    "availability_zone": str,
    "hints": dict,
    "project": str,
    "user": str,
    "cloud_init": dict,
    "autostart": bool,
    "policy": dict,
    "labels": dict,
    "domain_type": str,
    "state": str,
    **dict.fromkeys(hardware_fields.INSTANCE_FIELDS, _ANY),
}
STATES = ("present", "absent")
DISK_KEYS = {"size_gb": object, "image": str, "image_format": str, "path": str, **dict.fromkeys(hardware_fields.DISK_FIELDS, _ANY)}
NETWORK_KEYS = {"bridge": str, "network": str, **dict.fromkeys(hardware_fields.NETWORK_FIELDS, _ANY)}
GROUP_KEYS = {"name": str, "policy": str, "max_server_per_host": int, "max_moving": int}
CLOUD_INIT_KEYS = {"user_data": (str, dict), "meta_data": (str, dict), "network_config": (str, dict)}
_WORDS = {str: "a text", int: "a whole number", list: "a list", dict: "a mapping", bool: "true or false", object: "a size such as 4GiB"}


def instances(items: Any, where: Callable[[Any], str]) -> list[dict[str, Any]]:
    """Check a list of instance definitions.

    :param where: a function item -> text that says where it stands.
    :returns: a list of plain dicts with defaults filled in and disk_gb summed up.
    :raises DroverError: the first thing that is wrong, in words.
    """
    if not isinstance(items, list):
        raise DroverError(f"{where(items)}: instances must be a list of mappings, each with a name.")
    checked = []
    names: dict[str, str] = {}
    uuids: dict[str, str] = {}
    paths: dict[str, str] = {}
    for item in items:
        place = where(item)
        if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"].strip():
            raise DroverError(f"{place}: each instance is a mapping with a name that is not empty.")
        place = f"{place}: instance {item['name']}"
        _unique(names, item["name"], place, "name")
        _keys(item, KEYS, place)
        item = {**item, **_read(hardware_fields.INSTANCE_FIELDS, item, place)}
        _name(item["name"], place)
        _at_least(item, "vcpus", 1, place, default=1)
        memory_mb = sizes.read(f"{place}: memory_mb", item.get("memory_mb"), sizes.MIB, 1)
        if item.get("state") not in (None, *STATES):
            raise DroverError(f"{place}: state must be {' or '.join(STATES)}, not {item['state']!r}.")
        if item.get("uuid"):
            validation.check_uuid(place, item["uuid"])
            _unique(uuids, item["uuid"], place, "uuid")
        disks = [_disk(disk, f"{place}, disk {number}") for number, disk in enumerate(item.get("disks") or [], 1)]
        # What is absent may have left its disk to another.
        for number, disk in enumerate(disks if item.get("state") != "absent" else [], 1):
            if disk.get("path"):
                _unique(paths, disk_files.normal(disk["path"]), f"{place}, disk {number}", "path")
        networks = [_network(network, f"{place}, network {number}") for number, network in enumerate(item.get("networks") or [], 1)]
        _keys(item.get("cloud_init") or {}, CLOUD_INIT_KEYS, f"{place}, cloud_init")
        guest.checked_type(item.get("domain_type"), place)
        hardware.refuse({**item, "disks": disks, "networks": networks}, None, None, place)
        checked.append(
            {
                **item,
                "vcpus": item.get("vcpus", 1),
                "memory_mb": memory_mb,
                "disks": disks,
                "networks": networks,
                "policy": move_policy.checked(item.get("policy") or {}, place),
                "labels": labels.checked(item.get("labels"), place),
                "disk_gb": sum(disk["size_gb"] for disk in disks),
            }
        )
    return checked


def server_groups(items: Any, where: Callable[[Any], str]) -> list[dict[str, Any]]:
    """Check a list of server groups: name, policy, max_server_per_host, max_moving."""
    if not isinstance(items, list):
        raise DroverError(f"{where(items)}: server_groups must be a list of mappings with name and policy.")
    names: dict[str, str] = {}
    for item in items:
        place = where(item)
        if not isinstance(item, dict) or not item.get("name") or not item.get("policy"):
            raise DroverError(f"{place}: each server group is a mapping with name and policy.")
        place = f"{place}: server group {item['name']}"
        _keys(item, GROUP_KEYS, place)
        _unique(names, item["name"], place, "name")
        if item["policy"] not in placement_groups.POLICIES:
            raise DroverError(f"{place}: policy must be {' or '.join(placement_groups.POLICIES)}, not {item['policy']!r}.")
        if item.get("max_server_per_host") is not None and item["policy"] != placement_groups.ANTI_AFFINITY:
            raise DroverError(f"{place}: max_server_per_host goes with the policy anti-affinity only.")
        if item.get("max_server_per_host") is not None:
            _at_least(item, "max_server_per_host", 1, place)
        if item.get("max_moving") is not None:
            _at_least(item, "max_moving", 1, place)
    return [dict(item) for item in items]


def known_groups(
    instances: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], known: Collection[str], places: Mapping[str, str]
) -> None:
    """Refuse an unknown server group of an instance that is not built yet.

    :param instances: each with what identity.resolve() made of it.
    :param known: the names of the server groups of the file and of the store.
    :param places: where each instance stands, by name.
    """
    for item, resolved in instances:
        group = item.get("server_group")
        if group and group not in known and resolved["state"] in ("new", "building"):
            has = f"There are: {some(sorted(known, key=natural))}" if known else "There is none"
            raise DroverError(
                f"{places[item['name']]}: instance {item['name']}: server group {group} is neither under server_groups nor in the "
                f"store{validation.which_name(group, known)}. {has}. Correct the name, or add the group with name and policy to "
                "server_groups. Nothing was placed."
            )


def _keys(item: Any, known: Mapping[str, Any], place: str) -> None:
    if not isinstance(item, dict):
        raise DroverError(f"{place}: must be a mapping.")
    validation.check_keys(place, item, sorted(known))
    for key, value in item.items():
        if value is None:
            continue
        wanted = known[key]
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            words = " or ".join(_WORDS[kind] for kind in kinds)
            raise DroverError(f"{place}: {key} must be {words}, not {value!r}.")


def _name(name: str, place: str) -> None:
    # libvirt refuses / and line breaks; other control characters, halves of surrogate pairs and the
    # last two characters of a plane cannot stand in XML at all.
    odd = any(unicodedata.category(character) in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE for character in name)
    if "/" in name or name in (".", "..") or odd or len(name) > 200:
        raise DroverError(f"{place}: a name has at most 200 characters, no / and no control characters, and is not . or ..")


def _at_least(item: Mapping[str, Any], key: str, least: int, place: str, default: int | None = None) -> None:
    validation.check_whole(f"{place}: {key}", item.get(key, default), least)


def _unique(seen: dict[Any, str], value: Any, place: str, what: str) -> None:
    if value in seen:
        raise DroverError(f"{place}: the {what} {value} stands twice; first at {seen[value]}. Nothing was placed.")
    seen[value] = place


def _disk(disk: Mapping[str, Any], place: str) -> dict[str, Any]:
    _keys(disk, DISK_KEYS, place)
    size_gb = sizes.read(f"{place}: size_gb", disk.get("size_gb"), sizes.GIB, 1)
    if disk.get("path") and not str(disk["path"]).startswith("/"):
        raise DroverError(f"{place}: path must be absolute, not {disk['path']!r}.")
    return hardware_fields.disk({**disk, **_read(hardware_fields.DISK_FIELDS, disk, place), "size_gb": size_gb}, place)


def _network(network: Mapping[str, Any], place: str) -> dict[str, Any]:
    _keys(network, NETWORK_KEYS, place)
    if bool(network.get("bridge")) == bool(network.get("network")):
        raise DroverError(f"{place}: name either a bridge or a libvirt network.")
    return hardware_fields.network({**network, **_read(hardware_fields.NETWORK_FIELDS, network, place)}, place)


def _read(table: Table, item: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Check the keys of an item that a table has."""
    return read(table, {key: value for key, value in item.items() if key in table}, place)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definitions of a file, checked before anything is decided or built. tables.py has the keys;
here are the rules between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .._common import spec_names, validation
from .._common.errors import DroverError, natural, some
from .._migrations import policy as move_policy
from .._placement import server_groups as placement_groups
from .._records.flavors import FlavorFields, ImageFields
from .._scheduler import request_fields
from . import disk_files, disk_sources, fields, hardware, hardware_fields, requests, tables
from .definition import DefinedDisk, Definition, GroupFields, Resolved

#: A function that returns the place of an item of a section.
Where = Callable[[Any], str]

#: The word for one item of a section.
WORDS = {
    "instances": "instance",
    "server_groups": "server group",
    "flavors": "flavor",
    "images": "image",
    "aggregates": "aggregate",
}
#: Keys that only one instance can have, so not one of several of a count.
OF_ONE = ("uuid", "host")


def instances(items: Any, where: Where) -> list[Definition]:
    """Check a list of instance definitions.

    :param where: a function item -> text about the place of the item.
    :returns: a list of plain dicts, one for each instance, so several of a definition with
        ``count``. With the sizes of requests.complete(), unless their flavor is only named.
    :raises DroverError: the first thing that is wrong, in words.
    """
    checked: list[Definition] = []
    names: dict[str, str] = {}
    uuids: dict[str, str] = {}
    paths: dict[str, str] = {}
    macs: dict[str, str] = {}
    item: Definition
    for item, place in _read_items("instances", items, where):
        for name in names_of(item):
            _unique(names, name, place, "name")
        if item.get("uuid"):
            _unique(uuids, item["uuid"], place, "uuid")
        _one_of_many(item, place)
        spec_names.refuse_unknown_of_request(item, place)
        for number, disk in enumerate(item.get("disks", []), 1):
            hardware_fields.disk(disk, f"{place}, disk {number}")
            disk_sources.check(disk, f"{place}, disk {number}")
            if disk.get("source") and item.get("state") != "absent":
                _unique(paths, _source(disk), f"{place}, disk {number}", "source")
            # Another instance may have got a disk of an absent one.
            if disk.get("path") and item.get("state") != "absent":
                _unique(paths, disk_files.normal(disk["path"]), f"{place}, disk {number}", "path")
        for number, network in enumerate(item.get("networks", []), 1):
            hardware_fields.network(network, f"{place}, network {number}")
            if network.get("mac") and item.get("state") != "absent":
                plug = (
                    network.get("bridge")
                    or network.get("network")
                    or network.get("physical_network")
                )
                _unique(macs, f"{network['mac']} on {plug}", f"{place}, network {number}", "mac")
        hardware.refuse({"disks": [], "networks": [], **item}, None, None, place)
        if isinstance(item.get("server_group"), dict):
            _group(item["server_group"], f"{place}, server_group")
        item["policy"] = move_policy.checked(item.get("policy") or {}, place)
        item = {"labels": {}, "networks": [], **item}
        if not requests.names_flavor(item):
            item = requests.complete(item, None, place)
        for name in names_of(item):
            one: Definition = {**item, "name": name}
            one.pop("count", None)
            checked.append(one)
    return checked


def names_of(item: Definition) -> list[str]:
    """Return the names of the instances of a definition."""
    name, count = item["name"], item.get("count")
    return [name] if count is None else [f"{name}-{number}" for number in range(1, count + 1)]


def server_groups(items: Any, where: Where) -> list[GroupFields]:
    """Check a list of server groups."""
    return _section("server_groups", items, where, _group)


def flavors(items: Any, where: Where) -> list[FlavorFields]:
    """Check a list of flavors."""
    return _section("flavors", items, where, _flavor)


def images(items: Any, where: Where) -> list[ImageFields]:
    """Check a list of images."""
    return _section("images", items, where, _image)


def aggregates(items: Any, where: Where) -> list[Mapping[str, object]]:
    """Check a list of host aggregates."""
    return _section("aggregates", items, where, lambda item, place: None)


def _section(name: str, items: Any, where: Where, rule: Callable[[Any, str], None]) -> list[Any]:
    names: dict[str, str] = {}
    checked = []
    for item, place in _read_items(name, items, where):
        _unique(names, item["name"], place, "name")
        rule(item, place)
        checked.append(item)
    return checked


def _read_items(section: str, items: Any, where: Where) -> Iterator[tuple[Any, str]]:
    """Read the items of a section by its table; yield each with the beginning of a sentence about
    it.
    """
    word = WORDS[section]
    required = " and ".join(
        key for key, field in tables.SECTIONS[section].items() if field.required
    )
    if not isinstance(items, list):
        raise DroverError(
            f"{where(items)}: {section} must be a list of mappings, each with {required}."
        )
    for item in items:
        place = where(item)
        if not isinstance(item, dict):
            raise DroverError(
                f"{place}: each {word} is a mapping with a name, not {validation.shown(item)}."
            )
        if isinstance(item.get("name"), (list, dict)):
            raise DroverError(
                f"{place}: each {word} is a mapping with a name that is a text, not"
                f" {validation.shown(item['name'])}."
            )
        if item.get("name") is not None and not isinstance(item["name"], str):
            raise DroverError(f"{place}: {fields.no_text('name', item['name'])}")
        if not (item.get("name") or "").strip():
            raise DroverError(
                f"{place}: each {word} is a mapping with a name, and this one has none. Add one,"
                " such as name: web1."
            )
        # In a sentence nothing may break its line or turn its direction.
        name = item["name"] if item["name"].isprintable() else ascii(item["name"])
        place = f"{place}: {word} {name}"
        yield fields.read(tables.SECTIONS[section], item, place), place


def _one_of_many(item: Definition, place: str) -> None:
    """Refuse keys that several instances of one definition cannot share."""
    if item.get("count") is None:
        return
    keys = [key for key in OF_ONE if item.get(key)]
    keys += [
        f"the path of disk {number}"
        for number, disk in enumerate(item.get("disks", []), 1)
        if disk.get("path")
    ]
    keys += [
        f"the source of disk {number}"
        for number, disk in enumerate(item.get("disks", []), 1)
        if disk.get("source")
    ]
    keys += [
        f"the mac of network {number}"
        for number, network in enumerate(item.get("networks", []), 1)
        if network.get("mac")
    ]
    if keys and item["count"] > 1:
        raise DroverError(
            f"{place}: {keys[0]} can be of one instance only, and count is {item['count']}. Take"
            " one of them out."
        )


def _source(disk: DefinedDisk) -> str:
    """Return the text that identifies an existing disk, so that no two instances get it."""
    text = disk_sources.text_of(disk)
    return disk_files.normal(text) if text.startswith("/") else text


def _group(item: GroupFields, place: str) -> None:
    if (
        item.get("max_server_per_host") is not None
        and item["policy"] != placement_groups.ANTI_AFFINITY
    ):
        raise DroverError(f"{place}: max_server_per_host goes with the policy anti-affinity only.")


def extra_specs(given: Mapping[Any, Any], place: str) -> dict[str, str | None]:
    """Check extra specs and return them as texts; a value of None, which removes a key, stays."""
    spec_names.refuse_unknown({str(key): value for key, value in given.items()}, {}, place)
    read = request_fields.extra_specs(
        {"extra_specs": {key: value for key, value in given.items() if value is not None}}, place
    )
    return {**{str(key): None for key in given}, **read}


def _flavor(item: dict[str, Any], place: str) -> None:
    item["extra_specs"] = extra_specs(item.get("extra_specs") or {}, place)


def _image(item: ImageFields, place: str) -> None:
    source = item.get("source")
    if source and not source.startswith(("/", "http://", "https://")):
        raise DroverError(
            f"{place}: source must be a URL of http or https, or an absolute path, not"
            f" {validation.shown(source)}."
        )
    spec_names.refuse_unknown(
        {}, {str(key): value for key, value in (item.get("properties") or {}).items()}, place
    )
    request_fields.read_image({"name": item["name"], "properties": item.get("properties")}, place)


def with_flavors(
    items: Iterable[Definition],
    flavors: Mapping[str, FlavorFields],
    places: Mapping[str, str],
) -> list[Definition]:
    """Fill in the sizes of instances that name a flavor.

    :param items: the result of instances().
    :param flavors: by name, the flavors of the file and of the store.
    :param places: the place of each instance in the file, by name.
    :raises DroverError: there is no such flavor.
    """
    sized = []
    for item in items:
        if requests.names_flavor(item):
            if item["flavor"] not in flavors:
                raise _unknown(item, "flavors", item["flavor"], flavors, places)
            item = requests.complete(
                item, flavors[item["flavor"]], f"{places[item['name']]}: instance {item['name']}"
            )
        sized.append(item)
    return sized


def known_names(
    section: str,
    instances: Iterable[tuple[Definition, Resolved]],
    known: Collection[str],
    places: Mapping[str, str],
) -> None:
    """Refuse the name of a server group or an image without a description, if the instance is not
    built yet.

    :param section: server_groups or images.
    :param instances: each with its result of identity.resolve().
    :param known: the names in the file and in the store.
    :param places: the place of each instance in the file, by name.
    """
    for item, resolved in instances:
        name = item.get(section.removesuffix("s"))
        if (
            isinstance(name, str)
            and name
            and name not in known
            and resolved["state"] in ("new", "building")
        ):
            raise _unknown(item, section, name, known, places)


def known_pools(
    instances: Iterable[Resolved],
    known: Collection[str],
    places: Mapping[str, str],
    lacking: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Refuse a disk in a storage pool that no host has, of an instance that is not built yet.

    :param instances: the result of identity.resolve().
    :param known: the names of the pools in drover_storage_pools that a host has had running.
    :param lacking: for the names of other pools, the hosts that have them in their
        drover_storage_pools.
    """
    for item in instances:
        for number, disk in enumerate(item["disks"], 1):
            name = disk.get("pool")
            if not name or name in known or item["state"] not in ("new", "building"):
                continue
            place = f"{places[item['name']]}: instance {item['name']}, disk {number}"
            if lacking and name in lacking:
                raise DroverError(
                    f"{place}: drover_storage_pools of {some(sorted(lacking[name], key=natural))}"
                    f" names the storage pool {name}, and no discovery has found it running there."
                    " Define and start it on that host, such as with virsh pool-define-as and"
                    " virsh pool-start, and run drover.compute.discover. Nothing was placed."
                )
            has = f"Hosts have: {some(sorted(known, key=natural))}" if known else "No host has one"
            raise DroverError(
                f"{place}: no host has the storage pool {name} in its"
                f" drover_storage_pools{validation.which_name(name, known)}. {has}. Correct the"
                " name, or add the pool to drover_storage_pools of a host that has it and run"
                " drover.compute.discover. Nothing was placed."
            )


def _unknown(
    item: Definition,
    section: str,
    name: str,
    known: Collection[str],
    places: Mapping[str, str],
) -> DroverError:
    word, needs = (
        WORDS[section],
        " and ".join(key for key, field in tables.SECTIONS[section].items() if field.required),
    )
    has = f"There are: {some(sorted(known, key=natural))}" if known else "There is none"
    return DroverError(
        f"{places[item['name']]}: instance {item['name']}: {word} {name} is neither under {section}"
        f" nor in the store{validation.which_name(name, known)}. {has}. Correct the name, or add"
        f" the {word} with {needs} to {section}. Nothing was placed."
    )


def _unique(seen: dict[Any, str], value: Any, place: str, what: str) -> None:
    if value in seen:
        raise DroverError(
            f"{place}: the {what} {value} stands twice; first at {seen[value]}. Nothing was placed."
        )
    seen[value] = place

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of the store that definitions mean."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._common import labels, spec_names, validation
from .._common.errors import DroverError, natural, some
from .._migrations import policy as move_policy
from .._records.flavors import FlavorFields, ImageFields
from .._records.instances import ListedInstance
from .._scheduler.request_spec import RequestSpec
from .._store.instances import orders
from . import cloud_init, disk_files, guest, hardware, requests, tables
from .definition import DefinedDisk, Definition, GroupFields, Resolved

#: The state of a definition if the file has its place and the store has never seen it: it was
#: placed with another store, or this store was restored from a backup.
UNSEEN = "unseen"
#: Glance's names of formats that QEMU calls otherwise.
_QEMU_NAMES = {"vhd": "vpc"}


def resolve(
    definitions: Iterable[Definition],
    known: Iterable[ListedInstance],
    groups: Iterable[GroupFields] = (),
    flavors: Mapping[str, FlavorFields] | None = None,
    images: Mapping[str, ImageFields] | None = None,
    places: Mapping[str, str] | None = None,
) -> list[Resolved]:
    """Give each definition its uuid: its own uuid, the uuid of the instance of its name, or a new
    one.

    :param definitions: with their sizes, see requests.complete().
    :param known: the store's instances (dicts with uuid, name, host, state, definition).
    :param groups: the server groups of the file.
    :param flavors, images: by name, from the file and from the store.
    :param places: the place of each definition in the file, by name.
    :returns: the definitions with uuid, with state and host of the store (new and None for an
        unknown one, UNSEEN and the host of the definition if that was written back once), with
        request (the argument of the lookup schedule) and, for an instance that has its claim,
        selection. The flavor and the image are given by their names.
    :raises DroverError: a request is malformed, a name is on several instances, uuid and name
        belong to different ones, or a disk has the path of another instance's file.
    """
    # The budget of a group is for moves; the scheduler does not know it.
    named = {
        group["name"]: {key: value for key, value in group.items() if key != "max_moving"}
        for group in groups
    }
    by_uuid = {instance["uuid"]: instance for instance in known}
    by_name: dict[str, list[ListedInstance]] = {}
    made = {}
    for each in known:
        by_name.setdefault(each["name"], []).append(each)
        if each["definition"]:
            made[each["definition"]] = each
    resolved = []
    for definition in definitions:
        name = definition["name"]
        own = made.get(orders.definition_of(definition.get("project"), name))
        # An instance that a person made by hand under the same name is another one.
        same_name = [own] if own is not None else _of_project(by_name.get(name, []), definition)
        listed = by_uuid.get(definition.get("uuid") or "")
        if listed is not None and listed["name"] != name:
            raise DroverError(
                f"Instance {name}: its uuid {listed['uuid']} belongs to {listed['name']}. Correct"
                " the definition."
            )
        if listed is None and definition.get("uuid") and same_name:
            raise DroverError(
                f"Instance {name}: the store has an instance of this name with uuid"
                f" {same_name[0]['uuid']}, not {definition['uuid']}. Rename one, or take uuid out"
                " of the definition to mean that one."
            )
        if listed is None and len(same_name) > 1:
            there = ", ".join(f"{each['uuid']} on {each['host']}" for each in same_name)
            raise DroverError(
                f"Instance {name}: several instances have this name: {there}. Say which with uuid."
            )
        if listed is None and same_name:
            listed = same_name[0]
        at: Resolved
        if listed is not None:
            at = {
                "uuid": listed["uuid"],
                "host": listed["host"],
                "node": listed["node"],
                "state": listed["state"],
            }
        elif definition.get("host") and definition.get("uuid"):
            at = {
                "uuid": definition["uuid"],
                "host": definition["host"],
                "node": None,
                "state": UNSEEN,
            }
        else:
            at = {
                "uuid": definition.get("uuid") or str(uuid.uuid4()),
                "host": None,
                "node": None,
                "state": "new",
            }
        place = f"{places[name]}: instance {name}" if places else f"Instance {name}"
        is_built = at["state"] not in ("new", "building")
        instance: Resolved = {**_with_image(definition, images or {}, place, is_built), **at}
        request = _request(instance, named)
        spec = RequestSpec.from_request(request, flavors or {}, images or {}, place)
        if not is_built:
            # Check the extra specs and properties of flavors and images of the store too.
            spec_names.refuse_unknown(spec.extra_specs, spec.image_properties, place)
            hardware.refuse(instance, *_wishes(instance, spec), place, spec.vcpus)
            cloud_init.refuse(instance, place)
            instance["images"] = _images(instance["disks"], images or {}, place)
        resolved.append(_resolved(instance, request, spec))
    disk_files.refuse_borrowed(resolved)
    return resolved


def ignored_hosts(pairs: Iterable[tuple[Definition, Resolved]]) -> list[str]:
    """Return the sentence about new instances with a host in their definitions, which is not read;
    an empty list if there are none.

    :param pairs: (definition, its result of resolve()).
    """
    hosts = {
        item["name"]: item["host"]
        for item, found in pairs
        if found["state"] == "new" and item.get("host")
    }
    if not hosts:
        return []
    names = sorted(hosts, key=natural)
    first, others = names[0], names[1:]
    return [
        f"Instance {first} is new, and its definition has host: {hosts[first]}. That is where place"
        f" writes its host, and it is no wish: {first} goes where the scheduler puts it. To choose"
        f" the host: requested_destination: {{host: {hosts[first]}}}."
        + (f" The same for {some(others, 3)}." if others else "")
    ]


def _with_image(
    definition: Definition,
    images: Mapping[str, ImageFields],
    place: str,
    is_built: bool,
) -> Definition:
    """Return a definition with its first disk made from its image, if the image has a source.

    :raises DroverError: no disk is made of an image of this format.
    """
    name, disks = definition.get("image"), definition["disks"]
    image = images.get(name) if isinstance(name, str) else None
    if (
        not isinstance(name, str)
        or not (image and image.get("source") and disks)
        or disks[0].get("image")
        or disks[0].get("source")
    ):
        return definition
    kind = str(image.get("disk_format") or "")
    kind = _QEMU_NAMES.get(kind, kind)
    if kind and kind not in tables.BACKING_FORMATS and not is_built:
        raise DroverError(
            f"{place}: its first disk is made from the image {name}, of which QEMU makes none: its"
            f" disk_format is {kind}. Correct disk_format under images"
            f" ({', '.join(tables.BACKING_FORMATS)}), or name an ISO image under cdroms. Nothing"
            " was placed."
        )
    first: DefinedDisk = {**disks[0], "image": name}
    if kind:
        first["image_format"] = kind
    return {**definition, "disks": [first, *disks[1:]]}


def _images(
    disks: Sequence[DefinedDisk], images: Mapping[str, ImageFields], place: str
) -> list[ImageFields]:
    """Return the images that disks name: name, source and checksum.

    :raises DroverError: there is no such image, or it has no source.
    """
    names = dict.fromkeys(
        disk["image"] for disk in disks if disk.get("image") and not disk["image"].startswith("/")
    )
    for name in names:
        if not images.get(name, {}).get("source"):
            with_source = [each for each, image in images.items() if image.get("source")]
            raise DroverError(
                f"{place}: a disk has the image {name}, which is no absolute path and no image with"
                f" a source{validation.which_name(name, with_source)}. Add it to images with its"
                " source, or give the path of a file on the hypervisor. Nothing was placed."
            )
        if not images[name].get("checksum"):
            raise DroverError(
                f"{place}: the image {name} has a source and no checksum, so that no host can prove"
                " that it got the right file. Add checksum to it under images: sha256: or sha512:"
                " and the digits that its provider publishes, or that sha256sum shows of the file."
                " Nothing was placed."
            )
    return [
        {"name": name, "source": images[name]["source"], "checksum": images[name].get("checksum")}
        for name in names
    ]


def _of_project(
    instances: Sequence[ListedInstance], definition: Definition
) -> list[ListedInstance]:
    """Return the instances, among instances of one name, that a definition may mean.

    :raises DroverError: an instance has no project although the definition has one, or the other
        way round: it may be the meant instance.
    """
    project = definition.get("project")
    if not definition.get("uuid"):
        for instance in instances:
            theirs = instance.get("project")
            if theirs != project and not (theirs and project):
                raise DroverError(
                    f"Instance {definition['name']} of {_name_of_project(project)}: there is an instance of"
                    f" this name, {instance['uuid']} on {instance['host']}, of {_name_of_project(theirs)}. If"
                    f" the definition means that one, write uuid: {instance['uuid']} into it;"
                    " otherwise give it another name."
                )
    return [instance for instance in instances if instance.get("project") == project]


def leftover(absent: Iterable[Definition], known: Sequence[ListedInstance]) -> dict[str, list[Any]]:
    """Return the existing instances of definitions that are marked as absent.

    :param absent: definitions, as check.instances() returns them.
    :param known: the store's instances.
    :returns: a dict: still_there (names); removable (dicts uuid and name), instances that provably
        belong to their definitions: by uuid, or built from them; unproven (sentences), instances
        that only have the name.
    """
    sorted_out: dict[str, list[Any]] = {"still_there": [], "removable": [], "unproven": []}
    for item in sorted(absent, key=lambda each: str(each["name"])):
        name, uuid = item["name"], item.get("uuid")
        marker = orders.definition_of(item.get("project"), name)
        if uuid:
            candidates = [each for each in known if each["uuid"] == str(uuid).lower()]
            proven = [
                each
                for each in candidates
                if each["name"] == name and item.get("project") in (None, each.get("project"))
            ]
            reason = "has another name or project in its definition"
        else:
            # An instance without a project may be the meant one.
            projects = (
                (item.get("project"), None)
                if item.get("project")
                else {each.get("project") for each in known}
            )
            candidates = [
                each for each in known if each["name"] == name and each.get("project") in projects
            ]
            proven = [each for each in candidates if each["definition"] == marker]
            reason = "was not built from this definition and only has its name"
        sorted_out["still_there"] += [name] if candidates else []
        sorted_out["removable"] += [{"uuid": each["uuid"], "name": each["name"]} for each in proven]
        if candidates and not proven:
            sorted_out["unproven"].append(
                f"{name}: {candidates[0]['name']} with uuid {candidates[0]['uuid']} on"
                f" {candidates[0]['host']} {reason}, so it is not removed here. If it is the one,"
                " correct name and uuid in the definition, or remove it with"
                " drover.compute.instance_delete."
            )
    return sorted_out


def _name_of_project(project: str | None) -> str:
    return f"project {project}" if project else "no project"


def _request(instance: Resolved, groups: Mapping[str, object]) -> dict[str, object]:
    request_of = requests.request(instance)
    group = instance.get("server_group")
    if group is not None:
        request_of["server_group"] = groups.get(group, group) if isinstance(group, str) else group
    return request_of


def _wishes(instance: Resolved, spec: RequestSpec) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the extra specs of the flavor of a request, overridden by the extra specs of the
    definition, and the properties of its image.
    """
    of_flavor = spec.flavor.extra_specs if spec.flavor is not None else {}
    own = {
        key: spec.own_specs[key]
        for key in instance.get("extra_specs") or {}
        if key in spec.own_specs
    }
    return {**of_flavor, **own}, spec.image_properties


def _resolved(instance: Resolved, asked: Mapping[str, Any], spec: RequestSpec) -> Resolved:
    group, hinted = asked.get("server_group"), spec.server_group
    if group is None and hinted is not None:
        group = (
            hinted.name
            if hinted.policy is None
            else {key: value for key, value in vars(hinted).items() if value is not None}
        )
    selection: dict[str, object] = {
        key: instance.get(key) for key in ("name", "uuid", "host", "node")
    }
    selection |= {
        key: asked[key] for key in ("availability_zone", "project", "user") if key in asked
    }
    selection.update(spec.recorded())
    if group is not None:
        selection["server_group"] = group
    return {
        **instance,
        "flavor": spec.flavor.name if spec.flavor is not None else None,
        "image": spec.image.name if spec.image is not None else None,
        "server_group": group["name"] if isinstance(group, Mapping) else group,
        "metadata": {
            **move_policy.to_metadata(instance.get("policy")),
            **labels.to_metadata(instance.get("labels")),
        },
        # A claim has a domain_type, too: the type that its host offers.
        "guest": {
            **{key: instance.get(key) for key in guest.KEYS if instance.get(key) is not None},
            **dict(zip(("extra_specs", "image_properties"), map(dict, _wishes(instance, spec)))),
        },
        "request": asked,
        "selection": {**selection, "resources": dict(spec.resources)},
    }

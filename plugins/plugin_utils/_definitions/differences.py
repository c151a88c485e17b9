# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between an existing instance and its definition, which is read only when the
instance is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse

from .._common import labels
from .._migrations import policy as move_policy
from .._records.domains import ReportedDomain
from .._records.flavors import FlavorFields
from .._records.instances import ListedInstance
from .._store.instances import orders
from . import devices_there, hardware_there, requests_there
from .definition import Definition, Resolved
from .devices_there import RESIZE, SETTINGS, Difference, InstanceChange

#: The keys of a definition that are compared; only the store knows the values of all but vcpus,
#: memory_mb, autostart, policy and labels. requests_there.py compares the rest of the request for
#: the scheduler.
COMPARED = (
    "vcpus",
    "memory_mb",
    "disk_gb",
    "flavor",
    "image",
    "server_group",
    "availability_zone",
    "project",
    "user",
    "autostart",
    "policy",
    "labels",
)
_SIZES = ("vcpus", "memory_mb")
ADVICE = (
    "Nothing of an instance that is there was changed. drover.compute.place with -e"
    " drover_apply_changes=true changes those that differ; or correct the definition."
)
#: The ways to make a change.
APPLY = (
    "Run place with -e drover_apply_changes=true to make the changes that can be made; --check"
    " shows them first."
)
_OF_STORE = "only a new instance gets it: remove the instance and place it again"


def found(
    definition: Resolved,
    instance: ListedInstance,
    kept: Mapping[str, object],
    facts: ReportedDomain | None = None,
    folder: str = "",
    flavors: Mapping[str, FlavorFields] | None = None,
) -> list[Difference]:
    """Return each difference between a definition and its instance.

    :param definition: a result of identity.resolve().
    :param instance: the instance in the store. kept: its further facts in the store, see
        instances.kept().
    :param facts: the facts of its domain, as the module hypervisor_info returns them; None to use
        the facts in the store.
    :param folder: for new disks without a path, on its host.
    :param flavors: the flavors of the store, by name.
    """
    present: dict[str, object] = {**instance, **kept, "image": kept["image_name"]}
    if facts is not None:
        metadata, name = facts.get("metadata") or {}, definition["name"]
        present |= {key: facts[key] for key in ("vcpus", "memory_mb", "autostart")}
        present |= {
            "policy": move_policy.from_metadata(metadata, name),
            "labels": labels.from_metadata(metadata, name)[0],
        }
    differing = []
    for key in COMPARED:
        # The disks of the domain are compared instead: they show more.
        if (key != "disk_gb" or facts is None) and _value(key, present) != _value(key, definition):
            differing.append(
                Difference(
                    key,
                    _value(key, present),
                    _value(key, definition),
                    _change_for(key, definition, present, flavors),
                    _way(key),
                )
            )
    differing += requests_there.differing(definition, present, flavors or {}, facts is not None)
    if facts is None:
        return [each._replace(change=None, way="") for each in differing]
    root = parse(facts["xml"])
    differing += devices_there.disks(definition, facts, root, folder)
    differing += devices_there.networks(definition, facts, root)
    differing += devices_there.cdroms(definition, facts)
    differing += [
        Difference(key, has, wanted, way=devices_there.ONLY_WHEN_BUILT)
        for key, has, wanted in hardware_there.differing(definition, root, definition["name"])
    ]
    if facts["name"] != definition["name"]:
        # A domain that may be another one is not changed.
        way = (
            "rename the domain with virsh domrename while it is shut off, or correct the"
            " definition, first"
        )
        differing = [
            Difference("name", facts["name"], definition["name"], way=way),
            *(each._replace(change=None) for each in differing),
        ]
    return differing


def _change_for(
    key: str,
    definition: Definition,
    there: Mapping[str, Any],
    flavors: Mapping[str, FlavorFields] | None,
) -> InstanceChange | None:
    if key in _SIZES:
        return InstanceChange(RESIZE, {key: definition.get(key)})
    if key == "flavor":
        # The flavor has the sizes of the definition; the instance gets them by the name of the
        # flavor.
        of_flavor = (flavors or {}).get(definition.get("flavor") or "")
        if of_flavor is None or any(of_flavor.get(size) != definition.get(size) for size in _SIZES):
            return None
        # No guest is shut down for a name alone, and a flavor with a smaller disk is refused.
        other = any(there[size] != definition.get(size) for size in _SIZES)
        fits = not of_flavor["disk_gb"] or of_flavor["disk_gb"] >= there["disk_gb"]
        return InstanceChange(RESIZE, {"flavor": definition["flavor"]}) if other and fits else None
    if key == "autostart":
        return InstanceChange(SETTINGS, {"autostart": bool(definition.get("autostart"))})
    if key == "policy" and definition.get("policy"):
        texts = move_policy.to_metadata(definition["policy"])
        return InstanceChange(
            SETTINGS, {"policy": {each: texts.get(each) for each in move_policy.KEYS}}
        )
    if key == "labels":
        labels = definition.get("labels") or {}
        missing = {
            name: text
            for name, text in labels.items()
            if (there.get("labels") or {}).get(name) != text
        }
        return InstanceChange(SETTINGS, {"labels": missing}) if missing else None
    return None


def _way(key: str) -> str:
    return {
        "policy": (
            "write a policy into the definition, or take it out of the domain with virsh metadata"
        ),
        "labels": (
            "remove labels that the definition does not have with drover.compute.instance_labels"
        ),
        "flavor": "resize it with drover.compute.instance_resize and drover_flavor",
        "image": _OF_STORE,
        "server_group": _OF_STORE,
        "availability_zone": _OF_STORE,
        "project": f"{_OF_STORE}, or write the project that it has into its definition",
        "user": _OF_STORE,
    }.get(key, "")


def lines(name: str, differing: Sequence[Difference]) -> list[str]:
    """Name differences: a line with all, and a line for each way out of the differences that are
    not changed here.
    """
    if not differing:
        return []
    parts = [f"{each.key} {each.there}, the definition says {each.wanted}" for each in differing]
    ways: dict[str, list[str]] = {}
    for each in differing:
        if each.change is None and each.way:
            ways.setdefault(each.way, []).append(each.key)
    named = [
        f"{name}: {' and '.join(keys)} {'is' if len(keys) == 1 else 'are'} not changed here: {way}."
        for way, keys in ways.items()
    ]
    return [f"{name}: {'; '.join(parts)}.", *named]


def stranger(definition: Definition, instance: ListedInstance) -> list[str]:
    """Name an instance that has the name of the definition but was not built from it.

    :param definition: a result of check.instances().
    """
    name = definition["name"]
    if definition.get("uuid") or instance["definition"] == orders.definition_of(
        definition.get("project"), name
    ):
        return []
    return [
        f"{name}: it was there already, and the store does not know that it was built from this"
        " definition; it is taken for it by its name."
    ]


def _value(key: str, of: Mapping[str, Any]) -> str:
    """Return a value in words."""
    value = of.get(key)
    if key == "autostart":
        return "yes" if value else "no"
    if key == "policy" and value:
        texts = {
            **move_policy.to_metadata(value),
            **({"error": value["error"]} if "error" in value else {}),
        }
        return " and ".join(f"{word} {text}" for word, text in sorted(texts.items()))
    if key == "labels":
        value = labels.as_text(value)
    return "none" if value is None else str(value)

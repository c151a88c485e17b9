# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an instance that is there differs from its definition, which is read only when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils import _labels as labels
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import policy as move_policy
from ansible_collections.drover.compute.plugins.plugin_utils._records.instances import ListedInstance
from ansible_collections.drover.compute.plugins.plugin_utils._store import orders

#: What of a definition is compared.
COMPARED = ("vcpus", "memory_mb", "disk_gb", "server_group", "availability_zone", "user", "autostart", "policy", "labels")
ADVICE = "Nothing of an instance that is there was changed. Correct its definition, or change the instance."


def lines(definition: Mapping[str, Any], instance: ListedInstance, policy: Mapping[str, Any] | None) -> list[str]:
    """Name each difference between a definition and its instance, and whether the instance was built from it.

    :param definition: as check.instances() returns it.
    :param instance: of the store.
    :param policy: of the instance, as the store has it.
    """
    there = {**instance, "policy": policy}
    differing = [key for key in COMPARED if _value(key, there) != _value(key, definition)]
    name, found = definition["name"], []
    if differing:
        parts = [f"{key} {_value(key, there)}, the definition says {_value(key, definition)}" for key in differing]
        found.append(f"{name}: {'; '.join(parts)}.")
    if not definition.get("uuid") and instance["definition"] != orders.definition_of(definition.get("project"), name):
        found.append(
            f"{name}: it was there already, and the store does not know that it was built from this definition; it is taken for it by its "
            "name."
        )
    return found


def _value(key: str, of: Mapping[str, Any]) -> str:
    """Return a value in words."""
    value = of.get(key)
    if key == "autostart":
        return "yes" if value else "no"
    if key == "policy" and value:
        texts = {**move_policy.to_metadata(value), **({"error": value["error"]} if "error" in value else {})}
        return " and ".join(f"{word} {text}" for word, text in sorted(texts.items()))
    if key == "labels":
        value = labels.as_text(value)
    return "none" if value is None else str(value)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of instances and hosts, and selectors of them. The rule for a label is in
module_utils/_domain/labels.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._domain import labels as texts

from .._records.labels import Requirement, Selector
from .errors import DroverError, some
from .validation import shown

_EXAMPLE = "Write for example project=web,tier!=db,backup,!old"


def checked(labels: Any, where: str, removals: bool = False) -> dict[str, Any]:
    """Return labels that people give.

    :param where: the beginning of a refusal.
    :param removals: True if a value may be None, for a label that is removed.
    :raises DroverError: they are not valid.
    """
    if labels is None:
        return {}
    if not isinstance(labels, dict):
        raise DroverError(
            f"{where}: labels must be a mapping such as project: web, not {shown(labels)}."
        )
    if len(labels) > texts.MOST:
        raise DroverError(f"{where}: {len(labels)} labels are too many. There can be {texts.MOST}.")
    for key, value in labels.items():
        if not texts.is_word(key):
            raise DroverError(
                f"{where}: {shown(key)} cannot be the key of a label. A key has {texts.RULE}."
            )
        if not (texts.is_word(value) or (value is None and removals)):
            quoted = " Put it into quotes." if isinstance(value, (bool, int, float)) else ""
            raise DroverError(
                f"{where}: the label {key} cannot be {shown(value)}. A value is a text of"
                f" {texts.RULE}.{quoted}"
            )
    return dict(labels)


def to_metadata(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Write labels for a domain's metadata."""
    return {texts.ELEMENT: texts.write(labels)} if labels else {}


def from_metadata(metadata: Mapping[str, Any], who: str) -> tuple[dict[str, str], list[str]]:
    """Read the labels in a domain's metadata.

    :param who: the domain and its host.
    :returns: (labels, sentences about the labels that cannot be read and are ignored).
    """
    labels, bad = texts.read(metadata.get(texts.ELEMENT) or "")
    if not bad:
        return labels, []
    return labels, [
        f"{who}: these parts of its labels cannot be read, and were ignored:"
        f" {some(sorted(map(shown, bad)))}. A key and a value have {texts.RULE}; each key stands"
        f" once, and there are at most {texts.MOST}. Correct the element {texts.ELEMENT} of its"
        " metadata in libvirt, or set the label again with drover.compute.instance_labels."
    ]


def as_text(labels: Mapping[str, str] | None) -> str | None:
    """Write labels for people; None for none."""
    return ", ".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or None


def parse(text: Any) -> Selector:
    """Read a selector.

    :raises DroverError: it is malformed.
    """
    if not isinstance(text, str) or not text.strip():
        raise DroverError(f"The selector {shown(text)} is empty or no text. {_EXAMPLE}.")
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > texts.MOST:
        raise DroverError(
            f"The selector {shown(text)} has {len(parts)} parts. It can have {texts.MOST}."
        )
    return Selector(tuple(_requirement(part, text) for part in parts))


def _requirement(part: str, text: str) -> Requirement:
    key, equals, value = part.partition("=")
    # tier!=db, or !old.
    negated = key.endswith("!") if equals else key.startswith("!")
    key = (key[:-1] if equals else key[1:]) if negated else key
    key, value = key.strip(), value.strip()
    if not texts.is_word(key) or (equals and not texts.is_word(value)):
        raise DroverError(
            f"The selector {shown(text)} cannot be read at {shown(part)}. {_EXAMPLE}: commas mean"
            f" and; a key and a value have {texts.RULE}."
        )
    return Requirement(key, value if equals else None, negated)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels in the metadata of a domain: ``project=web,tier=db``.

Private to the collection. This module has the rule for labels; the controller imports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from xml.etree.ElementTree import Element

#: The element of drover's metadata that has the labels.
ELEMENT = "labels"
#: The most labels that an instance or a host may have.
MOST = 64
#: The rule for the key and the value of a label.
RULE = "1 to 63 letters, digits and - _ . /, with a letter or digit at both ends"

_WORD = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")


def is_word(value: object) -> bool:
    """Return True if a value can be the key or the value of a label."""
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def read(text: str) -> tuple[dict[str, str], list[str]]:
    """Read the labels of a domain.

    :returns: (labels, the parts of the text that are not labels). Two labels with one key do not
        count, because the right one is unknown.
    """
    labels: dict[str, str] = {}
    bad: list[str] = []
    keys: set[str] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        key, _equals, value = part.partition("=")
        if key in keys and key in labels:
            bad.append(f"{key}={labels.pop(key)}")
        if key not in keys and is_word(key) and is_word(value) and len(labels) < MOST:
            labels[key] = value
        else:
            bad.append(part)
        keys.add(key)
    return labels, bad


def text_of(elements: Sequence[Element]) -> str:
    """Return the text of the labels of a domain, from the last element. Other elements, and
    elements inside the last one, are parts that are not labels.
    """
    found = [*elements[:-1], *(child for element in elements[-1:] for child in element)]
    odd = [_as_part(each) for each in found]
    texts = [
        text
        for element in elements[-1:]
        for text in (element.text, *(child.tail for child in element))
        if text and text.strip()
    ]
    return ",".join([*texts, *odd]).strip()


def _as_part(element: Element) -> str:
    name = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "!"
    return f"<{name}>{''.join(element.itertext())}</{name}>".replace(",", " ")


def write(labels: Mapping[str, str], others: Iterable[str] = ()) -> str:
    """Write labels for the metadata of a domain, sorted.

    :param others: parts that are not labels and stay as they are.
    """
    return ",".join([*(f"{key}={labels[key]}" for key in sorted(labels)), *others])

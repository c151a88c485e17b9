# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Functions to read and write libvirt's XML: tolerant parsing, units, sets of CPUs.

Private to the collection.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element

#: The bytes per unit. Sources: https://libvirt.org/formatdomain.html (memory) and
#: formatstorage.html.
_UNITS = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "kb": 10**3,
    "k": 2**10,
    "kib": 2**10,
    "mb": 10**6,
    "m": 2**20,
    "mib": 2**20,
    "gb": 10**9,
    "g": 2**30,
    "gib": 2**30,
    "tb": 10**12,
    "t": 2**40,
    "tib": 2**40,
    "pb": 10**15,
    "p": 2**50,
    "pib": 2**50,
    "eb": 10**18,
    "e": 2**60,
    "eib": 2**60,
}

#: The characters that XML 1.0 does not allow, neither literally nor as a character reference.
_FORBIDDEN = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\ufffe\uffff]")
_FORBIDDEN_REFERENCE = re.compile(
    r"&#(?:0*(?:[0-8]|1[124-9]|2[0-9]|3[01])|x0*(?:[0-8bcefBCEF]|1[0-9a-fA-F]));"
)


def parse(text: str) -> Element:
    """Parse a document. Replace characters that XML forbids.

    libvirt stores names byte by byte, so a name may have such characters.

    :raises ValueError: the text is not XML; the error has the text of the parser.
    """
    try:
        return ET.fromstring(text)
    except ET.ParseError:
        cleaned = _FORBIDDEN_REFERENCE.sub("?", _FORBIDDEN.sub("?", text))
    try:
        return ET.fromstring(cleaned)
    except ET.ParseError as exc:
        raise ValueError(f"not well-formed XML: {exc}") from exc


def integer(text: object, default: int = 0) -> int:
    """Return ``text`` as an int (decimal, or hexadecimal with 0x), else ``default``."""
    try:
        return int(str(text).strip(), 0)
    except ValueError:
        try:
            return int(str(text).strip())
        except ValueError:
            return default


def size_bytes(element: Element | None) -> int:
    """Return the size in bytes from an element such as ``<memory unit='MiB'>64</memory>``; 0 if the
    element is missing or empty.
    """
    if element is None or element.text is None:
        return 0
    factor = _UNITS.get(element.get("unit", "KiB").lower(), 1024)
    return integer(element.text) * factor


def child_text(element: Element, path: str, default: str | None = None) -> str | None:
    """Return the stripped text of the element at ``path``; ``default`` if it is missing or
    empty.
    """
    child = element.find(path)
    if child is None or child.text is None:
        return default
    return child.text.strip() or default


def child_of(parent: Element, tag: str) -> Element:
    """Return the first child with a name. Make the child if it is missing."""
    found = parent.find(tag)
    return ET.SubElement(parent, tag) if found is None else found


def keep_prefixes(text: str) -> None:
    """Register the prefix of each namespace of a document, so that written XML has the same
    prefixes for readers.
    """
    found = ET.iterparse(io.BytesIO(text.encode("utf-8", "replace")), events=("start-ns",))
    try:
        for _dummy, (prefix, uri) in found:
            if prefix and not re.fullmatch(r"ns\d+", prefix):
                ET.register_namespace(prefix, uri)
    except ET.ParseError:
        # parse() accepts such a text. ElementTree then generates the prefixes, and libvirt accepts
        # these.
        return


def pci_address(element: Any) -> str:
    """Return ``0000:3b:00.1`` from an ``<address domain= bus= slot= function=>`` element, or from a
    dict with these keys.
    """
    return "{:04x}:{:02x}:{:02x}.{:x}".format(
        *(integer(element.get(key, "0")) for key in ("domain", "bus", "slot", "function"))
    )


def parse_cpu_set(text: str | None) -> list[int]:
    """Convert ``'0-2,8'`` to ``[0, 1, 2, 8]`` (libvirt's cpuset syntax; ``^n`` removes a
    number).
    """
    chosen = set()
    for part in str(text or "").split(","):
        part = part.strip()
        if not part:
            continue
        if part.startswith("^"):
            chosen.discard(integer(part[1:]))
        elif "-" in part:
            first, last = part.split("-", 1)
            chosen.update(range(integer(first), integer(last) + 1))
        else:
            chosen.add(integer(part))
    return sorted(chosen)


def format_cpu_set(numbers: Iterable[int]) -> str:
    """Convert ``[0, 1, 2, 8]`` to ``'0-2,8'``, the form that :func:`parse_cpu_set` reads."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

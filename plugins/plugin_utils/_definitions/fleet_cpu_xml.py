# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU of the fleet in the XML of a new domain, which has the mode fleet in its place until its
host is known.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse

from .hardware_fields import FLEET


def resolved(text: str, find: Callable[[str | None], Mapping[str, Any]]) -> str:
    """Return domain XML with the CPU of the fleet if the domain requests it; else the text
    unchanged.

    :param find: makes of the domain type a CPU: mode, model, vendor, features. It is called only if
        the XML asks for it.
    """
    try:
        root = parse(text)
    except ValueError:
        # The host of the domain refuses such a text.
        return text
    element = root.find("cpu")
    if element is None or element.get("mode") != FLEET:
        return text
    cpu = find(root.get("type"))
    element.set("mode", cpu["mode"])
    element.set("match", "exact")
    model = ET.Element("model", fallback="forbid")
    model.text = cpu["model"]
    parts = [model]
    if cpu.get("vendor"):
        vendor = ET.Element("vendor")
        vendor.text = cpu["vendor"]
        parts.append(vendor)
    element[:0] = parts
    for name, policy in sorted((cpu.get("features") or {}).items()):
        ET.SubElement(element, "feature", policy=policy, name=name)
    return ET.tostring(root, encoding="unicode")

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drover's element in the metadata of a domain: of the running domain and of its definition.

Private to the collection. Source: https://libvirt.org/formatdomain.html#general-metadata.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from .._libvirt import binding
from .._libvirt.binding import libvirt
from .._libvirt.xml import parse
from . import labels as _labels
from .definition import METADATA_NAMESPACE

#: The prefix that libvirt writes before the names of the elements.
PREFIX = "drover"


def places(domain: Any) -> list[int]:
    """Return the flags of the places with metadata of a domain: the running domain, its definition.

    Discovery reads the first one.
    """
    found = [libvirt.VIR_DOMAIN_AFFECT_LIVE] if domain.isActive() else []
    return found + ([libvirt.VIR_DOMAIN_AFFECT_CONFIG] if domain.isPersistent() else [])


def labels(domain: Any, place: int) -> str:
    """Return the text of the labels, in the form for a discovery; empty without labels."""
    return _labels.text_of(_read_element(domain, place).findall(_labels.ELEMENT))


def text(domain: Any, place: int, name: str) -> str:
    """Return the text of an element below drover's element; empty without such an element."""
    return (_read_element(domain, place).findtext(name) or "").strip()


def change(domain: Any, place: int, name: str, value: str) -> None:
    """Set the text of an element below drover's element. Remove the element if the text is empty.
    Keep all other elements.
    """
    root = _read_element(domain, place)
    for child in [child for child in root if child.tag == name]:
        root.remove(child)
    if value:
        ET.SubElement(root, name).text = value
    document = ET.tostring(root, encoding="unicode") if len(root) or root.attrib else None
    domain.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT, document, PREFIX, METADATA_NAMESPACE, place
    )


def _read_element(domain: Any, place: int) -> ET.Element:
    """Return drover's element; an empty one without metadata. The names have no namespace: libvirt
    takes them in this form.
    """
    try:
        root = parse(
            domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, METADATA_NAMESPACE, place)
        )
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) == libvirt.VIR_ERR_NO_DOMAIN_METADATA or (
            binding.code_of(exc) is None and not _has_any(domain, place)
        ):
            return ET.Element("instance")
        raise
    own = f"{{{METADATA_NAMESPACE}}}"
    for element in root.iter():
        if isinstance(element.tag, str) and element.tag.startswith(own):
            element.tag = element.tag[len(own) :]
    return root


def _has_any(domain: Any, place: int) -> bool:
    """Return True if a domain has drover's element.

    The error of the first call may have no code, if Python has freed an object of libvirt in
    between.
    """
    flags = libvirt.VIR_DOMAIN_XML_INACTIVE if place == libvirt.VIR_DOMAIN_AFFECT_CONFIG else 0
    return (
        parse(domain.XMLDesc(flags)).find(f"metadata/{{{METADATA_NAMESPACE}}}instance") is not None
    )

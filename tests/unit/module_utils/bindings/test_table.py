# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the ties between a guest and its host, compared with the schema that libvirt
installs."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading, table

SCHEMAS = "/usr/share/libvirt/schemas"
RELAX = "{http://relaxng.org/ns/structure/1.0}"
#: Types of the schema that cannot name a thing of the host.
NUMBERS = (
    "int",
    "integer",
    "long",
    "short",
    "unsignedInt",
    "unsignedLong",
    "unsignedShort",
    "positiveInteger",
    "dateTime",
    "byte",
    "double",
)
#: An element in itself stands for any number of nested elements.
RECURSIVE = ("backingStore", "mirror", "dataStore")


class Schema:
    """The places of a domain's XML: ``texts``, which take any word, and ``choices``, {place: words
    that it takes}."""

    def __init__(self):
        self.texts: set[str] = set()
        self.choices: dict[str, set[str]] = {}
        self.elements: set[str] = set()
        self._defined: dict[str, list[ET.Element]] = {}
        self._load("domaincommon.rng")
        for definition in self._defined["domain"]:
            for child in definition:
                self._walk(child, (), frozenset({"domain"}), None)

    def _load(self, name):
        for element in ET.parse(f"{SCHEMAS}/{name}").getroot():
            if element.tag == f"{RELAX}include":
                self._load(element.get("href"))
            elif element.tag == f"{RELAX}define":
                self._defined.setdefault(element.get("name"), []).append(element)

    def _walk(self, node, path, seen, place):
        tag, name = node.tag.replace(RELAX, ""), node.get("name") or "*"
        if tag == "element":
            if name in path and name in RECURSIVE:
                return
            path = (*path, name)
            # The first one is the domain itself.
            place = "/".join(path[1:])
            self.elements.add(place)
        elif tag == "attribute":
            place = f"{'/'.join(path[1:])}@{name}"
            if not list(node):
                self.texts.add(place)
        elif tag == "ref":
            if name not in seen:
                for definition in self._defined.get(name, ()):
                    for child in definition:
                        self._walk(child, path, seen | {name}, place)
            return
        elif tag == "value":
            self.choices.setdefault(place, set()).add((node.text or "").strip())
        elif tag == "text" or (tag == "data" and node.get("type") not in NUMBERS):
            self.texts.add(place)
        for child in node:
            self._walk(child, path, seen, place)


@pytest.fixture(scope="module")
def schema():
    return Schema()


def test_each_text_of_the_schema_is_in_the_table(schema):
    missing = sorted(
        place
        for place in schema.texts
        if place and not place.startswith("@") and table.name_of(place) is None
    )
    assert not missing


def test_the_table_has_nothing_that_the_schema_does_not_have(schema):
    places = {*schema.texts, *schema.elements, *schema.choices}
    unused = [
        row.place
        for row in table.NAMES
        if row.place not in table.NEWER
        and not any(table.name_of(place) is row for place in places if place)
    ]
    assert not unused


def test_each_device_of_the_schema_is_known(schema):
    devices = {place.split("/")[1] for place in schema.elements if place.startswith("devices/")} - {
        "*"
    }
    assert devices <= reading._TAGS


@pytest.mark.parametrize(
    "kind",
    [each for each in table.KINDS if each.attribute],
    ids=lambda each: f"{each.path}@{each.attribute}",
)
def test_each_type_of_the_schema_has_a_verdict(kind, schema):
    end = f"{kind.path.rpartition('//')[2]}@{kind.attribute}"
    top = kind.path.partition("//")[0]
    word_sets = [
        words
        for name, words in schema.choices.items()
        if name.startswith(top) and (name == end or name.endswith(f"/{end}"))
    ]
    # Elements of a libvirt that is newer than the schema; only a running guest has a mirror.
    if not word_sets:
        assert kind.path in (
            "devices/crypto/backend",
            "devices/pstore",
            "devices/disk//dataStore",
            "devices/disk//mirror",
        )
    assert not set().union(*word_sets) - set(kind.values)


def test_each_element_is_bound_that_nobody_knows():
    text = (
        "<domain><devices><quantum model='x'/><disk type='file'><source file='/a'/><target"
        " dev='vda'/></disk></devices></domain>"
    )
    (found,) = reading.in_the_way(reading.read(text), live=False)
    assert (found.move, found.evacuation) == (table.NEVER, table.LOST)
    assert found.what == "its quantum is a device of a kind that drover.compute does not know"


def test_each_path_is_bound_that_nobody_knows():
    text = (
        "<domain><devices><controller type='usb'><future"
        " file='/srv/x'/></controller></devices></domain>"
    )
    (found,) = reading.in_the_way(reading.read(text), live=True)
    assert found.what.startswith(
        "its controller names /srv/x of its host (devices/controller/future@file)"
    )

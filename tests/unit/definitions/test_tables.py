# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every key of every table: its example is read, the JSON Schema accepts it, and both refuse a
mistake beside it."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    check,
    document,
    fields,
    identity,
    keeping,
    tables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import request_spec
from ansible_collections.drover.compute.tests.pages import definitions, reference

TABLES = dict(definitions.walk())
KEYS = [(path, key) for path, table in TABLES.items() for key in table]
SCHEMA = json.loads((reference.DOCS / "definitions.schema.json").read_text())
#: The keys that a table needs besides the tested key.
BESIDE = {
    ("instances",): {"memory_mb": 4096},
    ("instances", "networks"): {"bridge": "br0"},
    ("instances", "flavor"): {"memory_mb": 64},
    ("instances", "disks"): {"size_gb": 20},
    ("instances", "disks", "source"): {
        "protocol": "rbd",
        "name": "vms/db",
        "hosts": [{"name": "mon1"}],
    },
}
#: The keys that one key needs besides, or excludes.
BESIDE_KEY = {
    ("instances", "networks", "network"): {"bridge": None},
    ("instances", "networks", "physical_network"): {"bridge": None, "vnic": "macvtap"},
    ("instances", "networks", "vnic"): {"bridge": None, "physical_network": "physnet1"},
    ("instances", "cpu", "model"): {"mode": "custom"},
    ("instances", "cpu", "features"): {"mode": "host-model"},
    ("instances", "networks", "vlan", "native"): {"trunk": [42]},
    ("instances", "disks", "traits"): {"pool": "fast"},
    **{
        ("instances", "disks", "source", key): {
            "path": "/dev/sdx",
            **dict.fromkeys(("protocol", "name", "hosts")),
        }
        for key in ("path", "format")
    },
    ("instances", "disks", "source", "identity"): {"protocol": "nfs", "name": "/vms/db.raw"},
    ("instances", "rng", "rate_period"): {"rate_bytes": 2048},
    ("instances", "hints", "cidr"): {"build_near_host_ip": "192.0.2.1"},
}
FLAVORS = {"small": {"vcpus": 1, "memory_mb": 64, "disk_gb": 1, "extra_specs": {}}}
IMAGES = {"debian-12": {"properties": {}}}


def file_with(path, key, value):
    """Return the data of a file with one key in a table, and with the keys that the tables around
    it need."""
    needed = {name: field.example for name, field in TABLES[path].items() if field.required}
    entry = {**needed, **BESIDE.get(path, {}), **BESIDE_KEY.get((*path, key), {}), key: value}
    entry = {name: each for name, each in entry.items() if each is not None}
    if len(path) == 1:
        return {path[0]: [entry]}
    if (
        path == ("instances", "disks")
        and isinstance(entry.get("source"), dict)
        and "path" not in entry["source"]
    ):
        # On the network it has a size only with a pool.
        entry.pop("size_gb", None)
    outer = TABLES[path[:-1]][path[-1]]
    return file_with(path[:-1], path[-1], [entry] if fields.LIST in outer.kinds else entry)


def read(data, tmp_path):
    """Read a file as place does, up to the request."""
    path = tmp_path / "fleet.yml"
    path.write_text(yaml.safe_dump(data))
    file = document.Document(str(path))
    sections = {
        name: to_plain(rule(file.section(name), file.where))
        for name, rule in keeping.CHECKS.items()
    }
    checked = to_plain(check.instances(file.section("instances"), file.where))
    places = {
        name: file.where(item)
        for item in file.section("instances")
        for name in check.names_of(item)
    }
    return sections, identity.resolve(
        check.with_flavors(checked, FLAVORS, places),
        [],
        sections["server_groups"],
        FLAVORS,
        IMAGES,
        places,
    )


def problem(schema, value, where="file"):
    """Return the message of our JSON Schema for a value; None if the schema accepts it."""
    if "anyOf" in schema:
        found = [problem(each, value, where) for each in schema["anyOf"]]
        return None if None in found else found[0]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    types = (
        [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", list(kinds))
    )
    if not any(
        isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool))
        for kind in types
    ):
        return f"{where}: {value!r} is no {types}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{where}: {value!r} does not match"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get(
        "maximum", value
    ):
        return f"{where}: {value!r} is out of range"
    if isinstance(value, list) and "items" in schema:
        return next(
            (
                found
                for each in value
                if (found := problem(schema["items"], each, where)) is not None
            ),
            None,
        )
    if isinstance(value, dict) and "properties" in schema:
        if set(value) - set(schema["properties"]) or set(schema.get("required", [])) - set(value):
            return f"{where}: keys {sorted(value)}"
        return next(
            (
                found
                for key, each in value.items()
                if (found := problem(schema["properties"][key], each, key)) is not None
            ),
            None,
        )
    return None


@pytest.mark.parametrize(
    ("path", "key"), KEYS, ids=lambda part: part if isinstance(part, str) else ".".join(part)
)
def test_the_example_of_each_key_is_read_and_the_schema_accepts_it(path, key, tmp_path):
    data = file_with(path, key, TABLES[path][key].example)
    read(data, tmp_path)
    assert problem(SCHEMA, data) is None


@pytest.mark.parametrize(
    ("path", "key"), KEYS, ids=lambda part: part if isinstance(part, str) else ".".join(part)
)
def test_a_wrong_value_is_refused_with_file_and_line_and_by_the_schema(path, key, tmp_path):
    data = file_with(path, key, 1.5)
    with pytest.raises(
        DroverError, match=r"fleet\.yml line \d+: .*1\.5|each .* is a mapping with a name"
    ):
        read(data, tmp_path)
    assert problem(SCHEMA, data) is not None


@pytest.mark.parametrize("path", TABLES, ids=".".join)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(path, tmp_path):
    key = next(iter(TABLES[path]))
    data = file_with(path, key, TABLES[path][key].example)
    inner = data[path[0]][0]
    for part in path[1:]:
        inner = inner[part][0] if isinstance(inner[part], list) else inner[part]
    inner[f"{key}x"] = 1
    with pytest.raises(
        DroverError, match=rf"fleet\.yml line \d+: .*unknown key {key}x \(did you mean {key}\?\)"
    ):
        read(data, tmp_path)
    assert problem(SCHEMA, data) is not None


def test_the_schema_knows_the_file_of_the_page_and_refuses_another_section():
    whole = yaml.safe_load(
        re.search(
            r"```yaml\n(.*?)```", (reference.DOCS / "definitions.md").read_text(), re.S
        ).group(1)
    )
    assert problem(SCHEMA, whole) is None
    assert "keys" in problem(SCHEMA, {"instance": []})
    assert SCHEMA["$id"] == definitions.URL
    # A size of the file's kind is one of the reader's.
    for size, good in (
        ("4GiB", True),
        ("1.5T", True),
        ("512 m", True),
        ("16", True),
        ("4x", False),
        ("GiB", False),
    ):
        assert (problem(SCHEMA, {"instances": [{"name": "a", "memory_mb": size}]}) is None) is good


def test_every_key_of_a_request_is_a_key_of_a_definition():
    """Exceptions are the keys that place fills in, and the count, which has another name in
    Nova.
    """
    assert set(request_spec.KEYS) - set(tables.INSTANCE) == {
        "node",
        "num_instances",
        "uuids",
        "retry",
    }


def test_every_key_has_a_description_that_is_a_sentence():
    for path, table in TABLES.items():
        for key, field in table.items():
            assert field.description[0].isupper() or field.description[0] == "`", (path, key)
            assert field.description.endswith("."), (path, key)

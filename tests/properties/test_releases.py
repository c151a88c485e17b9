# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory, a definitions file and the objects of AWX from an earlier release still work.

Each release has a record of its public names (tests/releases). A later release of the same major
version has them too.
"""

from __future__ import annotations

import json

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import (
    known_variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import fields, tables
from ansible_collections.drover.compute.tests.releases import record

CHANGELOG = yaml.safe_load((record.ROOT / "changelogs" / "changelog.yaml").read_text())
PRESENT = record.names()
RECORDS = {path.stem: json.loads(path.read_text()) for path in record.FOLDER.glob("*.json")}
of_each_release = pytest.mark.parametrize("release", RECORDS)


def test_each_release_has_a_record():
    assert set(CHANGELOG["releases"]) <= set(RECORDS)


@of_each_release
@pytest.mark.parametrize("kind", ["variables", "playbooks", "roles", "filters"])
def test_no_name_is_gone(release, kind):
    assert set(RECORDS[release][kind]) <= set(PRESENT[kind])


@of_each_release
@pytest.mark.parametrize("kind", record.PLUGINS)
def test_no_option_of_a_plugin_is_gone(release, kind):
    missing = {
        plugin: sorted(set(options) - set(PRESENT[kind].get(plugin, ())))
        for plugin, options in RECORDS[release][kind].items()
        if plugin not in PRESENT[kind] or set(options) - set(PRESENT[kind][plugin])
    }
    assert missing == {}


@of_each_release
def test_awx_setup_updates_the_job_templates_of_the_release(release):
    """It finds them by their names. A saved survey or schedule still gives its variables."""
    recorded = RECORDS[release]["job_templates"]
    assert set(recorded) <= set(PRESENT["job_templates"])
    given = {variable for variables in recorded.values() for variable in variables}
    assert known_variables.unknown(given) == []


@of_each_release
def test_an_inventory_of_the_release_has_no_unknown_variable(release):
    assert known_variables.unknown(RECORDS[release]["variables"]) == []


@of_each_release
@pytest.mark.parametrize("section", tables.SECTIONS)
def test_definitions_of_the_release_are_read(release, section):
    """Each key of the release, with the example that it had, and the required keys."""
    examples = RECORDS[release]["definitions"].get(section, {})
    required = {
        key: examples[key]
        for key, field in tables.SECTIONS[section].items()
        if field.required and key in examples
    }
    for key, example in examples.items():
        item = {**required, key: example}
        assert key in fields.read(tables.SECTIONS[section], item, f"{section}, {key}"), key

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped rulebooks: they are valid, they name playbooks and events that exist, and the version
for AWX does the same."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._events import (
    finding_events,
    host_events,
    instance_events,
)
from ansible_collections.drover.compute.tests.unit.awx import shipped

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOOKS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((ROOT / "extensions" / "eda" / "rulebooks").glob("*.yml"))
}
TYPES = {
    *(getattr(host_events, name) for name in ("SILENT", "ALONE", "BACK", "FLAPPING", "FLEET")),
    *(getattr(instance_events, name) for name in ("CRASH", "STOPPED", "MOVED", "CHANGED", "PAUSE")),
    *(getattr(finding_events, name) for name in ("CAPACITY", "AUDIT", "REBOOT")),
}
TEMPLATES = (ROOT / "playbooks" / "vars" / "awx" / "objects" / "job_templates.yml").read_text()
each_book = pytest.mark.parametrize("name", BOOKS)


def actions(rule):
    return rule.get("actions") or [rule["action"]]


def rules(name):
    return [rule for ruleset in BOOKS[name] for rule in ruleset["rules"]]


@each_book
def test_it_is_valid(name):
    validators = pytest.importorskip(
        "ansible_rulebook.validators",
        reason="ansible-rulebook is not installed: requirements-dev.txt",
    )
    validators.Validate.rulebook(BOOKS[name])


@each_book
def test_its_conditions_name_events_that_there_are(name):
    named = {word for rule in rules(name) for word in re.findall(r'"(\w+)"', rule["condition"])}
    assert named and named <= TYPES


def test_the_page_of_the_source_names_all_events():
    text = (ROOT / "extensions" / "eda" / "plugins" / "event_source" / "fleet.py").read_text()
    page = (ROOT / "docs" / "eda.md").read_text()
    for kind in TYPES:
        assert f"C({kind})" in text and f"`{kind}`" in page, kind


@each_book
def test_its_playbooks_and_job_templates_exist_and_take_the_variables(name):
    for rule in rules(name):
        for action in actions(rule):
            ((kind, arguments),) = action.items()
            if kind == "run_playbook":
                playbook = arguments["name"].removeprefix("drover.compute.")
                variables = arguments["extra_vars"]
                assert variables["drover_store_url"] == "{{ drover_store_url }}"
            elif kind == "run_job_template":
                template = re.fullmatch(
                    r"\{\{ drover_awx_prefix \| default\('drover-'\) \}\}([\w-]+)",
                    arguments["name"],
                ).group(1)
                assert f'drover_awx_prefix }}}}{template}"' in TEMPLATES
                playbook, variables = (
                    template.replace("-", "_"),
                    arguments["job_args"]["extra_vars"],
                )
                # AWX drops variables that its survey does not contain.
                (survey,) = [
                    spec
                    for name, _playbook, spec in shipped.surveys()
                    if name == f"drover-{template}"
                ]
                assert set(variables) <= {question["variable"] for question in survey}, template
            else:
                assert kind == "debug" and "event.sentence }}" in arguments["msg"]
                continue
            text = (ROOT / "playbooks" / f"{playbook}.yml").read_text()
            for role in re.findall(r"name: drover\.compute\.(\w+)", text):
                text += "".join(path.read_text() for path in (ROOT / "roles" / role).rglob("*.yml"))
            assert all(
                variable in text for variable in variables if variable != "drover_store_url"
            ), (playbook, variables)


@pytest.mark.parametrize("name", [name for name in BOOKS if not name.endswith("_awx")])
def test_its_twin_does_the_same_by_job_templates(name):
    def plain(book):
        summaries = []
        for rule in rules(book):
            run = []
            for action in actions(rule):
                ((kind, arguments),) = action.items()
                if kind == "run_playbook":
                    run.append(
                        (
                            arguments["name"].removeprefix("drover.compute."),
                            sorted(set(arguments["extra_vars"]) - {"drover_store_url"}),
                        )
                    )
                elif kind == "run_job_template":
                    run.append(
                        (
                            arguments["name"].rpartition("}")[2].replace("-", "_"),
                            sorted(arguments["job_args"]["extra_vars"]),
                        )
                    )
            summaries.append((rule["name"], rule["condition"], run))
        return summaries

    assert plain(name) == plain(f"{name}_awx")


def test_only_the_proof_of_the_evacuation_counts():
    """No rulebook lifts a rule of fencing, or states in place of a person that a host is off."""
    for name in BOOKS:
        text = (ROOT / "extensions" / "eda" / "rulebooks" / f"{name}.yml").read_text()
        assert not re.search(r"drover_\w*force|drover_host_is_off|drover_evacuate_", text), name

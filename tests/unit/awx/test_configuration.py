# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX takes the objects, and the surveys have questions for the variables that the playbooks take.

The rules of AWX come from its source (24.6): awx/api/views, awx/main/fields.py,
awx/main/utils/ansible.py.
"""

from __future__ import annotations

import json
import os
import pathlib
import re

import jinja2
import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import fencing
from ansible_collections.drover.compute.tests.unit.awx import shipped

try:
    from dateutil import rrule
except ImportError:
    rrule = None

TYPES = {
    "text": str,
    "textarea": str,
    "password": str,
    "multiplechoice": str,
    "multiselect": list,
    "integer": int,
    "float": float,
}
ASKS = {
    "str": {"text", "textarea", "multiplechoice"},
    "path": {"text"},
    "bool": {"multiplechoice"},
    "int": {"integer"},
    "float": {"float"},
    "raw": {"text", "textarea", "multiplechoice", "multiselect"},
    # Texts that Ansible turns into lists and mappings: names with commas between them, JSON.
    "list": {"text"},
    "dict": {"text"},
}
# Jobs that only read their hosts, each independent of the others.
SLICED = {"discover"}
# Jobs that may run beside another job of the same template: a lease keeps them from the same host,
# or they only read or abort.
BESIDE = {
    "hosts",
    "instances",
    "instance_show",
    "history",
    "capacity",
    "schedule",
    "simulate",
    "host_disable",
    "host_enable",
    "libvirt_restart",
    "migration_abort",
    "instance_cdrom",
    "instance_disk",
    "instance_disk_move",
    "instance_migrate",
    "instance_resize",
    "drain",
    "undrain",
    "evacuate",
    "power",
}
# A line by which AWX knows a playbook.
PLAYBOOK = re.compile(
    r"^\s*?-?\s*?(?:hosts|(ansible\.builtin\.)?include|(ansible\.builtin\.)?import_playbook):\s*?.*?$"
)
OBJECTS = shipped.objects()
QUESTIONS = [
    (name, playbook, question) for name, playbook, spec in shipped.surveys() for question in spec
]
each_question = pytest.mark.parametrize(
    ("playbook", "question"),
    [
        pytest.param(playbook, question, id=f"{name}-{question['variable']}")
        for name, playbook, question in QUESTIONS
    ],
)
each_template = pytest.mark.parametrize(
    "template", [pytest.param(each, id=each["name"]) for each in OBJECTS["controller_templates"]]
)


def test_there_is_a_template_for_each_playbook():
    playbooks = {pathlib.Path(each["playbook"]).stem for each in OBJECTS["controller_templates"]}
    assert playbooks == set(shipped.PLAYBOOKS) - {"awx_setup"}


def is_a(value, kind):
    """True is a number in Python, and not in AWX."""
    return isinstance(value, kind) and not isinstance(value, bool)


@each_question
def test_question_is_one_that_awx_takes(playbook, question):
    for field in ("type", "question_name", "variable"):
        assert isinstance(question[field], str), field
    assert isinstance(question["required"], bool)
    kind = TYPES[question["type"]]
    if "default" in question:
        assert is_a(question["default"], kind)
    for field in ("min", "max"):
        assert is_a(question.get(field, 0), int)
    if question["type"] in ("multiplechoice", "multiselect"):
        assert all(isinstance(choice, str) for choice in question["choices"])
        assert question.get("default", question["choices"][0]) in question["choices"]


@each_question
def test_question_asks_for_an_option_of_the_playbook(playbook, question):
    option = shipped.options(playbook)[question["variable"]]
    kind = option.get("type", "str")
    assert question["type"] in ASKS[kind]
    if kind == "bool":
        assert sorted(question["choices"]) == ["false", "true"]
    elif option.get("choices"):
        assert question["choices"] == option["choices"]
    elif kind != "raw":
        assert "choices" not in question


#: An instance that stays on a dead host fails its verdict, and AWX would request no approval for
#: the others.
OTHER_DEFAULTS = {("drover-evacuate-approved", "drover_unmovable"): "skip"}


@each_question
def test_question_has_the_default_of_the_option(playbook, question, request):
    if any(f"[{template}-{name}]" in request.node.name for template, name in OTHER_DEFAULTS):
        assert question["default"] in OTHER_DEFAULTS.values()
        return
    option = shipped.options(playbook)[question["variable"]]
    if option.get("default") is None:
        assert not question.get("default")
        assert question["required"] or not option.get("required")
        if question["required"] and question["type"] == "text":
            assert question["min"] >= 1
    else:
        default = option["default"]
        as_text = (
            str(default).lower()
            if isinstance(default, bool)
            else json.dumps(default)
            if isinstance(default, dict)
            else default
        )
        assert question["default"] == as_text
        # Otherwise the answer may be left empty, and an empty answer is not the default.
        assert question["required"]


def test_every_survey_has_what_awx_wants_and_no_question_twice():
    for template in OBJECTS["controller_templates"] + OBJECTS["controller_workflows"]:
        if template.get("survey_enabled"):
            assert {"name", "description", "spec"} == set(template["survey_spec"])
            variables = [question["variable"] for question in template["survey_spec"]["spec"]]
            assert variables and len(variables) == len(set(variables))


@pytest.mark.parametrize("name", ["rolling-maintenance", "evacuate"])
def test_workflow_asks_as_its_job_template_does(name):
    surveys = {name: {q["variable"]: q for q in spec} for name, dummy, spec in shipped.surveys()}
    questions = surveys[f"drover-{name}-approved"]
    of_the_job = {
        each: dict(question)
        for each, question in surveys[f"drover-{name}"].items()
        if each != "drover_plan_only"
    }
    for (template, each), default in OTHER_DEFAULTS.items():
        if template == f"drover-{name}-approved":
            of_the_job[each]["default"] = default
    assert questions == of_the_job


def test_rules_that_the_survey_can_lift_are_those_of_the_planner():
    (question,) = [
        question
        for name, dummy, question in QUESTIONS
        if (name, question["variable"]) == ("drover-evacuate", "drover_evacuate_force")
    ]
    assert question["choices"] == list(fencing.LIFTABLE)


def test_inventory_credential_type_is_one_that_awx_takes():
    (kind,) = OBJECTS["controller_credential_types"]
    assert set(kind["inputs"]) <= {"fields", "required"} and set(kind["injectors"]) <= {
        "env",
        "extra_vars",
        "file",
    }
    assert kind["kind"] in ("cloud", "net")
    ids = []
    for field in kind["inputs"]["fields"]:
        assert set(field) <= {
            "id",
            "label",
            "type",
            "secret",
            "multiline",
            "format",
            "choices",
            "help_text",
            "default",
            "ask_at_runtime",
        }
        assert field["type"] in ("string", "boolean") and re.match(
            r"^[a-zA-Z_]+[a-zA-Z0-9_]*$", field["id"]
        )
        assert field["label"] and field["id"] != "tower"
        ids.append(field["id"])
    assert set(kind["inputs"]["required"]) <= set(ids) and len(ids) == len(set(ids))
    for name, template in kind["injectors"]["env"].items():
        assert (
            re.match(r"^[a-zA-Z_]+[a-zA-Z0-9_]*$", name)
            and not name.startswith("ANSIBLE_")
            and name.isascii()
        )
        # AWX fills it in, not Ansible while it makes the objects.
        values = {one: f"<{one}>" for one in ids}
        assert (
            jinja2.Environment(undefined=jinja2.StrictUndefined)
            .from_string(template)
            .render(values)
            == "<store_url>"
        )
    (credential,) = OBJECTS["controller_credentials"]
    assert credential["credential_type"] == kind["name"]
    assert set(credential["inputs"]) == set(kind["inputs"]["required"])
    assert all(field.get("secret") for field in kind["inputs"]["fields"])


@pytest.mark.parametrize("schedule", OBJECTS["controller_schedules"], ids=lambda each: each["name"])
def test_schedule_is_one_that_awx_takes(schedule):
    text = schedule["rrule"]
    assert re.fullmatch(
        r"DTSTART(:\d{8}T\d{6}Z|;TZID=[\w/+-]+:\d{8}T\d{6}) RRULE:FREQ=[A-Z]+;\S+", text
    )
    assert "INTERVAL=" in text and "SECONDLY" not in text
    if rrule:
        assert rrule.rrulestr(text, forceset=True)[0]
    named = {
        each["name"]: each
        for kind in ("controller_templates", "controller_workflows")
        for each in OBJECTS[kind]
    }
    started = named[schedule["unified_job_template"]]
    questions = {
        question["variable"]: question
        for question in started.get("survey_spec", {}).get("spec", ())
    }
    for name, value in schedule.get("extra_data", {}).items():
        assert value in questions[name]["choices"]


@each_template
def test_only_what_reads_is_sliced(template):
    playbook = os.path.basename(template["playbook"]).removesuffix(".yml")
    expected = next(
        each
        for each in shipped.objects(drover_awx_discover_slices=4)["controller_templates"]
        if each["name"] == template["name"]
    )
    assert expected["job_slice_count"] == (4 if playbook in SLICED else 1)
    assert template["allow_simultaneous"] is (playbook in BESIDE)


@each_template
@pytest.mark.parametrize("folder", ["playbooks/", ""], ids=["repository", "project"])
def test_awx_finds_the_playbook(template, folder):
    by_name = {
        each["name"]: each
        for each in shipped.objects(drover_awx_playbooks=folder)["controller_templates"]
    }
    path = (shipped.ROOT if folder else shipped.PROJECT) / by_name[template["name"]]["playbook"]
    assert any(PLAYBOOK.match(line) for line in path.read_text().splitlines())
    assert not {"roles", "tasks", "group_vars", "host_vars"} & set(
        path.relative_to(shipped.ROOT).parts
    )


@pytest.mark.parametrize("folder", [shipped.ROOT, shipped.PROJECT], ids=["repository", "project"])
def test_project_has_inventory_and_requirements(folder):
    (source,) = OBJECTS["controller_inventory_sources"]
    path = folder / source["source_path"]
    assert yaml.safe_load(path.read_text()) == {"plugin": "drover.compute.fleet"}
    assert (folder / "requirements.yml").is_file() or (
        folder / "collections" / "requirements.yml"
    ).is_file()
    # Before the first discovery there is no store, and a job would fail because its inventory is
    # empty.
    assert source["update_on_launch"] is False


def test_every_playbook_has_its_wrapper():
    assert {path.stem for path in shipped.PROJECT.glob("*.yml")} == set(shipped.PLAYBOOKS)
    for path in shipped.PROJECT.glob("*.yml"):
        (play,) = yaml.safe_load(path.read_text())
        assert play["ansible.builtin.import_playbook"] == f"drover.compute.{path.stem}"


def test_everything_that_is_named_is_there():
    names = {kind: {each["name"] for each in found} for kind, found in OBJECTS.items()}
    for entry in OBJECTS["controller_templates"]:
        assert entry["project"] in names["controller_projects"]
        assert entry["inventory"] in names["controller_inventories"]
        assert entry["execution_environment"] in names["controller_execution_environments"]
        assert entry["credentials"] == ["drover-store", "hypervisors"]
    where = {
        "job_template": "controller_templates",
        "inventory_source": "controller_inventory_sources",
    }
    for entry in OBJECTS["controller_workflows"]:
        nodes = {node["identifier"] for node in entry["workflow_nodes"]}
        for node in entry["workflow_nodes"]:
            started = node["unified_job_template"]
            if started["type"] != "workflow_approval":
                assert started["name"] in names[where[started["type"]]]
            for followers in node.get("related", {}).values():
                assert {one["identifier"] for one in followers} <= nodes
    for entry in (
        OBJECTS["controller_hosts"]
        + OBJECTS["controller_groups"]
        + OBJECTS["controller_inventory_sources"]
    ):
        assert entry["inventory"] in names["controller_inventories"]


def test_rolling_maintenance_waits_for_an_approval_between_plan_and_work():
    workflow = next(each for each in OBJECTS["controller_workflows"] if "rolling" in each["name"])
    nodes = {node["identifier"]: node for node in workflow["workflow_nodes"]}

    def after(name):
        return [
            (how, one["identifier"])
            for how, found in nodes[name]["related"].items()
            for one in found
        ]

    assert after("plan") == [("success_nodes", "approval")] and after("approval") == [
        ("success_nodes", "maintain")
    ]
    assert (
        nodes["plan"]["extra_data"] == {"drover_plan_only": "true"}
        and "extra_data" not in nodes["maintain"]
    )
    assert nodes["approval"]["unified_job_template"]["type"] == "workflow_approval"


def test_awx_19_a_schedule_without_a_rule_is_off():
    without = {f"drover_awx_{name}_rrule": "" for name in ("discover", "audit", "report")}
    schedules = shipped.objects(
        **without, drover_awx_report_host="www1", drover_awx_metrics_push="http://push"
    )["controller_schedules"]
    assert (
        schedules
        and not any(each["enabled"] for each in schedules)
        and all(each["rrule"] for each in schedules)
    )


def test_awx_13_names_of_templates_have_no_underscore():
    assert not [each["name"] for each in OBJECTS["controller_templates"] if "_" in each["name"]]


def test_report_is_brought_to_its_host_each_day_where_there_is_one():
    def scheduled_and_given(**said):
        awx_objects = shipped.objects(**said)
        (schedule,) = [
            each for each in awx_objects["controller_schedules"] if each["name"] == "drover-report"
        ]
        (template,) = [
            each for each in awx_objects["controller_templates"] if each["name"] == "drover-report"
        ]
        # A person who may start the job cannot choose the file that it writes.
        assert not template["survey_enabled"]
        return schedule["enabled"], template["extra_vars"]

    assert scheduled_and_given() == (False, {})
    assert scheduled_and_given(drover_awx_report="/srv/fleet.html") == (
        False,
        {"drover_report": "/srv/fleet.html"},
    )
    assert scheduled_and_given(
        drover_awx_report_host="www1", drover_awx_report="/srv/fleet.html"
    ) == (
        True,
        {"drover_report_host": "www1", "drover_report": "/srv/fleet.html"},
    )


def test_hosts_are_made_as_they_are_said():
    assert [(each["name"], each["variables"]) for each in OBJECTS["controller_hosts"]] == [
        ("kvm1", {"ansible_host": "192.0.2.11"}),
        ("kvm2", None),
    ]
    assert shipped.objects(drover_awx_hypervisors={})["controller_hosts"] == []


def test_no_secret_is_in_the_files():
    for path in [*shipped.AWX.rglob("*.yml"), shipped.ROOT / "execution-environment.yml"]:
        for name, value in re.findall(
            r"(?im)^[ -]*(\w*(?:password|secret|token|url)\w*): *(.*)$", path.read_text()
        ):
            assert value in ("", '""', "true", "false") or "{{" in value or "@" not in value, (
                path,
                name,
            )
    secret = "the-one-secret"
    awx_objects = shipped.objects(drover_awx_store_url=secret)
    # The URL is in the credential and in no other place.
    assert secret in str(awx_objects.pop("controller_credentials"))
    assert secret not in str(awx_objects)

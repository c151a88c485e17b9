# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook awx_setup: real modules of awx.awx, an imitation of the AWX."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import sysconfig

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.drover.compute.tests.unit.action.running import ansible
from ansible_collections.drover.compute.tests.unit.awx import fake_awx, shipped

pytestmark = pytest.mark.long


def tasks(name):
    """Return the tasks of a task file that make objects, also the tasks of blocks."""
    found = yaml.safe_load((shipped.ROOT / "playbooks" / "tasks" / name).read_text())
    found += [task for each in found for task in each.get("block", ())]
    return [task for task in found if any(key.startswith("awx.awx.") for key in task)]


TASKS = [*tasks("awx.yml"), *tasks("awx_project.yml")]
# A batch of hosts, a host with other variables, the group.
HOSTS = tasks("awx_hosts.yml")
SECRET = "hush-hush"
# The values that a user writes down by docs/awx.md.
SAID = json.loads(json.dumps(shipped.documented("yaml")[0]).replace(":secret@", f":{SECRET}@"))
TEAMS = {
    "drover_awx_viewers": ["guests"],
    "drover_awx_operators": ["admins"],
    "drover_awx_power": ["admins"],
    "drover_awx_approvers": ["leads"],
}
MORE = {**TEAMS, "drover_awx_notifications": ["ops"]}


class Captured(Exception):
    pass


def argument_spec(module, monkeypatch):
    """The argument spec of a module of awx.awx, without the options that all of its modules
    have.
    """
    awx_module = importlib.import_module(f"ansible_collections.awx.awx.plugins.modules.{module}")

    def capture(argument_spec, **dummy):
        raise Captured(argument_spec)

    monkeypatch.setattr(awx_module, "ControllerAPIModule", capture)
    with pytest.raises(Captured) as caught:
        awx_module.main()
    return caught.value.args[0]


def set_up(folder, awx, *options, environment=None, said=None, playbook="drover.compute.awx_setup"):
    """Run the playbook; return (exit code, output)."""
    (folder / "awx.yml").write_text(json.dumps(SAID if said is None else said))
    variables = {
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "CONTROLLER_HOST": awx.url if awx else "http://127.0.0.1:9",
        "CONTROLLER_OAUTH_TOKEN": "token",
        **(environment or {}),
    }
    variables = {name: value for name, value in variables.items() if value is not None}
    return ansible(folder, "playbook", playbook, "-e", "@awx.yml", *options, environment=variables)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["name"])
def test_module_takes_what_the_task_gives_it(task, monkeypatch):
    (action,) = [name for name in task if name.startswith("awx.awx.")]
    spec = argument_spec(action.rpartition(".")[2], monkeypatch)
    assert set(task[action]) <= set(spec)
    (kind,) = re.findall(r"\w+", task["loop"])
    for awx_object in shipped.objects(**MORE)[kind]:
        # The module gets every field that the data have.
        assert set(awx_object) <= set(task[action]), awx_object["name"]
        given = {name: value for name, value in awx_object.items() if value is not None}
        assert ArgumentSpecValidator(spec).validate(given).error_messages == []


@pytest.mark.parametrize("task", HOSTS, ids=lambda task: task["name"])
def test_module_takes_what_the_task_of_hosts_gives_it(task, monkeypatch):
    (action,) = [name for name in task if name.startswith("awx.awx.")]
    assert set(task[action]) <= set(argument_spec(action.rpartition(".")[2], monkeypatch))


def test_every_kind_of_object_is_made():
    made = {re.findall(r"\w+", task["loop"])[0] for task in TASKS} | {
        "controller_hosts",
        "controller_groups",
    }
    assert made == set(shipped.objects())


STORE = {
    "kvm1": ({"drover_compute": {"state": "up"}}, ["hypervisors", "state_up"]),
    "kvm2": ({"drover_compute": {"state": "up"}}, ["hypervisors", "state_up"]),
}


@contextlib.contextmanager
def awx_with_teams():
    with fake_awx.running("hypervisors") as awx:
        organization = awx.named("organizations", "Default")["id"]
        for name in ("guests", "admins", "leads"):
            awx.add("teams", name=name, organization=organization)
        awx.add("notification_templates", name="ops", organization=organization)
        yield awx


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return an AWX that was set up once, with teams and notifications; for tests that change
    nothing in it."""
    with awx_with_teams() as awx:
        code, text = set_up(tmp_path_factory.mktemp("made"), awx, "-vvv", said={**SAID, **MORE})
        assert code == 0, text
        assert SECRET not in text
        yield awx


def test_awx_gets_it_all(made):
    expected = shipped.objects(**SAID, **MORE)
    for kind, data in (
        ("projects", "controller_projects"),
        ("execution_environments", "controller_execution_environments"),
        ("inventories", "controller_inventories"),
        ("job_templates", "controller_templates"),
        ("workflow_job_templates", "controller_workflows"),
        ("schedules", "controller_schedules"),
        ("hosts", "controller_hosts"),
    ):
        assert [each["name"] for each in made.objects[kind]] == [
            each["name"] for each in expected[data]
        ]
    kind = made.named("credential_types", "drover-store")
    assert kind["injectors"] == {"env": {"DROVER_STORE_URL": "{{ store_url }}"}}
    assert (
        json.loads(made.objects["hosts"][0]["variables"]) == SAID["drover_awx_hypervisors"]["kvm1"]
    )
    assert made.named("credentials", "drover-store")["inputs"] == {
        "store_url": SAID["drover_awx_store_url"]
    }
    for template, definition in zip(
        made.objects["job_templates"], expected["controller_templates"]
    ):
        assert made.surveys.get(str(template["id"])) == definition.get("survey_spec")
        assert (
            template["job_slice_count"] == 1
            and template["allow_simultaneous"] is definition["allow_simultaneous"]
        )
        assert len(made.members("job_templates", template["id"], "credentials")) == 2
    (group,) = made.objects["groups"]
    assert len(made.members("groups", group["id"], "hosts")) == 2
    assert len(made.objects["workflow_approval_templates"]) == 2


def test_notifications_are_attached(made):
    (ops,) = made.objects["notification_templates"]
    for name in ("discover", "audit", "drain", "evacuate", "rolling-maintenance"):
        template = made.named("job_templates", f"drover-{name}")
        assert made.members("job_templates", template["id"], "notification_templates_error") == [
            ops["id"]
        ]
    for name in ("rolling-maintenance-approved", "evacuate-approved"):
        workflow = made.named("workflow_job_templates", f"drover-{name}")
        assert made.members(
            "workflow_job_templates", workflow["id"], "notification_templates_approvals"
        ) == [ops["id"]]


def may(awx, team, kind, name, role):
    role = awx.named(kind, f"drover-{name}")["summary_fields"]["object_roles"][role]["id"]
    return awx.named("teams", team)["id"] in awx.members("roles", role, "teams")


def test_teams_may_do_what_they_are_for(made):
    assert may(made, "guests", "job_templates", "hosts", "execute_role")
    assert not may(made, "guests", "job_templates", "audit", "execute_role")
    for name in ("drain", "instance-start", "migration-abort", "power", "evacuate"):
        assert may(made, "admins", "job_templates", name, "execute_role"), name
    assert may(made, "admins", "workflow_job_templates", "evacuate-approved", "execute_role")
    assert not may(made, "admins", "workflow_job_templates", "evacuate-approved", "approval_role")
    assert may(
        made, "leads", "workflow_job_templates", "rolling-maintenance-approved", "approval_role"
    )


def test_operators_without_power_may_start_neither_power_nor_evacuation():
    (role,) = shipped.objects(drover_awx_operators=["admins"])["controller_roles"]
    assert not [
        name
        for name in role["job_templates"] + role["workflows"]
        if "power" in name or "evacuate" in name
    ]


KINDS = {"controller_templates": "job_templates", "controller_workflows": "workflow_job_templates"}
STARTED = [(KINDS[data], each) for data in KINDS for each in shipped.objects()[data]]
each_started = pytest.mark.parametrize(
    ("kind", "each"), [pytest.param(*started, id=started[1]["name"]) for started in STARTED]
)


def answered(each):
    """Return answers that AWX takes: the defaults, and a value for each question that needs an
    answer."""
    spec = (each.get("survey_spec") or {"spec": []})["spec"]
    return {
        question["variable"]: question.get(
            "default", question["choices"][0] if "choices" in question else "kvm1"
        )
        for question in spec
        if question["required"]
    }


@each_started
def test_awx_starts_it_with_its_answers(made, kind, each):
    assert made.launch(kind, each["name"], answered(each)) == {}
    assert made.launch(kind, each["name"], {**answered(each), "drover_xyzzy": "1"}) != {}


@each_started
def test_awx_refuses_an_empty_answer_to_a_required_question(made, kind, each):
    for question in (each.get("survey_spec") or {"spec": []})["spec"]:
        if question["required"]:
            said = made.launch(kind, each["name"], {**answered(each), question["variable"]: ""})
            assert list(said) == ["variables_needed_to_start"], question["variable"]


def test_approved_maintenance_takes_a_limit(made):
    (workflow,) = [
        each for kind, each in STARTED if each["name"] == "drover-rolling-maintenance-approved"
    ]
    assert (
        made.launch(
            "workflow_job_templates", workflow["name"], answered(workflow), limit="kvm1,localhost"
        )
        == {}
    )


@pytest.mark.parametrize(
    ("workflow", "failing", "status", "ran"),
    [
        # Before the first discovery there is no store.
        (
            "refresh",
            ["inventory-before"],
            "successful",
            ["inventory-before", "discover", "inventory"],
        ),
        ("refresh", ["discover"], "failed", ["inventory-before", "discover"]),
        ("refresh", ["inventory"], "failed", ["inventory-before", "discover", "inventory"]),
        (
            "rolling-maintenance-approved",
            [],
            "successful",
            ["plan", "approval", "maintain", "inventory"],
        ),
        ("rolling-maintenance-approved", ["plan"], "failed", ["plan"]),
        ("rolling-maintenance-approved", ["approval"], "failed", ["plan", "approval"]),
        ("rolling-maintenance-approved", ["maintain"], "failed", ["plan", "approval", "maintain"]),
        # Discovery fails because of the dead host.
        (
            "evacuate-approved",
            ["discover"],
            "successful",
            ["discover", "verdict", "approval", "evacuate", "inventory"],
        ),
        ("evacuate-approved", ["verdict"], "failed", ["discover", "verdict"]),
        ("evacuate-approved", ["approval"], "failed", ["discover", "verdict", "approval"]),
        (
            "evacuate-approved",
            ["evacuate"],
            "failed",
            ["discover", "verdict", "approval", "evacuate"],
        ),
    ],
)
def test_a_workflow_fails_where_its_work_failed(made, workflow, failing, status, ran):
    assert made.ends(f"drover-{workflow}", failing) == (status, ran)


def test_the_verdict_on_a_dead_host_is_a_check(made):
    number = made.named("workflow_job_templates", "drover-evacuate-approved")["id"]
    nodes = {
        each["identifier"]: each
        for each in made.objects["workflow_job_template_nodes"]
        if each["workflow_job_template"] == number
    }
    assert nodes["verdict"]["job_type"] == "check" and nodes["evacuate"]["job_type"] is None
    assert nodes["verdict"]["unified_job_template"] == nodes["evacuate"]["unified_job_template"]


def test_awx_1_an_instance_that_cannot_be_restarted_keeps_nobody_from_the_approval(made):
    """The verdict fails if the run would fail. A job without a workflow fails for the instances
    that remain; the workflow still requests the approval."""

    def default(kind, name):
        spec = made.surveys[str(made.named(kind, name)["id"])]["spec"]
        (question,) = [each for each in spec if each["variable"] == "drover_unmovable"]
        return question["default"], [each["variable"] for each in spec]

    workflow, questions = default("workflow_job_templates", "drover-evacuate-approved")
    assert (
        workflow == "skip"
        and "drover_plan_only" not in questions
        and "drover_host_is_off" in questions
    )
    assert default("job_templates", "drover-evacuate")[0] == "fail"


def edges(awx, workflow):
    number = awx.named("workflow_job_templates", workflow)["id"]
    nodes = {
        each["id"]: each
        for each in awx.objects["workflow_job_template_nodes"]
        if each["workflow_job_template"] == number
    }
    return {
        (node["identifier"], kind, nodes[after]["identifier"])
        for node in nodes.values()
        for kind in fake_awx.EDGES
        for after in awx.members("workflow_job_template_nodes", node["id"], kind)
    }


def test_its_life(tmp_path):
    """Set up, use, set up again, change by hand, and set up again with other values."""
    with awx_with_teams() as awx:
        code, text = set_up(tmp_path, awx)
        assert code == 0, text

        # A store without hosts, such as a new database, takes no host from the jobs.
        awx.sync("drover-store", STORE)
        assert awx.hosts_of("drover-fleet")["kvm1"] == (
            {**SAID["drover_awx_hypervisors"]["kvm1"], "drover_compute": {"state": "up"}},
            {"hypervisors", "state_up"},
        )
        awx.sync("drover-store", {})
        assert awx.hosts_of("drover-fleet")["kvm1"] == (
            SAID["drover_awx_hypervisors"]["kvm1"],
            {"hypervisors"},
        )
        # A host is only in the groups of its present state.
        awx.sync(
            "drover-store",
            {
                **STORE,
                "kvm2": ({"drover_compute": {"state": "down"}}, ["hypervisors", "state_down"]),
            },
        )
        assert awx.hosts_of("drover-fleet")["kvm2"][1] == {"hypervisors", "state_down"}

        # A second run changes little, and takes nothing from the hosts.
        before, first = json.dumps(awx.hosts_of("drover-fleet"), default=sorted), len(awx.writes)
        code, again = set_up(tmp_path, awx)
        assert code == 0, again
        # AWX shows no secret, so the credential always counts as different; the node of an approval
        # does too. The project is synchronized.
        written = {
            path.split("/")[0]
            for dummy, path, data in awx.writes[first:]
            if not re.fullmatch(r"projects/\d+/update/?", path)
        }
        assert written <= {
            "credentials",
            "workflow_job_template_nodes",
            "workflow_approval_templates",
        }, awx.writes[first:]
        assert json.dumps(awx.hosts_of("drover-fleet"), default=sorted) == before
        assert "Jobs still use" not in again

        # Another edge between the same nodes, which AWX refuses beside the first one.
        right = edges(awx, "drover-rolling-maintenance-approved")
        number = awx.named("workflow_job_templates", "drover-rolling-maintenance-approved")["id"]
        nodes = {
            e["identifier"]: e["id"]
            for e in awx.objects["workflow_job_template_nodes"]
            if e["workflow_job_template"] == number
        }
        success = awx.members("workflow_job_template_nodes", nodes["maintain"], "success_nodes")
        awx.members("workflow_job_template_nodes", nodes["maintain"], "always_nodes").append(
            success.pop()
        )
        # A check writes nothing and refuses nothing.
        first = len(awx.writes)
        code, text = set_up(tmp_path, awx, "--check")
        assert code == 0, text
        assert awx.writes[first:] == []
        # The inventories are as they are in AWX.
        assert re.search(r"changed: .*\(item=drover-(hypervisors|fleet)\)", text) is None, text
        # The output names a hypervisor that left the file.
        said = {**SAID, "drover_awx_hypervisors": {"kvm1": SAID["drover_awx_hypervisors"]["kvm1"]}}
        code, text = set_up(tmp_path, awx, said=said)
        assert code == 0, text
        assert edges(awx, "drover-rolling-maintenance-approved") == right
        assert (
            "kvm2: in the inventory drover-hypervisors and not in drover_awx_hypervisors"
            in " ".join(text.split())
        )


def test_check_of_an_awx_that_has_nothing_says_what_a_run_would_make(tmp_path):
    with fake_awx.running("hypervisors") as awx:
        code, text = set_up(tmp_path, awx, "--check")
        assert code == 0, text
        assert (
            "A run would make: inventories drover-hypervisors, drover-store, drover-fleet; job"
            " templates drover-discover" in text
        )
        assert awx.writes == []


def test_same_names_in_another_organization_are_refused(tmp_path):
    with fake_awx.running("hypervisors") as awx:
        other = awx.add("organizations", name="Other Unit")
        awx.add("inventories", name="drover-hypervisors", organization=other["id"])
        code, text = set_up(tmp_path, awx)
        assert code == 2
        assert (
            "The organization Other Unit has an inventory drover-hypervisors already"
            in " ".join(text.split())
        ), text
        assert awx.writes == []


def test_wrapper_of_the_project_does_the_same(tmp_path):
    with fake_awx.running("hypervisors") as awx:
        text = set_up(tmp_path, awx, "--check", playbook=str(shipped.PROJECT / "awx_setup.yml"))[1]
        assert "Show what would be made" in text, text
        assert awx.writes == []


def test_without_awx_awx_it_says_what_to_install(tmp_path, collections):
    # The collections that ours depends on, without other content than the Python packages.
    (tmp_path / "ansible_collections").mkdir()
    (tmp_path / "ansible_collections" / "drover").symlink_to(
        collections / "ansible_collections" / "drover"
    )
    general = os.path.join(sysconfig.get_path("purelib"), "ansible_collections", "community")
    (tmp_path / "ansible_collections" / "community").symlink_to(general)
    only = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path), "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false"}
    code, text = set_up(tmp_path, None, environment=only)
    assert code != 0
    assert "The collection awx.awx is not installed" in " ".join(text.split()), text


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "Both drover_awx_store_url"),
        ({"drover_awx_store_url": "postgresql://db/x"}, "drover_awx_image"),
        (
            {"drover_awx_store_url": "sqlite:////x", "drover_awx_image": "x"},
            "Give the URL of a PostgreSQL database",
        ),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(tmp_path, said, words):
    code, text = set_up(tmp_path, None, said=said)
    assert code != 0
    assert words in " ".join(text.split())


def test_a_project_that_could_not_be_read_is_synchronized_by_the_next_run(tmp_path):
    with fake_awx.running("hypervisors") as awx:
        awx.repository = False
        awx.output = (
            'fatal: [localhost]: FAILED! => {"changed": false, "msg": "Failed to checkout mian of'
            ' https://u:hush@git"}'
        )
        code, output = set_up(tmp_path, awx)
        text = " ".join(output.split())
        assert (
            code == 2
            and "could not synchronize the project drover-project (branch main of https://github.com"
            in text
        ), output
        assert (
            "Failed to checkout mian of https://***@git. The whole output is that of the project"
            " update" in text
        )
        awx.repository = True
        code, output = set_up(tmp_path, awx)
        assert code == 0, output
        assert awx.named("job_templates", "drover-drain")


def test_awx_7_hypervisors_are_made_a_hundred_at_a_time_and_not_looked_at_one_by_one(tmp_path):
    settings = {
        **SAID,
        "drover_awx_hypervisors": {
            f"kvm{number}": {"ansible_host": f"192.0.2.{number}"} for number in range(1, 251)
        },
    }
    settings["drover_awx_hypervisors"]["kvm7"] = None
    with fake_awx.running("hypervisors") as awx:
        code, text = set_up(tmp_path, awx, said=settings)
        assert code == 0, text
        assert [path for dummy, path, data in awx.writes if path.startswith(("hosts", "bulk"))] == [
            "bulk/host_create"
        ] * 3
        (group,) = awx.objects["groups"]
        assert len(awx.members("groups", group["id"], "hosts")) == 250
        assert json.loads(awx.named("hosts", "kvm250")["variables"]) == {
            "ansible_host": "192.0.2.250"
        }
        # Only these are written: one with other variables, one that was disabled by hand, and a new
        # one.
        settings["drover_awx_hypervisors"]["kvm9"] = {"ansible_host": "192.0.2.99"}
        settings["drover_awx_hypervisors"]["kvm300"] = {}
        awx.named("hosts", "kvm8")["enabled"] = False
        first = len(awx.writes)
        code, text = set_up(tmp_path, awx, said=settings)
        assert code == 0, text
        numbers = {f"hosts/{awx.named('hosts', name)['id']}" for name in ("kvm8", "kvm9")}
        assert {
            path for dummy, path, data in awx.writes[first:] if path.startswith(("hosts", "bulk"))
        } == {*numbers, "bulk/host_create"}
        assert (
            awx.named("hosts", "kvm8")["enabled"]
            and len(awx.members("groups", group["id"], "hosts")) == 251
        )
        first = len(awx.writes)
        code, text = set_up(
            tmp_path,
            awx,
            said={**settings, "drover_awx_hypervisors": {"kvm1": {"ansible_host": "192.0.2.1"}}},
        )
        assert code == 0 and not [
            path
            for dummy, path, data in awx.writes[first:]
            if path.startswith(("hosts", "bulk", "groups"))
        ]
        # The hosts that left are named in order (row 18).
        assert "kvm10, kvm100, kvm101" in " ".join(text.split())


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"CONTROLLER_HOST": ""}, "CONTROLLER_HOST is empty: no AWX is named."),
        ({"CONTROLLER_HOST": None}, "CONTROLLER_HOST is not set: no AWX is named."),
    ],
)
def test_awx_10_without_an_address_it_says_so(tmp_path, environment, words):
    code, text = set_up(tmp_path, None, environment=environment)
    assert code != 0 and words in " ".join(text.split()), text


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"drover_awx_hypervisors": ["kvm1"]},
            "drover_awx_hypervisors must be a mapping of names of hosts",
        ),
        (
            {"drover_awx_hypervisors": {"kvm1": "192.0.2.11"}},
            "such as {kvm1: {ansible_host: 192.0.2.11}}. It is another mapping.",
        ),
        (
            {"drover_awx_credentials": "hypervisors"},
            "drover_awx_credentials must be a list of credentials, by name or id. It is a text.",
        ),
        ({"drover_awx_viewers": "guests"}, "drover_awx_viewers must be a list of teams"),
        (
            {"drover_awx_approval_timeout": "1h"},
            'drover_awx_approval_timeout must be a whole number of at least 1. It is "1h".',
        ),
        (
            {"drover_awx_audit_rrule": "daily"},
            "drover_awx_audit_rrule must be a rule such as DTSTART",
        ),
    ],
)
def test_awx_11_values_of_another_kind_are_refused_before_anything_is_made(tmp_path, said, words):
    with fake_awx.running("hypervisors") as awx:
        code, text = set_up(tmp_path, awx, said={**SAID, **said})
        assert code != 0 and words in " ".join(text.split()), text
        assert awx.writes == [] and SECRET not in text


def test_awx_12_a_project_without_the_playbooks_is_one_sentence(tmp_path):
    with fake_awx.running("hypervisors") as awx:
        awx.playbooks = ["discover.yml", "drain.yml"]
        code, text = set_up(tmp_path, awx)
        one_line = " ".join(text.split())
        assert code != 0 and one_line.count("The project drover-project has no playbooks/") == 1, (
            text
        )
        assert (
            'drover_awx_playbooks is "playbooks/".' in one_line
            and "job_templates" not in awx.objects
        )


def test_awx_22_an_inventory_of_another_kind_is_refused(tmp_path):
    with fake_awx.running("hypervisors") as awx:
        awx.add(
            "inventories",
            name="drover-fleet",
            organization=awx.named("organizations", "Default")["id"],
        )
        code, text = set_up(tmp_path, awx)
        assert (
            code != 0
            and "AWX has an inventory drover-fleet of another kind (plain in place of constructed)"
            in " ".join(text.split())
        ), text
        assert awx.writes == []


def test_awx_2_approvers_may_read_the_jobs_with_the_plan(made):
    for name in ("rolling-maintenance", "evacuate", "discover"):
        assert may(made, "leads", "job_templates", name, "read_role"), name
        assert not may(made, "leads", "job_templates", name, "execute_role"), name

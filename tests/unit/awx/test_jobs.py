# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks as AWX runs them.

ansible-runner runs them from the installed collection, in a project folder with only wrappers. The
answers of the survey are extra variables, and the store's URL is in the environment.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import uuid

import ansible_runner
import pytest
import yaml

from ansible_collections.drover.compute.tests.unit.awx import shipped

pytestmark = pytest.mark.long

NODE = """<node>
  <domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>
    <os><type>hvm</type></os></domain>
  <cpu><mhz>2000</mhz><model>x86_64</model><active>8</active><nodes>1</nodes><sockets>2</sockets><cores>4</cores><threads>1</threads></cpu>
  <memory>16777216</memory>
</node>
"""


class Job:
    """The end of a job: its status, its output, its artifacts, and the results of its tasks by
    name."""

    def __init__(self, runner):
        self.status = runner.status
        self.stdout = runner.stdout.read()
        self.results = {}
        self.failures = []
        self.artifacts = {}
        for event in runner.events:
            data = event.get("event_data", {})
            self.artifacts.update(data.get("artifact_data") or {})
            if event["event"] in ("runner_on_ok", "runner_on_failed"):
                self.results.setdefault(data["task"], []).append(data["res"])
            if event["event"] == "runner_on_failed":
                self.failures.append(data["res"].get("msg", ""))


@pytest.fixture(scope="module")
def awx(tmp_path_factory, collections, postgres):
    """``awx(template, **answers)`` starts a job of a job template and returns a Job."""
    base = tmp_path_factory.mktemp("awx")
    project = base / "project"
    shutil.copytree(
        collections / "ansible_collections/drover/compute/extensions/awx/project", project
    )
    hosts = {}
    for name in ("kvm1", "kvm2"):
        node = base / f"{name}.xml"
        node.write_text(NODE.format(name=f"on-{name}", uuid=uuid.uuid5(uuid.NAMESPACE_DNS, name)))
        hosts[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "drover_uris": [f"test://{node}"],
            "drover_instances_path": str(base),
        }
    (base / "inventory").mkdir()
    www = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (base / "inventory" / "hosts.yml").write_text(
        json.dumps({"hypervisors": {"hosts": hosts}, "web": {"hosts": {"www1": www}}})
    )
    templates = {
        each["name"]: each
        for each in shipped.objects(drover_awx_playbooks="")["controller_templates"]
    }

    with postgres.database() as url:

        def start(template, check=False, extra_vars=None, **given):
            # Otherwise ansible-runner uses the settings of its last run: --check stays.
            shutil.rmtree(base / "env", ignore_errors=True)
            runner = ansible_runner.run(
                private_data_dir=str(base),
                playbook=templates[f"drover-{template}"]["playbook"],
                # AWX gives the job's name to the playbook; that tells an empty answer of a survey
                # from an empty variable of a shell.
                extravars={
                    "awx_job_id": 1,
                    "tower_job_id": 1,
                    **(extra_vars or {}),
                    **shipped.answers(template, **given),
                },
                cmdline="--check" if check else None,
                envvars={
                    "ANSIBLE_COLLECTIONS_PATH": str(collections),
                    "ANSIBLE_LOCALHOST_WARNING": "false",
                    "DROVER_STORE_URL": url,
                    "HOME": str(base),
                    "LC_ALL": "C.UTF-8",
                    # AWX does not set this variable; an earlier test may have left it in the
                    # environment.
                    "COLUMNS": "",
                    "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                quiet=True,
            )
            return Job(runner)

        start.url, start.base, start.collections = url, base, collections
        yield start


def succeeded(job):
    assert job.status == "successful", job.stdout
    return job


def sentence(job):
    assert job.status == "failed", job.stdout
    return job.failures[-1]


@pytest.fixture(scope="module")
def fleet(awx):
    """The same, with two hypervisors discovered."""
    job = succeeded(awx("discover"))
    assert "kvm1" in job.stdout and "kvm2" in job.stdout
    return awx


def test_nothing_of_the_checkout_is_used(fleet):
    job = succeeded(fleet("hosts"))
    assert "kvm2" in job.stdout
    # The project contains only the wrappers that ansible-runner ran.
    assert not (fleet.base / "project" / "plugins").exists()
    assert str(shipped.ROOT) not in job.stdout


def test_hosts_with_a_host_shows_its_instances(fleet):
    assert "on-kvm2" in succeeded(fleet("hosts", drover_host="kvm2")).stdout


def test_lines_of_a_job_are_whole(fleet):
    """The terminal of ansible-runner has 80 columns, the page of the job any number."""
    lines = succeeded(fleet("hosts")).stdout.splitlines()
    assert any(
        line.startswith("HOST ") and "FREE VCPU, MEMORY, DISK" in line and len(line) > 80
        for line in lines
    ), lines


def test_audit_leaves_its_data_as_artifact(fleet):
    job = succeeded(fleet("audit", drover_audit_heal="true", drover_audit_strict="true"))
    assert (
        job.results["Keep the data as the job's artifact"][0]["ansible_stats"]["data"][
            "drover_audit"
        ]["sound"]
        is True
    )


def test_drain_shows_its_plan_and_changes_nothing(fleet):
    job = succeeded(
        fleet("drain", drover_host="kvm1", drover_unmovable="skip", drover_plan_only="true")
    )
    assert "Nothing was changed: this is the plan of a drain of kvm1." in job.stdout
    assert "disabled" not in succeeded(fleet("hosts")).stdout


def test_drain_as_a_check(fleet):
    job = succeeded(fleet("drain", check=True, drover_host="kvm1", drover_unmovable="skip"))
    assert "Nothing was changed: this is the plan of a drain of kvm1." in job.stdout
    assert "disabled" not in succeeded(fleet("hosts")).stdout


def test_rolling_maintenance_shows_its_batches(fleet):
    job = succeeded(
        fleet(
            "rolling-maintenance",
            drover_plan_only="true",
            drover_rolling_reboot="always",
            drover_rolling_blocked="skip",
        )
    )
    assert "kvm1" in job.stdout


def test_rolling_maintenance_in_the_workflow_shows_its_batches_first(fleet):
    answered = shipped.answers("rolling-maintenance-approved", drover_rolling_blocked="skip")
    assert "drover_plan_only" not in answered
    succeeded(fleet("rolling-maintenance", drover_plan_only="true", **answered))


def test_report_writes_its_page_where_it_is_told(fleet):
    page = fleet.base / "fleet.html"
    succeeded(fleet("report", extra_vars={"drover_report": str(page)}))
    assert "kvm2" in page.read_text()
    # Without a path the page is beside the playbook, in the folder that is removed with the job.
    succeeded(fleet("report"))


def test_report_is_copied_to_its_host(fleet):
    page = fleet.base / "www.html"
    job = succeeded(
        fleet("report", extra_vars={"drover_report_host": "www1", "drover_report": str(page)})
    )
    assert "kvm2" in page.read_text() and page.stat().st_mode & 0o777 == 0o644
    assert job.artifacts["drover_report_result"]["page"] == f"www1:{page}"
    assert job.artifacts["drover_report_result"]["summary"]["hosts"] == 2
    # The file that the job wrote here first is removed.
    assert not os.path.exists(
        job.results["Make room for the page that goes to another host"][0]["path"]
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"drover_report_host": "www1"}, "Give the absolute path of the page there"),
        (
            {"drover_report_host": "www9", "drover_report": "/x.html"},
            "The inventory has no host www9",
        ),
    ],
)
def test_report_for_no_place_is_refused(fleet, given, words):
    assert words in sentence(fleet("report", extra_vars=given))


def test_artifacts_are_small_summaries(fleet):
    hosts = succeeded(fleet("hosts")).artifacts["drover_hosts_result"]
    assert (hosts["hosts"], hosts["down"], hosts["maintenance"]) == (2, [], [])
    rebalance = succeeded(fleet("rebalance")).artifacts["drover_rebalance_result"]
    assert (rebalance["applied"], rebalance["failed"]) == (False, [])
    drain = succeeded(
        fleet("drain", drover_host="kvm1", drover_unmovable="skip", drover_plan_only="true")
    ).artifacts["drover_drain_result"]
    planned = {
        "host": "kvm1",
        "status": "planned",
        "message": "Nothing was changed on kvm1: this is the plan.",
    }
    assert (
        drain["hosts"] == [planned]
        and drain["staying"] == ["on-kvm1"]
        and "plan of a drain of kvm1" in drain["message"]
    )


def test_artifacts_are_there_after_a_failure(fleet):
    drain = fleet("drain", drover_host="kvm9")
    assert sentence(drain) == drain.artifacts["drover_drain_result"]["message"]
    assert [
        (each["host"], each["status"]) for each in drain.artifacts["drover_drain_result"]["hosts"]
    ] == [("kvm9", "failed")]
    evacuate = fleet("evacuate", check=True, drover_host="kvm1")
    assert "kvm1 is up in the store" in sentence(evacuate)
    assert evacuate.artifacts["drover_evacuate_result"]["message"] == sentence(evacuate)


@pytest.mark.parametrize(
    "definitions, words",
    [
        ("- name: web1\n  memory_mb: 99T\n", "No valid host for web1"),
        ("[]", "There is nothing to place"),
        ("- a", "must be a list"),
    ],
)
def test_place_leaves_its_refusal_as_artifact(fleet, definitions, words):
    job = fleet("place", check=True, drover_instance_definitions=definitions)
    assert words in sentence(job)
    assert job.artifacts["drover_place_result"] == {
        "message": sentence(job),
        "instances": {},
        "failed": [],
    }


def test_artifacts_do_not_stop_the_next_node_of_a_workflow(fleet):
    """AWX gives the answers to the playbook as extra variables."""
    answers = {
        f"drover_{name}_result": {}
        for name in ("drain", "evacuate", "place", "rebalance", "hosts", "report")
    }
    succeeded(fleet("hosts", extra_vars=answers))
    plan = succeeded(
        fleet("rolling-maintenance", drover_plan_only="true", drover_rolling_blocked="skip")
    )
    again = fleet(
        "rolling-maintenance",
        extra_vars=plan.artifacts,
        drover_rolling_blocked="skip",
        drover_plan_only="true",
    )
    assert "drover_rolling" in plan.artifacts and succeeded(again)


def test_options_of_migrations_and_hooks_are_texts(fleet):
    job = succeeded(
        fleet(
            "drain",
            drover_host="kvm1",
            drover_unmovable="skip",
            drover_plan_only="true",
            drover_migration='{"bandwidth_mib": 50}',
        )
    )
    assert "plan of a drain of kvm1" in job.stdout
    job = fleet(
        "rolling-maintenance",
        drover_plan_only="true",
        drover_rolling_blocked="skip",
        drover_rolling_hooks='{"after_drains": "update.yml"}',
    )
    assert "after_drains" in sentence(job)


def test_instances_are_names_with_commas(fleet):
    job = succeeded(fleet("instance-start", check=True, drover_instances="on-kvm1,on-kvm2"))
    assert "on-kvm1" in job.stdout + str(job.results) and "on-kvm2" in job.stdout + str(job.results)
    assert "web9" in sentence(fleet("instance-stop", drover_instances="on-kvm1,web9"))


def test_awx_16_names_with_spaces_between(fleet):
    succeeded(fleet("instance-show", drover_instances="on-kvm1, on-kvm2"))
    succeeded(fleet("instance-start", check=True, drover_instances=" on-kvm1 ,on-kvm2"))


def test_awx_17_a_check_shows_what_a_run_would_do(fleet):
    job = succeeded(fleet("instance-stop", check=True, drover_instances="on-kvm1"))
    assert "on-kvm1 on kvm1: would be shut down." in job.stdout
    job = succeeded(fleet("instance-start", check=True, drover_instances="on-kvm1"))
    assert "on-kvm1 on kvm1: nothing would change." in job.stdout
    # The test driver moves nothing.
    job = fleet(
        "instance-migrate", check=True, drover_instances="on-kvm1", drover_destination="kvm2"
    )
    assert sentence(job) and '"changed": true' not in job.stdout


def test_awx_3_a_rolling_maintenance_has_its_artifact_whatever_happens(fleet):
    plan = succeeded(
        fleet(
            "rolling-maintenance",
            drover_plan_only="true",
            drover_rolling_reboot="always",
            drover_rolling_blocked="skip",
        )
    )
    artifact = plan.artifacts["drover_rolling"]
    assert (
        not artifact["finished"]
        and [each["host"] for each in artifact["left_out"]] == ["kvm1", "kvm2"]
        and artifact["batches"] == []
    )
    refused = fleet("rolling-maintenance", drover_plan_only="true", drover_rolling_reboot="always")
    assert refused.artifacts["drover_rolling"]["message"] == sentence(
        refused
    ) and "cannot be taken" in sentence(refused)
    # The output has the reason once for all hosts (row 15).
    assert "the same for kvm2" in sentence(refused) and sentence(refused).count("kvm2") == 1
    hooks = fleet("rolling-maintenance", drover_rolling_hooks='{"nonsense": "update.yml"}')
    assert hooks.artifacts["drover_rolling"]["message"] == sentence(hooks)


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        (
            '{"nonsense": "update.yml"}',
            "drover_rolling_hooks: nonsense is update.yml, but there is no such hook",
        ),
        (
            '{"after_drain": 5}',
            "drover_rolling_hooks: after_drain is 5, which is no path of a task file",
        ),
        ("update.yml", "drover_rolling_hooks' must be a mapping, not 'update.yml'"),
    ],
)
def test_awx_4_a_wrong_hook_is_one_sentence(fleet, hooks, words):
    job = fleet("rolling-maintenance", drover_rolling_hooks=hooks)
    assert words in sentence(job)
    assert "Supported parameters" not in job.stdout and len(job.failures) == 1


@pytest.mark.parametrize("path", ["../../../../../../etc/passwd", "/etc/passwd", "link.yml"])
def test_awx_5_files_outside_of_the_project_are_not_read(fleet, path):
    link = fleet.base / "project" / "link.yml"
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/passwd")
    message = sentence(fleet("place", drover_definitions=path))
    assert "outside of the project of this job" in message and "root:" not in message
    message = sentence(
        fleet("rolling-maintenance", drover_rolling_hooks=json.dumps({"after_drain": path}))
    )
    assert (
        "drover_rolling_hooks: after_drain is" in message
        and "outside of the project of this job" in message
    )


def test_awx_5_no_more_than_one_short_key_of_a_wrong_file_is_shown(fleet):
    (fleet.base / "project" / "wrong.yml").write_text(
        "".join(f"{name}: {'x' * 90}\n" for name in ("a" * 70, "b" * 70))
    )
    message = sentence(fleet("place", drover_definitions="wrong.yml"))
    assert (
        f"unknown key {'a' * 40}... and 1 more" in message
        and "a" * 41 not in message
        and "bb" not in message
    )


def test_abort_of_migrations_wants_an_instance_or_a_host(fleet):
    job = fleet("migration-abort")
    # The reason is in the output once, not for each host (row 4).
    assert "Which migrations?" in sentence(job) and len(job.failures) == 1
    succeeded(fleet("migration-abort", drover_host="kvm1"))
    succeeded(fleet("migration-abort", drover_instances="on-kvm1"))


def test_rebalance_shows_its_moves(fleet):
    assert "Make the moves" not in succeeded(fleet("rebalance")).results


def test_place_takes_definitions_from_the_survey(fleet):
    job = succeeded(
        fleet("place", check=True, drover_instance_definitions="- name: web1\n  memory_mb: 64\n")
    )
    assert "web1" in job.stdout
    # The instance was not placed, so it has no host.
    assert job.artifacts["drover_place_result"] == {
        "message": "",
        "instances": {"web1": None},
        "failed": [],
    }


def test_place_names_the_instances_that_no_host_built(fleet):
    """The template of their domain is missing."""
    job = fleet(
        "place",
        extra_vars={"drover_domain_template": "/nowhere.xml.j2"},
        drover_instance_definitions="- name: web1\n  memory_mb: 64\n",
    )
    assert job.status == "failed", job.stdout
    result = job.artifacts["drover_place_result"]
    assert (result["failed"], result["instances"].get("web1")) == (["web1"], None) and result[
        "message"
    ], job.stdout


def test_undrain_of_a_host_that_was_not_drained(fleet):
    fleet("undrain", drover_host="kvm1")
    assert "disabled" not in succeeded(fleet("hosts")).stdout


@pytest.mark.parametrize(
    ("template", "given", "words"),
    [
        ("hosts", {"drover_host": "kvm9"}, "kvm9"),
        (
            "discover",
            {"drover_hypervisors": "kvm9"},
            "The inventory has no host that matches 'kvm9'",
        ),
        ("drain", {"drover_host": "kvm9"}, "kvm9"),
        ("drain", {"drover_host": ""}, "Which host? Name a host"),
        (
            "drain",
            {"drover_host": "kvm1", "drover_unmovable": "maybe"},
            "unmovable must be one of: fail, skip, shutdown",
        ),
        ("undrain", {"drover_host": "kvm9"}, "kvm9"),
        (
            "rolling-maintenance",
            {"drover_rolling_reboot": "soon"},
            "drover_rolling_reboot must be one of: needed, always, never",
        ),
        ("evacuate", {"drover_host": "kvm1"}, "kvm1 is up in the store, so it is not evacuated"),
        ("power", {"drover_host": "kvm1"}, "drover_power_driver"),
        ("place", {}, "There is nothing to place"),
        ("place", {"drover_definitions": "none.yml"}, "none.yml"),
        (
            "place",
            {"drover_instance_definitions": "web1"},
            "drover_instance_definitions must be a list of definitions",
        ),
        (
            "place",
            {"drover_instance_definitions": "- web1"},
            "drover_instance_definitions must be a list of definitions",
        ),
        ("place", {"drover_instance_definitions": "- {name: web1}"}, "memory_mb"),
        ("place", {"drover_instance_definitions": "- {name: web1"}, "drover_instance_definitions"),
    ],
)
def test_wrong_answer_is_told_in_a_sentence(fleet, template, given, words):
    said = sentence(fleet(template, **given))
    assert words in said
    assert "Traceback" not in said and "hush" not in said


def test_secret_of_the_store_is_in_no_output(fleet):
    secret = fleet.url.split(":")[2].split("@")[0]
    for path in (fleet.base / "artifacts").rglob("*"):
        if path.is_file() and path.name != "command":
            assert secret not in path.read_text(), path


def test_inventory_source_reads_the_store(fleet, monkeypatch):
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    out, err = ansible_runner.get_inventory(
        action="list",
        inventories=[str(fleet.base / "project" / "inventory" / "fleet.drover.yml")],
        response_format="json",
        quiet=True,
        envvars={
            "ANSIBLE_COLLECTIONS_PATH": str(fleet.collections),
            "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
            "DROVER_STORE_URL": fleet.url,
            "HOME": str(fleet.base),
        },
    )
    assert sorted(out["hypervisors"]["hosts"]) == ["kvm1", "kvm2"], err
    # ansible-core 2.19 and later gives a mapping that marks the value as no template.
    assert out["_meta"]["hostvars"]["kvm1"]["drover_compute"]["state"] in (
        "up",
        {"__ansible_unsafe": "up"},
    )


def test_requirements_name_this_collection_and_version(collections):
    (requirement,) = yaml.safe_load(
        (shipped.PROJECT / "collections" / "requirements.yml").read_text()
    )["collections"]
    galaxy = yaml.safe_load((shipped.ROOT / "galaxy.yml").read_text())
    assert requirement == {"name": "drover.compute", "version": f">={galaxy['version']}"}

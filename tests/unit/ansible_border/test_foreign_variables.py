# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that a playbook does not read: the playbook refuses them first."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml

from ansible_collections.drover.compute.plugins.filter import _without_tags
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import (
    foreign_variables,
    known_variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.playbook_variables import (
    READ,
)
from ansible_collections.drover.compute.tests.unit import examples, pages
from ansible_collections.drover.compute.tests.unit.action.running import ansible, failure, run
from ansible_collections.drover.compute.tests.unit.awx import shipped

PLAYBOOKS = sorted(_without_tags.PLAYBOOKS.glob("*.yml"))
REFUSING = [path.stem for path in PLAYBOOKS if "selector" not in READ[path.stem].split()]
PREFIX = known_variables.PREFIX


def refused(folder, name, *words, inventory="hypervisors: {hosts: {kvm1: {}, kvm2: {}}}\n"):
    """Run a playbook that must end at its first task without any change; return its output in one
    line."""
    (folder / "hosts.yml").write_text(inventory, encoding="utf-8")
    status, output = ansible(folder, "playbook", "-i", "hosts.yml", name, *words)
    assert status != 0 and "changed=0" in output, output
    assert re.findall(r"^TASK \[(.*?)\]", output, re.MULTILINE) == [
        "Refuse variables that this playbook does not read"
    ], output
    assert not (folder / ".ansible" / "drover" / "store.db").exists()
    return " ".join(output.split())


def test_which_playbooks_take_a_selector():
    taking = set(READ) - set(REFUSING)
    assert {"hosts", "instances", "instance_stop", "instance_delete", "migration_abort"} <= taking
    assert not {"drain", "evacuate", "power", "place", "discover", "rebalance"} & taking


@pytest.mark.parametrize("name", REFUSING)
def test_who_does_not_take_a_selector_refuses_it(name):
    said = failure("_variables", {"drover_selector": "rack=7"}, playbook=name)
    wanted = (
        f"drover.compute.{name} takes no drover_selector (rack=7): it would not be limited to what"
        " that selects. Leave it out. Nothing"
    )
    assert said.startswith(wanted)


@pytest.mark.parametrize(
    "name, words, wanted",
    [
        (
            "rolling_maintenance",
            ["drover_host=kvm1", "drover_rolling_all_hosts=true"],
            "takes no drover_host (kvm1): it works on all hosts",
        ),
        (
            "drain",
            ["drover_host=kvm1", "drover_destination=kvm2"],
            "takes no drover_destination (kvm2): the scheduler picks the hosts.",
        ),
        (
            "place",
            ["drover_plan_only=true", "drover_definitions=fleet.yml"],
            "takes no drover_plan_only: it would change nothing. It is read by",
        ),
        (
            "capacity",
            ["drover_host="],
            "takes no drover_host: it would not be limited to what that names.",
        ),
        ("undrain", ["drover_host=kvm1", "drover_plan_only=true"], "takes no drover_plan_only"),
        (
            "instance_migrate",
            ["drover_instance=web", "drover_host=kvm2"],
            "Say where they go with drover_destination, or leave it to",
        ),
        (
            "power",
            ["drover_host=kvm1", "drover_host_is_off=x"],
            "takes no drover_host_is_off: it would change nothing. It is read by evacuate. Leave it out.",
        ),
        (
            "hosts",
            ["drover_power_password=secret"],
            "takes no drover_power_password: it would change nothing.",
        ),
    ],
)
def test_walk_f03_a_variable_of_another_playbook_is_refused(name, words, wanted, tmp_path):
    """``rolling_maintenance -e drover_host=kvm1`` took the whole fleet."""
    output = refused(
        tmp_path, f"drover.compute.{name}", *(word for each in words for word in ("-e", each))
    )
    assert wanted in output and "secret" not in output


@pytest.mark.parametrize(
    "name, words, wanted",
    [
        (
            "rolling_maintenance",
            ["drover_pool=fast"],
            "takes no drover_pool (fast): it would not be limited to what that names.",
        ),
        (
            "discover",
            ["drover_host=kvm1"],
            "Limit it with --limit localhost,kvm1, or with -e drover_hypervisors=kvm1. Leave it out.",
        ),
        (
            "place",
            ["drover_host=kvm1", "drover_definitions=fleet.yml"],
            "Say where an instance goes with force_hosts in its definition.",
        ),
        (
            "rebalance",
            ["drover_host=kvm1"],
            "takes no drover_host (kvm1): it would not be limited to what that names.",
        ),
        ("audit", ["drover_audit_heal=true", "drover_plan_only=true"], "takes no drover_plan_only"),
        (
            "instance_resize",
            ["drover_instance=web", "drover_host=kvm2"],
            "Say where they go with drover_destination, or leave it to",
        ),
        (
            "instances",
            ["drover_instance=web"],
            "takes no drover_instance (web): it would not be limited to what that names.",
        ),
    ],
)
def test_walk_f03_what_it_says_of_others(name, words, wanted):
    given = dict(each.split("=", 1) for each in words)
    names = foreign_variables.of_others(name, given, given)
    assert wanted in foreign_variables.refusal(name, names, given)


def test_walk_f15_a_variable_without_the_prefix_is_named():
    """``instance_delete -e force=true`` was accepted without a message, and the power was not
    cut.
    """
    (sentence,) = foreign_variables.without_prefix(
        "instance_delete", ["force", "mine", "drover_instance"]
    )
    assert (
        "does not read the variable force" in sentence
        and "If you mean drover_instance_force, give that." in sentence
    )


def test_walk_f03_from_a_file_several_at_once(tmp_path):
    (tmp_path / "more.yml").write_text(
        "drover_host: [kvm1, kvm2]\ndrover_migrate_cold: true\n", encoding="utf-8"
    )
    output = refused(tmp_path, "drover.compute.rolling_maintenance", "-e", "@more.yml")
    assert (
        "takes no drover_host (kvm1, kvm2)" in output
        and "takes no drover_migrate_cold" in output
        and "Leave them out." in output
    )


def test_walk_f03_from_a_play_that_imports_the_playbook(tmp_path):
    """The mistake is the same: the whole fleet instead of one host."""
    imported = [
        {"import_playbook": "drover.compute.rolling_maintenance", "vars": {"drover_host": "kvm1"}}
    ]
    (tmp_path / "own.yml").write_text(yaml.safe_dump(imported), encoding="utf-8")
    assert "takes no drover_host (kvm1)" in refused(tmp_path, "own.yml")


def test_walk_f03_from_the_inventory(tmp_path):
    output = refused(
        tmp_path,
        "drover.compute.rolling_maintenance",
        inventory="all: {vars: {drover_host: kvm1}}\nhypervisors: {hosts: {kvm1: {}}}\n",
    )
    assert "takes no drover_host (kvm1)" in output


def test_walk_f03_a_file_and_a_list_of_definitions(tmp_path):
    """The list was ignored without a message."""
    (tmp_path / "hosts.yml").write_text(
        "all: {vars: {drover_definitions: fleet.yml}}\n", encoding="utf-8"
    )
    (tmp_path / "fleet.yml").write_text(
        "instances: [{name: web, memory_mb: 64}]\n", encoding="utf-8"
    )
    typed = '{"drover_instance_definitions": [{"name": "db", "memory_mb": 64}]}'
    status, output = ansible(
        tmp_path, "playbook", "-i", "hosts.yml", "drover.compute.place", "-e", typed
    )
    text = " ".join(output.split())
    assert (
        status == 2
        and "drover_definitions names the file fleet.yml, and drover_instance_definitions has definitions too."
        in text
    ), output
    assert (
        "leave one out. Nothing was done." in text
        and not (tmp_path / ".ansible" / "drover" / "store.db").exists()
    )


def test_settings_in_the_inventory_are_for_those_who_read_them():
    """A default of the fleet, such as drover_unmovable, is for the playbooks that read it. AWX
    gives artifacts to the next job.
    """
    assert run(
        "_variables",
        {"drover_unmovable": "skip", "drover_max_migrations": 2, "drover_store_url": "x"},
        playbook="hosts",
    )
    assert foreign_variables.of_others("hosts", {"drover_drain_result", "drover_audit"}, ()) == []


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_it_is_the_first_task_of_the_first_plays(path):
    """With a limit the first play of discover is left out."""
    plays = [play for play in yaml.safe_load(path.read_text(encoding="utf-8")) if "hosts" in play]
    for play in plays[: 2 if path.stem == "discover" else 1]:
        assert play["tasks"][0].get("drover.compute._variables") == {"playbook": path.stem}, play[
            "name"
        ]
        assert play["tasks"][0].get("run_once", False) == ("hypervisors" in play["hosts"]), play[
            "name"
        ]


def test_every_command_of_the_pages_gives_what_is_read():
    count = 0
    for page in (examples.ROOT / "README.md", *(examples.ROOT / "docs").glob("*.md")):
        for command in pages.commands(page.read_text(encoding="utf-8")):
            words = shlex.split(command)
            names = [
                word.removeprefix(foreign_variables.NAMESPACE)
                for word in words
                if word.startswith(foreign_variables.NAMESPACE)
            ]
            if words[0] == "ansible-playbook" and len(names) == 1 and names[0] in READ:
                variables = set(re.findall(r"(drover_\w+)(?==|\")", command))
                assert foreign_variables.of_others(names[0], variables, variables) == [], (
                    f"{page.name}: {command}"
                )
                count += bool(variables)
    assert count > 50


def test_every_job_of_awx_gives_what_is_read():
    text = (examples.ROOT / "playbooks/vars/awx/objects/job_templates.yml").read_text(
        encoding="utf-8"
    )
    for job in yaml.safe_load(text)["controller_templates"]:
        name = job["playbook"].rpartition("}")[2].removesuffix(".yml")
        variables = set(re.findall(r"'(drover_\w+)':", str(job.get("extra_vars", ""))))
        assert foreign_variables.of_others(name, variables, variables) == [], name
    for template, name, questions in shipped.surveys():
        variables = {question["variable"] for question in questions}
        assert foreign_variables.of_others(name, variables, variables) == [], template


def test_every_rulebook_gives_what_is_read():
    count = 0
    for path in (examples.ROOT / "extensions/eda/rulebooks").glob("*.yml"):
        for match in re.finditer(
            r"name: (?:drover\.compute\.|.*}})([\w-]+)\"?\n(?:.*\n)*?( +)extra_vars:\n((?:\2 "
            r" .*\n)+)",
            path.read_text(encoding="utf-8"),
        ):
            given = set(re.findall(r"^ +(drover_\w+):", match[3], re.MULTILINE))
            assert foreign_variables.of_others(match[1].replace("-", "_"), given, given) == [], (
                f"{path.name}: {match[1]}"
            )
            count += 1
    assert count >= 4


@pytest.mark.parametrize(
    "name", ["drain", "undrain", "place", "instance_stop", "rolling_maintenance", "evacuate"]
)
def test_what_a_host_is_may_be_said_to_whatever_reads_hosts(name):
    """Such a run reads each host as discover does, with the same variables."""
    given = ("drover_shared_pools", "drover_uris", "drover_instances_path", "drover_migration_uri")
    assert foreign_variables.of_others(name, given, given) == []


def test_walk_f15_an_option_that_is_missing_has_its_variable():
    """The message named the options of a module, although a person types variables."""
    message = failure(
        "instance_disk", {"drover_instance": "web"}, name="web", store_url="sqlite:///nowhere.db"
    )
    assert "Set drover_disk_path (option path)." in message
    message = failure(
        "instance_cdrom", {"drover_instance": "web"}, name="web", store_url="sqlite:///nowhere.db"
    )
    assert "Set drover_disk_path (option path) or drover_disk (option target)." in message
    # A user of the module alone types options.
    assert "drover_" not in failure("instance_disk", name="web", store_url="sqlite:///nowhere.db")

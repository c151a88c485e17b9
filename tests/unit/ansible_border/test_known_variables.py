# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of known variables, compared with all files that name one; and the messages about
unknown ones."""

from __future__ import annotations

import importlib
import pathlib
import re

import pytest
import yaml
from ansible.utils.display import Display

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import known_variables
from ansible_collections.drover.compute.tests.unit.action.running import failure, play, run

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = "ansible_collections.drover.compute.plugins"
# The match is not part of a path, a URL, a longer word or a call, nor the beginning of a name.
NAME = re.compile(r"(?<![\w./-])drover_[a-z][a-z0-9_]*[a-z0-9](?![\w(])")
# Groups of a play, roles of a database, a key of a file: no variables.
OTHERS = {
    "drover_evacuate_read",
    "drover_placing",
    "drover_owner",
    "drover_run",
    "drover_read",
    "drover_write",
    "drover_store",
    "drover_awx",
    "drover_notice",
    "drover_libvirt_restart",
    # Variables of rulebooks.
    "drover_eda_uri",
}


def named():
    """Return every such name in the code, the playbooks and the pages."""
    folders = ("plugins", "roles", "playbooks", "extensions", "docs", "inventory")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".yml", ".j2", ".md")
    ]
    variables = {
        name
        for path in (*files, ROOT / "README.md")
        for name in NAME.findall(path.read_text(encoding="utf-8"))
    } - OTHERS
    # Metrics have the prefix too; test_metrics.py checks that their page has all of them.
    return variables - set(
        NAME.findall(
            (ROOT / "docs" / "metrics.md")
            .read_text(encoding="utf-8")
            .partition("## The figures")[2]
        )
    )


def of_options():
    """Return the variables that plugins and roles take options from."""
    names = set()
    for kind in ("action", "lookup"):
        for path in (ROOT / "plugins" / kind).glob("*.py"):
            module = importlib.import_module(f"{PACKAGE}.{kind}.{path.stem}")
            plugin = getattr(module, "ActionModule", None) or getattr(module, "LookupModule", None)
            variables = getattr(plugin, "VARIABLES", ())
            values = (
                variables.values()
                if isinstance(variables, dict)
                else [each if isinstance(each, str) else each[1] for each in variables]
            )
            names.update(f"drover_{each}" for each in values)
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            names.update(name for name in entry.get("options") or {} if name.startswith("drover_"))
    return names


def test_the_list_is_what_the_collection_names():
    assert named() | of_options() == known_variables.KNOWN


@pytest.fixture
def warned(monkeypatch):
    said = []
    monkeypatch.setattr(Display, "warning", lambda self, sentence, **dummy: said.append(sentence))
    return said


def test_an_unknown_variable_is_named_with_the_nearest(prepared_url, warned):
    run(
        "host_info",
        {"drover_store_urls": "x", "drover_xyzzy": 1, "drovers": 1, "drover_reason": "x"},
        store_url=prepared_url,
    )
    assert len(warned) == 2
    assert warned[0].startswith(
        "drover.compute has no variable drover_store_urls (did you mean drover_store_url?), so"
        " that it"
    )
    assert warned[1].startswith(
        "drover.compute has no variable drover_xyzzy, so that it changes nothing."
    )


# The former names of variables, before the names had their topic.
FORMER = {
    "all_hosts": "rolling_all_hosts",
    "apply": "plan_only",
    "bandwidth_mib": "migration",
    "batch_size": "rolling_batch_size",
    "blocked": "rolling_blocked",
    "bring_back": "rolling_bring_back",
    "cold": "migrate_cold",
    "cooldown": "rebalance_cooldown",
    "cost_per_gib": "rebalance_cost_per_gib",
    "despite_maintenance": "rebalance_despite_maintenance",
    "force": "instance_force",
    "hard": "reboot_hard",
    "heal": "audit_heal",
    "hooks": "rolling_hooks",
    "keep_disks": "delete_keep_disks",
    "margin": "rebalance_margin",
    "max_moves": "rebalance_max_moves",
    "reboot": "rolling_reboot",
    "release_expired": "audit_release_expired",
    "spare_hosts": "rolling_spare_hosts",
    "threshold": "rebalance_threshold",
    "timeout": "instance_timeout",
    "weights": "rebalance_weights",
}


@pytest.mark.parametrize("former, now", FORMER.items())
def test_a_former_name_leads_to_the_new_one(former, now):
    (sentence,) = known_variables.unknown([f"drover_{former}"])
    assert f"drover_{now}" in re.search(r"\(did you mean (.+?)\?\)", sentence).group(1).split(
        " or "
    )
    # If there is only one variable of that kind, the message offers no other name.
    if former not in ("force", "timeout"):
        assert sentence.startswith(
            f"drover.compute has no variable drover_{former} (did you mean drover_{now}?), so"
        )


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("max_move", "rebalance_max_moves"),
        ("hook", "rolling_hooks"),
        ("batch_sise", "rolling_batch_size"),
        ("plan_onyl", "plan_only"),
        ("instanc", "instance"),
        ("unmoveable", "unmovable"),
    ],
)
def test_a_mistyped_name_leads_to_the_right_one(typed, meant):
    (said,) = known_variables.unknown([f"drover_{typed}"])
    assert said.startswith(
        f"drover.compute has no variable drover_{typed} (did you mean drover_{meant}?), so"
    )


def test_known_variables_are_not_named(prepared_url, warned):
    others = (
        known_variables.KNOWN
        - {"drover_store_url", "drover_service_down_time"}
        - known_variables.YES_OR_NO
    )
    run(
        "host_info",
        {**dict.fromkeys(others, "x"), **dict.fromkeys(known_variables.YES_OR_NO, "yes")},
        store_url=prepared_url,
    )
    assert warned == []


def declared(kind):
    """The variables that roles declare with a type, and the options of plugins with this type."""
    variables = set()
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            variables.update(
                name
                for name, option in (entry.get("options") or {}).items()
                if option.get("type") == kind
            )
    for path in (ROOT / "plugins" / "action").glob("*.py"):
        plugin = getattr(
            importlib.import_module(f"{PACKAGE}.action.{path.stem}"), "ActionModule", None
        )
        for each in getattr(plugin, "VARIABLES", ()):
            option, variable = (each, each) if isinstance(each, str) else each
            if plugin.ARGUMENT_SPEC.get(option, {}).get("type") == kind:
                variables.add(f"drover_{variable}")
    return {
        name
        for name in variables
        if name in known_variables.KNOWN and not name.startswith("drover_awx_")
    }


def yes_or_no():
    """The variables that are declared as true or false, or that playbooks and roles read so."""
    variables = declared("bool")
    for path in (*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/*/**/*.yml")):
        variables.update(
            re.findall(
                r"\b(drover_\w+) *\| *default\([^)]*\) *\| *bool\b",
                path.read_text(encoding="utf-8"),
            )
        )
    return {name for name in variables if not name.startswith("drover_awx_")}


def test_all_variables_that_are_whole_numbers_are_known_as_that():
    of_playbooks = {"drover_history_rows"}
    assert declared("int") | of_playbooks == known_variables.WHOLE


def test_all_variables_that_are_true_or_false_are_known_as_that():
    lookups = {"drover_rebalance_despite_maintenance"}
    assert yes_or_no() | lookups == known_variables.YES_OR_NO


@pytest.mark.parametrize("value", ["maybe", "ture", "", None, 2, [], ["true"], {"a": 1}])
@pytest.mark.parametrize("name", ["drover_plan_only", "drover_audit_heal"])
def test_what_is_neither_true_nor_false_stops_a_task(prepared_url, name, value):
    """Ansible's filter bool reads it as false: ``drover_plan_only=ture`` began a real drain."""
    said = failure("host_info", {name: value}, store_url=prepared_url)
    assert (
        said
        == f"Nothing was done. {name} is {value!r}, which is neither true nor false. Write true,"
        " yes, on or 1, or false, no, off or 0."
    )


@pytest.mark.parametrize(
    "value", [True, False, "true", "False", "YES", "no", "on", "off", "1", "0", 1, 0]
)
def test_what_is_true_or_false_is_taken(prepared_url, value):
    run("host_info", {"drover_plan_only": value}, store_url=prepared_url)


def test_a_run_says_it_once(tmp_path, prepared_url):
    """The message comes once for any number of tasks and hosts."""
    tasks = [
        {"drover.compute.host_info": {"store_url": prepared_url}, "delegate_to": "localhost"}
    ] * 2
    status, output = play(
        tmp_path, tasks, hosts="all", options=("-i", "kvm1,kvm2,"), vars={"drover_uri": "x"}
    )
    assert status == 0, output
    # The variable belongs to more than one host and task.
    assert output.count("ok: [kvm") == 4, output
    assert " ".join(output.split()).count("(did you mean drover_uris?)") == 1, output


def test_a_wrong_name_on_the_command_line_stops_the_run(tmp_path, prepared_url):
    """``-e drover_plan_onyl=true`` began a real drain."""
    tasks = [{"drover.compute.host": {"name": "kvm1", "disabled": True, "store_url": prepared_url}}]
    status, output = play(tmp_path, tasks, options=("-e", "drover_plan_onyl=true"))
    text = " ".join(output.split())
    assert (
        status == 2
        and "Nothing was done. drover.compute has no variable drover_plan_onyl (did you mean drover_plan_only?)"
        in text
    )

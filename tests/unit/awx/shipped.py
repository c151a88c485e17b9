# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of AWX with their variables filled in, and the options of the playbooks."""

from __future__ import annotations

import functools
import importlib
import json
import pathlib
import re
import textwrap

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROOT = pathlib.Path(__file__).resolve().parents[3]
AWX = ROOT / "playbooks" / "vars" / "awx"
PROJECT = ROOT / "extensions" / "awx" / "project"
PLAYBOOKS = {path.stem: path for path in sorted((ROOT / "playbooks").glob("*.yml"))}
# The variables that a user must set, and one hypervisor.
SAID = {
    "drover_awx_store_url": "postgresql://drover:hush@db.example.com/drover",
    "drover_awx_image": "registry.example.com/drover-ee:1",
    "drover_awx_hypervisors": {"kvm1": {"ansible_host": "192.0.2.11"}, "kvm2": None},
    "drover_awx_credentials": ["hypervisors"],
}
LOOKUP = re.compile(r"""\b(?:lookup|query|q)\(\s*['"]drover\.compute\.(\w+)""")
PLAN = re.compile(r"drover\.compute\.((?:plan_\w+|schedule|capacity)_info):")
DEFAULT = re.compile(r"\b(drover_\w+) \| default\(([^()]*)\)( \| bool)?")


def read(path):
    """Return a file of variables as Ansible reads it, with trusted templates."""
    loader = DataLoader()
    try:
        return loader.load_from_file(str(path), trusted_as_template=True) or {}
    except TypeError:
        # ansible-core before 2.19 trusts it by default.
        return loader.load_from_file(str(path)) or {}


def documented(language):
    """Return the examples in docs/awx.md: YAML as data, others as text."""
    text = (ROOT / "docs" / "awx.md").read_text()
    blocks = [
        textwrap.dedent(block)
        for block in re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    ]
    return [yaml.safe_load(each) for each in blocks] if language == "yaml" else blocks


def objects(**said):
    """Return a dict controller_... -> list, as awx_setup gives the lists to the modules."""
    return json.loads(_objects(json.dumps(said)))


@functools.cache
def _objects(said):
    said = json.loads(said)
    variables = {**read(AWX / "defaults.yml"), **SAID, **said}
    raw = {}
    for path in sorted((AWX / "objects").glob("*.yml")):
        raw.update(read(path))
    templar = Templar(loader=DataLoader(), variables={**variables, **raw})
    # JSON makes the values plain: Ansible marks the values that it reads.
    return json.dumps(
        {
            name: templar.template(value)
            for name, value in raw.items()
            if name.startswith("controller_")
        }
    )


def surveys():
    """Return [(name of the template, name of its playbook, its questions)], also of workflows."""
    awx_objects = objects()
    templates = {
        each["name"]: pathlib.Path(each["playbook"]).stem
        for each in awx_objects["controller_templates"]
    }
    asking = [each for each in awx_objects["controller_templates"] if each["survey_enabled"]]
    shown = [
        (each["name"], templates[each["name"]], each["survey_spec"]["spec"]) for each in asking
    ]
    for workflow in awx_objects["controller_workflows"]:
        if workflow.get("survey_spec"):
            # The node after the approval does the work.
            (last,) = [
                node["unified_job_template"]["name"] for node in workflow["workflow_nodes"][-2:-1]
            ]
            shown.append((workflow["name"], templates[last], workflow["survey_spec"]["spec"]))
    return shown


def fragment(name):
    """A documentation fragment of the collection, such as drover.compute.store.plugin."""
    module, _dot, part = name.removeprefix("drover.compute.").partition(".")
    loaded = importlib.import_module(
        f"ansible_collections.drover.compute.plugins.doc_fragments.{module}"
    )
    return yaml.safe_load(getattr(loaded.ModuleDocFragment, part.upper() or "DOCUMENTATION"))


#: A variable that a module gets unchanged, or not at all.
OMITTED = re.compile(r"{{ (drover_\w+) \| default\(omit(?:, true)?\) }}")


def module_options(module):
    """The options of a module in its own documentation and its fragments."""
    source = (ROOT / "plugins" / "modules" / f"{module}.py").read_text()
    documented = yaml.safe_load(
        re.search(r'DOCUMENTATION = r?"""(.*?)"""', source, re.DOTALL).group(1)
    )
    shared = [
        fragment(name).get("options", {})
        for name in documented.get("extends_documentation_fragment", ())
    ]
    return {
        key: option
        for each in (*shared, documented.get("options", {}))
        for key, option in each.items()
    }


@functools.cache
def options(playbook):
    """Return a dict variable -> its options (type, choices, default, required) of a playbook.

    The options come from the argument specs of its roles, from the documentation of its lookups,
    from the documentation of modules that get variables with the default omit, and from the modules
    of plans. The playbook itself and its imported task files give more options if they have a
    default for a variable.
    """
    text = PLAYBOOKS[playbook].read_text()
    plays = yaml.safe_load(text)
    text += "".join(
        (ROOT / "playbooks" / path).read_text() for path in re.findall(r"import_tasks: (\S+)", text)
    )
    by_name = {}
    for name, default, is_bool in DEFAULT.findall(text):
        value = (
            {}
            if default.startswith("omit") or default.partition(",")[0] in ("''", "[]", "{}", "none")
            else {"default": yaml.safe_load(default.removesuffix(", true"))}
        )
        whole = isinstance(value.get("default"), int) and not isinstance(value.get("default"), bool)
        kind = "bool" if is_bool else "int" if whole else "str"
        by_name.setdefault(name, {}).update({"type": kind, **value})
    for lookup in LOOKUP.findall(text):
        source = (ROOT / "plugins" / "lookup" / f"{lookup}.py").read_text()
        documented = yaml.safe_load(
            re.search(r'DOCUMENTATION = r?"""(.*?)"""', source, re.DOTALL).group(1)
        )
        shared = [fragment(name) for name in documented.get("extends_documentation_fragment", ())]
        for option in [
            option for each in (documented, *shared) for option in each.get("options", {}).values()
        ]:
            for variable in option.get("vars", ()):
                by_name[variable["name"]] = option
    for module in PLAN.findall(text):
        plugin = importlib.import_module(
            f"ansible_collections.drover.compute.plugins.action.{module}"
        ).ActionModule
        for each in plugin.VARIABLES:
            option, variable = (each, each) if isinstance(each, str) else each
            by_name[f"drover_{variable}"] = plugin.ARGUMENT_SPEC[option]
    for play in plays:
        for task in _tasks(play.get("tasks", ())):
            role = task.get("ansible.builtin.import_role") or task.get(
                "ansible.builtin.include_role"
            )
            for module in [
                each.removeprefix("drover.compute.")
                for each in task
                if each.startswith("drover.compute.")
            ]:
                matches = {
                    option: OMITTED.fullmatch(str(value))
                    for option, value in (task[f"drover.compute.{module}"] or {}).items()
                }
                documented = module_options(module) if any(matches.values()) else {}
                by_name.update(
                    {
                        each.group(1): documented[option]
                        for option, each in matches.items()
                        if each and option in documented
                    }
                )
            if role:
                name = role["name"].rpartition(".")[2]
                specs = yaml.safe_load(
                    (ROOT / "roles" / name / "meta" / "argument_specs.yml").read_text()
                )
                by_name.update(specs["argument_specs"][role.get("tasks_from", "main")]["options"])
    return by_name


def _tasks(tasks):
    """Yield all tasks, also the tasks of blocks."""
    for task in tasks:
        yield task
        yield from _tasks(task.get("block", ()))


def answers(template, **given):
    """Return the extra variables that AWX gives the playbook when a person answers the survey like
    this.

    A question without an answer has its default. An optional text that is left empty is "".
    """
    (entry,) = [
        each
        for kind in ("templates", "workflows")
        for each in objects()[f"controller_{kind}"]
        if each["name"] == f"drover-{template}"
    ]
    questions = entry["survey_spec"]["spec"] if entry.get("survey_enabled") else []
    filled = {}
    for question in questions:
        variable = question["variable"]
        if variable in given:
            filled[variable] = given.pop(variable)
        elif "default" in question:
            filled[variable] = question["default"]
        elif not question["required"]:
            filled[variable] = [] if question["type"] == "multiselect" else ""
        else:
            raise LookupError(f"{template} wants {variable}")
    if given:
        raise LookupError(f"{template} does not ask for {sorted(given)}")
    return filled

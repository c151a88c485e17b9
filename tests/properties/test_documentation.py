# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every name that a user can use is documented, and the documentation is true.

Each test runs over the files of a folder: a new file is tested without a change here.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from ansible.playbook.block import Block
from ansible.playbook.play import Play
from ansible.playbook.role_include import IncludeRole
from ansible.playbook.task import Task

from ansible_collections.drover.compute.plugins.module_utils._migration import (
    options as migration_options,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTION = "drover.compute"
PLUGIN_TYPES = {
    "module": "modules",
    "lookup": "lookup",
    "inventory": "inventory",
    "callback": "callback",
    "filter": "filter",
    "test": "test",
}
FQCN = re.compile(r"^[a-z_]\w*\.[a-z_]\w*\.[a-z_]\w*(\.\w+)*$")
LOOKUP = re.compile(r"""\b(?:lookup|query|q)\(\s*(['"])(.+?)\1""")
KEYWORDS = (
    {"action", "local_action", "args"}
    | set(Task.fattributes)
    | set(Block.fattributes)
    | set(Play.fattributes)
    | set(IncludeRole.fattributes)
)


def plugins(*types):
    """Return (type, name) of each plugin, also of the private ones. One file may hold many filters:
    each has a .yml then."""
    pairs = set()
    for kind in types:
        for path in sorted((ROOT / "plugins" / PLUGIN_TYPES[kind]).glob("*")):
            if path.suffix in (".py", ".yml") and not path.stem.startswith("__"):
                if kind in ("filter", "test") and "DOCUMENTATION" not in path.read_text():
                    continue
                pairs.add((kind, path.stem))
    return sorted(pairs)


def named(folder, pattern):
    return sorted(path for path in (ROOT / folder).glob(pattern) if not path.name.startswith("."))


MODULES = [name for dummy, name in plugins("module")]
ACTIONS = [path.stem for path in named("plugins/action", "*.py") if not path.stem.startswith("__")]
ROLES = [path.name for path in named("roles", "*") if path.is_dir()]
PLAYBOOKS = [path.stem for path in named("playbooks", "*.yml")]
ALL = plugins(*PLUGIN_TYPES)
# Modules that only the roles and playbooks call. They have neither examples nor documented results.
PRIVATE_MODULES = [(kind, name) for kind, name in ALL if kind == "module" and name[0] == "_"]
WITH_EXAMPLES = [
    each for each in ALL if each[0] not in ("inventory", "callback") and each not in PRIVATE_MODULES
]


def tool(name, *words):
    """Run one of Ansible's commands; return the finished process."""
    return subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), name), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_DEPRECATION_WARNINGS": "0"},
    )


@pytest.fixture(scope="module")
def documented():
    """Return (type, name) -> ansible-doc's data about it. One call for each type."""
    documents = {}
    for kind in {kind for kind, dummy in ALL}:
        names = [f"{COLLECTION}.{name}" for found, name in ALL if found == kind]
        done = tool("ansible-doc", "--json", "--type", kind, *names)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            pytest.fail(f"ansible-doc --type {kind}: {done.stdout}{done.stderr}", pytrace=False)
        for name, document in answer.items():
            documents[kind, name[len(COLLECTION) + 1 :]] = {**document, "warnings": done.stderr}
    return documents


@pytest.fixture(scope="module")
def role_documents():
    done = tool(
        "ansible-doc", "--json", "--type", "role", *(f"{COLLECTION}.{name}" for name in ROLES)
    )
    try:
        return json.loads(done.stdout)
    except ValueError:
        pytest.fail(f"ansible-doc --type role: {done.stdout}{done.stderr}", pytrace=False)


def document_of(documented, kind, name):
    document = documented.get((kind, name), {})
    assert "doc" in document, (
        f"ansible-doc says nothing: {document.get('error', documented.keys())}"
    )
    return document


def undescribed(options, where=""):
    """Yield the names of options without a description, at every depth."""
    names = []
    for name, option in (options or {}).items():
        if not "".join(option.get("description") or "").strip():
            names.append(where + name)
        names += undescribed(option.get("suboptions") or option.get("options"), f"{where}{name}.")
    return names


def tasks_of(items):
    """Yield every task in a list of plays, blocks and tasks."""
    for item in items or []:
        inner = [item[key] for key in ("block", "rescue", "always") if key in item]
        inner += [
            item[key] for key in ("tasks", "pre_tasks", "post_tasks", "handlers") if key in item
        ]
        for part in inner:
            yield from tasks_of(part)
        if not inner:
            yield item


def short_names(items):
    """Return the names in plays and tasks that are not FQCNs."""
    names = []
    for task in tasks_of(items):
        for key in task:
            if key in KEYWORDS or key.startswith("with_"):
                continue
            if not FQCN.match(key):
                names.append(key)
        for key in ("ansible.builtin.include_role", "ansible.builtin.import_role"):
            if key in task and not FQCN.match(task[key].get("name", "")):
                names.append(task[key].get("name"))
    for play in items or []:
        for role in play.get("roles", []) if isinstance(play, dict) else []:
            name = role if isinstance(role, str) else role.get("role", role.get("name"))
            if not FQCN.match(name):
                names.append(name)
    return names


def examples_of(document):
    examples = document.get("examples")
    assert examples and examples.strip(), "no EXAMPLES"
    parsed = yaml.safe_load(examples)
    assert isinstance(parsed, list) and parsed, "EXAMPLES is no list of plays or tasks"
    return examples, parsed


#: Words that a template may give: a word before ``if`` or after ``else``, or a word alone.
GIVEN = re.compile(r"'(\w+)' if |else '(\w+)'")


def not_taken(documented, task):
    """Return options and values of a task that the module of ours does not have."""
    for key, arguments in task.items():
        if (
            not key.startswith(f"{COLLECTION}.")
            or ("module", key[len(COLLECTION) + 1 :]) not in documented
            or not isinstance(arguments, dict)
        ):
            continue
        options = document_of(documented, "module", key[len(COLLECTION) + 1 :])["doc"]["options"]
        by_name = {
            name: option
            for first, option in options.items()
            for name in (first, *option.get("aliases", ()))
        }
        yield from (f"{key}: {name}" for name in arguments if name not in by_name)
        for name, value in arguments.items():
            choices = by_name.get(name, {}).get("choices")
            if choices and isinstance(value, str):
                words = (
                    [first or second for first, second in GIVEN.findall(value)]
                    if "{{" in value
                    else [value]
                )
                yield from (f"{key}: {name}: {word}" for word in words if word not in choices)


def test_roles_and_playbooks_give_modules_what_they_take(documented):
    """Options and states are renamed; a role that is rarely run must not keep the former ones."""
    problems, seen = [], 0
    for path in (
        *ROOT.glob("roles/*/tasks/**/*.yml"),
        *ROOT.glob("playbooks/*.yml"),
        *ROOT.glob("playbooks/tasks/*.yml"),
    ):
        for task in tasks_of(yaml.safe_load(path.read_text(encoding="utf-8"))):
            if isinstance(task, dict):
                seen += any(key.startswith(f"{COLLECTION}.") for key in task)
                problems += [
                    f"{path.relative_to(ROOT)}: {each}" for each in not_taken(documented, task)
                ]
    assert seen > 100 and problems == []


@pytest.mark.parametrize("kind, name", ALL)
def test_plugin_is_documented(documented, kind, name):
    document = document_of(documented, kind, name)
    assert document["doc"]["short_description"].strip()
    assert "".join(document["doc"]["description"]).strip()
    assert not undescribed(document["doc"].get("options"))
    if kind != "inventory":
        assert bool(document["return"]) == ((kind, name) not in PRIVATE_MODULES), "RETURN"


@pytest.mark.parametrize("kind, name", PRIVATE_MODULES)
def test_a_private_module_has_no_examples(documented, kind, name):
    """Its examples are a comment and an empty list: validate-modules of ansible-test wants some
    text, and ansible-lint a list."""
    assert yaml.safe_load(document_of(documented, kind, name)["examples"]) == []


@pytest.mark.parametrize("kind, name", WITH_EXAMPLES)
def test_examples_are_tasks_with_fqcns(documented, kind, name):
    text, parsed = examples_of(document_of(documented, kind, name))
    assert not short_names(parsed)
    assert [found for dummy, found in LOOKUP.findall(text) if not FQCN.match(found)] == []
    assert f"{COLLECTION}.{name}" in text, "the examples do not use what they are examples of"


def test_examples_pass_a_syntax_check(documented, tmp_path):
    """Ansible resolves the names in them and refuses keywords that do not exist."""
    plays = []
    for kind, name in WITH_EXAMPLES:
        examples = examples_of(document_of(documented, kind, name))[1]
        own_plays = [
            item
            for item in examples
            if "hosts" in item or "ansible.builtin.import_playbook" in item
        ]
        tasks = [item for item in examples if item not in own_plays]
        plays += own_plays
        if tasks:
            plays.append(
                {"name": f"Examples of {kind} {name}", "hosts": "localhost", "tasks": tasks}
            )
    path = tmp_path / "examples.yml"
    path.write_text(yaml.safe_dump(plays, sort_keys=False))
    done = tool("ansible-playbook", "--syntax-check", "-i", "localhost,", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["filter", "test"])
def test_every_filter_and_test_of_a_file_is_documented(kind):
    names = set()
    for path in named(f"plugins/{kind}", "*.py"):
        module = importlib.import_module(
            f"ansible_collections.{COLLECTION}.plugins.{kind}.{path.stem}"
        )
        names |= set(
            module.FilterModule().filters() if kind == "filter" else module.TestModule().tests()
        )
    assert names == {name for found, name in ALL if found == kind}


# --- action plugins and their stubs -----------------------------------------------------------


def plain_spec(options):
    """Return an argument_spec in the words of the documentation, so that the two can be
    compared.
    """
    answer = {}
    for name, option in (options or {}).items():
        answer[name] = {
            "type": option.get("type") or "str",
            "elements": option.get("elements"),
            "required": bool(option.get("required", False)),
            "default": option.get("default"),
            "choices": sorted(map(str, option.get("choices") or [])),
            "aliases": sorted(option.get("aliases") or []),
            "options": plain_spec(option.get("options") or option.get("suboptions")),
        }
    return answer


@pytest.mark.parametrize("name", ACTIONS)
def test_action_has_a_stub(name):
    assert name in MODULES, f"plugins/modules/{name}.py documents the action and is missing"


@pytest.mark.parametrize("name", ACTIONS)
def test_stub_and_action_have_the_same_options(documented, name):
    module = importlib.import_module(f"ansible_collections.{COLLECTION}.plugins.action.{name}")
    spec = getattr(module, "ARGUMENT_SPEC", None) or module.ActionModule.ARGUMENT_SPEC
    document = document_of(documented, "module", name)
    assert plain_spec(document["doc"].get("options")) == plain_spec(spec)


#: The Python types of the samples of a documented type.
SAMPLES = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "list": list,
    "dict": dict,
    "raw": object,
}


def incomplete(returned, where=""):
    """Return the gaps in the documentation of results, at every depth."""
    gaps = []
    for name, value in returned.items():
        gaps += [
            f"{where}{name}: no {key}"
            for key in ("description", "type", "returned")
            if not value.get(key)
        ]
        if value["type"] == "list" and "elements" not in value:
            gaps.append(f"{where}{name}: no elements")
        if value.get("contains"):
            gaps += incomplete(value["contains"], f"{where}{name}.")
        elif not isinstance(value.get("sample"), SAMPLES[value["type"]]) or value["sample"] in (
            "",
            [],
            {},
        ):
            gaps.append(f"{where}{name}: no sample of its type")
    return gaps


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("_")])
def test_every_result_of_a_public_module_has_its_type_and_a_sample(documented, name):
    assert incomplete(document_of(documented, "module", name)["return"]) == []


@pytest.mark.parametrize(
    "name", ["host", "lease", "host_info", "drain", "undrain", "evacuate", "plan_drain_info"]
)
def test_the_host_worked_on_is_host_or_name(documented, name):
    options = document_of(documented, "module", name)["doc"]["options"]
    assert options["host"]["aliases"] == ["name"] and "name" not in options


@pytest.mark.parametrize("name", MODULES)
def test_action_group_has_every_module_with_a_store_url(documented, name):
    """module_defaults of group/drover.compute.all reach all modules with the option, and no
    other.
    """
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    options = document_of(documented, "module", name)["doc"].get("options") or {}
    assert (name in runtime["action_groups"]["all"]) == ("store_url" in options)


def test_action_group_names_modules_that_exist():
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    assert set(runtime["action_groups"]["all"]) <= set(MODULES)


# --- roles and playbooks ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ROLES)
def test_role_is_documented(role_documents, name):
    folder = ROOT / "roles" / name
    assert (folder / "meta" / "argument_specs.yml").is_file()
    assert (folder / "README.md").is_file(), "galaxy-importer refuses a role without"
    entry = role_documents[f"{COLLECTION}.{name}"]["entry_points"]["main"]
    assert entry["short_description"].strip()
    assert "".join(entry["description"]).strip()
    assert not undescribed(entry.get("options"))


# Variables of other roles or of hosts that a role reads without an option of that name.
OF_OTHERS = {
    "evacuate": {"drover_libvirt_service"},
    "hypervisor": {"drover_uris"},
    "migrate": {"drover_max_migrations", "drover_migration"},
    "rolling": {
        "drover_host",
        "drover_hypervisors",
        "drover_rolling",
        "drover_power_driver",
        "drover_power_boot_timeout",
    },
}


@pytest.mark.parametrize("name", ROLES)
def test_every_variable_of_a_role_is_in_its_argument_specs_and_readme(name):
    folder = ROOT / "roles" / name
    entries = yaml.safe_load((folder / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    options = set().union(*(entry.get("options") or {} for entry in entries.values()))
    readme = (folder / "README.md").read_text()
    assert {option for option in options if f"`{option}`" not in readme} == set()
    files = [path for path in folder.rglob("*.yml") if path.name != "argument_specs.yml"]
    read = {
        found for path in files for found in re.findall(r"\bdrover_[a-z0-9_]+\b", path.read_text())
    }
    # The variables of the host describe its power driver.
    page = (ROOT / "docs" / "power.md").read_text()
    of_hosts = {
        found
        for found in read
        if found.startswith("drover_power_") and re.search(rf"\b{found}\b|`{found[12:]}`", page)
    }
    of_hosts |= {"drover_power_user", "drover_power_password"} & read
    assert read - options - of_hosts - OF_OTHERS.get(name, set()) == set()


def test_every_power_driver_has_its_files():
    drivers = yaml.safe_load((ROOT / "roles" / "power" / "vars" / "main.yml").read_text())[
        "power_drivers"
    ]
    assert {path.stem for path in named("roles/power/tasks/drivers", "*")} == set(drivers)
    page = (ROOT / "docs" / "power.md").read_text()
    assert {name for name in drivers if f"| `{name}` |" not in page} == set()


def test_every_option_of_migrations_is_on_its_page():
    page = (ROOT / "docs" / "migration.md").read_text()
    assert {name for name in migration_options.SPEC if f"| `{name}` |" not in page} == set()


def test_every_page_is_in_the_index_of_the_site():
    listed = set(
        re.findall(r"docs/[a-z-]+", (ROOT / "docs" / "docsite" / "site" / "index.rst").read_text())
    )
    assert {f"docs/{page.stem}" for page in (ROOT / "docs").glob("*.md")} - listed == set()


@pytest.mark.parametrize("name", ROLES)
def test_role_uses_fqcns(name):
    for path in named(f"roles/{name}", "tasks/**/*.yml") + named(f"roles/{name}", "handlers/*.yml"):
        assert not short_names(yaml.safe_load(path.read_text()) or []), path


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_playbook_begins_with_how_to_use_it(name):
    lines = (ROOT / "playbooks" / f"{name}.yml").read_text().splitlines()
    header = []
    for line in lines:
        if line.startswith("#"):
            header.append(line)
        elif line.strip() not in ("", "---"):
            break
    assert f"{COLLECTION}.{name}" in "\n".join(header), "the header has no command to run"


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_playbook_uses_fqcns(name):
    assert not short_names(yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text()))

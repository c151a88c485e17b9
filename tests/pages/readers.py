# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that each playbook reads, found in its tasks and in the roles and plugins that they
use.

A name in a task, an option of a role, and a variable of a plugin count. A variable that a task sets
for its included tasks does not.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    ConductorAction,
)
from ansible_collections.drover.compute.tests.pages import options, yaml_text
from ansible_collections.drover.compute.tests.unit import examples

PLAYBOOKS, ROLES, PLUGINS = (examples.ROOT / name for name in ("playbooks", "roles", "plugins"))
PACKAGE = "ansible_collections.drover.compute."
_NAME = re.compile(r"(?<![\w/-])drover_[a-z][a-z0-9_]*[a-z0-9](?![\w(/])")
_PLUGIN = re.compile(r"(?<![\w.])drover\.compute\.(\w+)")
_TASKS = tuple(f"ansible.builtin.{name}_tasks" for name in ("include", "import"))
_INCLUDED_ROLE = tuple(f"ansible.builtin.{name}_role" for name in ("include", "import"))
_EXPRESSION = re.compile(r"{{.*?}}|{%.*?%}", re.S)
#: Keys with a value that is an expression without braces.
_BARE = {"when", "until", "that", "changed_when", "failed_when"}
#: Modules that read variables of hosts by their names; the others of the engine name them in
#: messages.
_READERS = (
    f"{PACKAGE}plugins.plugin_utils._ansible_border.",
    f"{PACKAGE}plugins.plugin_utils._conductor.alignment",
    f"{PACKAGE}plugins.plugin_utils._conductor.own_machines",
)


#: Variables that name task files of a user, and the files that these may include.
_FILES_OF_USERS = {
    "drover_before_drain": ("drain", "backup"),
    "drover_rolling_hooks": ("drain", "backup"),
}


#: Actions that write nothing to the store, besides the actions with a name that ends in _info.
_READ_ONLY = {
    "show",
    "report",
    "metrics",
    "simulate",
    "_notice",
    "_host_check",
    "_host_findings",
    "_bmc_power",
    "_silent_host",
}


@functools.cache
def of_playbook(name: str) -> frozenset[str]:
    """Return the variables that a playbook reads."""
    plays = yaml_text.load((PLAYBOOKS / f"{name}.yml").read_text(encoding="utf-8"))
    variables = set(_of(plays, _Scope(PLAYBOOKS)))
    for play in plays:
        for file in play.get("vars_files") or ():
            variables |= set(yaml_text.load((PLAYBOOKS / file).read_text(encoding="utf-8")))
    for variable in variables & set(_FILES_OF_USERS):
        variables |= set(_declared(*_FILES_OF_USERS[variable]))
    return frozenset(variables & options.known())


@functools.cache
def of_hosts() -> frozenset[str]:
    """Return the variables that describe a host: the variables of the module that reads it."""
    return _of_plugin("compute_node") & options.known() - {f"{options.PREFIX}store_url"}


class _Scope(NamedTuple):
    """The place of tasks: the start folder for the paths of their task files, and the variables
    from the tasks that include them."""

    folder: pathlib.Path
    given: frozenset[str] = frozenset()


def _of(data: Any, scope: _Scope, bare: bool = False) -> Iterator[str]:
    """Yield the variables that plays or tasks read.

    :param bare: texts are expressions without braces.
    """
    if isinstance(data, list):
        for each in data:
            yield from _of(each, scope, bare)
    elif isinstance(data, dict):
        given = set(data.get("vars") or ())
        inner = scope._replace(given=scope.given | given)
        for key, value in data.items():
            if key in _TASKS:
                yield from _of_file(inner, value["file"] if isinstance(value, dict) else value)
            elif key in _INCLUDED_ROLE:
                name, entry = value["name"].rpartition(".")[2], value.get("tasks_from", "main")
                # A role's options are for its users; an including role sets them itself.
                yield from (
                    set(_declared(name, entry) if ROLES not in scope.folder.parents else ())
                    - inner.given
                )
                yield from _of_file(_Scope(ROLES / name / "tasks", inner.given), f"{entry}.yml")
            else:
                yield from _of_plugins(str(key))
                # A task may set a variable from the same variable that it got: drover_host: "{{
                # drover_host }}".
                yield from _of(value, scope if key == "vars" else inner, key in _BARE)
    elif isinstance(data, str):
        for text in [data] if bare else _EXPRESSION.findall(data):
            yield from _of_expression(text, scope)


def _of_expression(text: str, scope: _Scope) -> Iterator[str]:
    """Yield the variables of an expression, also those behind the names that the defaults of the
    role give them.
    """
    text = re.sub(r"'(?!drover_\w+')[^']*'", "", text)
    yield from set(_NAME.findall(text)) - scope.given
    yield from _of_plugins(text)
    if ROLES in scope.folder.parents:
        known = _values(ROLES / scope.folder.relative_to(ROLES).parts[0])
        for word in (set(re.findall(r"(?<![\w.])\w+", text)) & set(known)) - scope.given:
            yield from _of_value(scope, word)


@functools.cache
def _of_value(scope: _Scope, word: str) -> frozenset[str]:
    return frozenset(_of(_values(ROLES / scope.folder.relative_to(ROLES).parts[0])[word], scope))


@functools.cache
def _values(role: pathlib.Path) -> dict[str, Any]:
    """Return the variables that the role sets itself."""
    return {
        name: value
        for path in (*role.glob("vars/*.yml"), *role.glob("defaults/*.yml"))
        for name, value in (yaml_text.load(path.read_text(encoding="utf-8")) or {}).items()
    }


def _of_file(scope: _Scope, path: str) -> set[str]:
    """Return the variables of a task file; of all below its folder, if a template names it; of none
    that a person gives.
    """
    start = path.partition("{{")[0]
    if start == path:
        files = [scope.folder / path]
    elif start or path.endswith(".yml"):
        files = sorted((scope.folder / start).glob("*.yml"))
    else:
        files = []
    return set().union(*(_of_path(each, scope) for each in files))


_OPEN: set[pathlib.Path] = set()


def _of_path(path: pathlib.Path, scope: _Scope) -> set[str]:
    # Files that include each other have the same variables.
    if path in _OPEN:
        return set()
    _OPEN.add(path)
    try:
        inner = (
            scope if (scope.folder / "main.yml").exists() else scope._replace(folder=path.parent)
        )
        return set(_of(yaml_text.load(path.read_text(encoding="utf-8")), inner))
    finally:
        _OPEN.discard(path)


def _declared(role: str, entry: str) -> Iterator[str]:
    """Return the options of an entry point of a role, by its argument specification."""
    return iter(options.of_role(role).get(entry, ()))


def _of_plugins(text: str) -> Iterator[str]:
    for name in _PLUGIN.findall(text):
        # The module reads the names of all variables, and uses no value.
        if name != "_variables":
            yield from _of_plugin(name)


@functools.cache
def _of_plugin(name: str) -> frozenset[str]:
    """Return the variables of the action plugin and the filter of a name."""
    names: set[str] = set()
    for kind in ("action", "filter", "lookup"):
        if (PLUGINS / kind / f"{name}.py").is_file():
            module = importlib.import_module(f"{PACKAGE}plugins.{kind}.{name}")
            plugin = getattr(module, "ActionModule", None) or getattr(module, "LookupModule", None)
            variables = getattr(plugin, "VARIABLES", ())
            pairs = (
                variables.values()
                if isinstance(variables, dict)
                else [each if isinstance(each, str) else each[1] for each in variables]
            )
            names |= {f"{options.PREFIX}{each}" for each in pairs} | _constants(module.__name__)
            if kind != "filter":
                names.add(f"{options.PREFIX}store_url")
            if isinstance(plugin, type) and issubclass(plugin, ConductorAction):
                # It reads hosts, each with the variables that describe the host.
                names |= _of_plugin("compute_node")
            # An action that writes to the store records the reason.
            if kind == "action" and not (name.endswith("_info") or name in _READ_ONLY):
                names.add(f"{options.PREFIX}reason")
    return frozenset(names)


@functools.cache
def _constants(module: str) -> set[str]:
    """Return the names that a module of ours, with all its imports, reads from the variables of
    hosts."""
    constants, seen, queue = set(), set(), [module]
    while queue:
        name = queue.pop()
        if name in seen or name.endswith(".known_variables"):
            continue
        seen.add(name)
        spec = _spec(name)
        if spec is None or not spec.origin:
            continue
        tree = ast.parse(pathlib.Path(spec.origin).read_text(encoding="utf-8"))
        named = {
            each
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and getattr(node.func, "id", getattr(node.func, "attr", "")).startswith("read")
            for each in node.args
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and _NAME.fullmatch(node.value)
                and node not in named
            ):
                constants.add(node.value)
            elif isinstance(node, ast.ImportFrom):
                source = (
                    importlib.util.resolve_name("." * node.level + (node.module or ""), spec.parent)
                    if node.level
                    else node.module or ""
                )
                queue += [
                    each
                    for each in (source, *(f"{source}.{each.name}" for each in node.names))
                    if each.startswith(_READERS)
                ]
    return constants


def _spec(name: str) -> Any:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        # The name may be an object of a module instead of a module.
        return None

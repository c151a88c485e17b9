# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options behind the variables of the collection, from options.yml and the documentation of
the modules.

options.yml names the module and the option of a variable. Type, choices, default and text are those
of the module.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
from typing import Any

from ansible_collections.drover.compute.tests.pages import yaml_text
from ansible_collections.drover.compute.tests.unit import examples

ROOT = examples.ROOT
PREFIX = "drover_"
#: Options of the module that reads a host that are not variables of a host.
_NOT_OF_HOSTS = ("nodes", "host", "exchanged", "check_migration_trust", "store_url")
#: The keys of an option in the argument specification of a role, in their order.
KEYS = ("type", "elements", "required", "choices", "default", "description", "options")
#: The state of the module is the choice of the role, and no option of it.
_STATE = re.compile(r"^(?:With|For) (?:O\(state=[^)]*\)(?:,? and )?|V\(judged\))+, (\w)")
_NAME = re.compile(r"O\((\w+)((?:=[^)]*)?)\)")

Option = dict[str, Any]


@functools.cache
def table() -> dict[str, Any]:
    """Return the content of options.yml."""
    return yaml_text.load((ROOT / "tests/pages/options.yml").read_text(encoding="utf-8"))


@functools.cache
def of_module(name: str) -> dict[str, Option]:
    """Return the documented options of a module with the options of its fragments."""
    return documented(f"modules/{name}.py")


def documented(path: str) -> dict[str, Option]:
    """Return the options of a plugin with the options of its fragments; a fragment for plugins may
    only add the source of a value."""
    documentation = documentation_of(path)
    options = {name: dict(option) for name, option in (documentation.get("options") or {}).items()}
    for name in documentation.get("extends_documentation_fragment") or ():
        if name.startswith("drover.compute."):
            for key, option in _fragment(name.removeprefix("drover.compute.")).items():
                options[key] = {**option, **options.get(key, {})}
    return options


def documentation_of(path: str) -> dict[str, Any]:
    """Return the documentation of a plugin without its fragments."""
    for statement in ast.parse((ROOT / "plugins" / path).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "DOCUMENTATION":
            return yaml_text.load(ast.literal_eval(statement.value))
    raise LookupError(f"{path} has no DOCUMENTATION")


def _fragment(name: str) -> dict[str, Any]:
    module, dummy, part = name.partition(".")
    fragments = importlib.import_module(
        f"ansible_collections.drover.compute.plugins.doc_fragments.{module}"
    ).ModuleDocFragment
    return (
        yaml_text.load(getattr(fragments, (part or "documentation").upper())).get("options") or {}
    )


@functools.cache
def of_hosts() -> dict[str, Option]:
    """Return the options of the variables that describe a host."""
    return {
        f"{PREFIX}{name}": option
        for name, option in of_module("compute_node").items()
        if name not in _NOT_OF_HOSTS
        and name in documentation_of("modules/compute_node.py")["options"]
    }


@functools.cache
def of_role(role: str) -> dict[str, dict[str, Option]]:
    """Return the options of each entry point of a role, by variable, in their order."""
    entries = table()["roles"][role]
    own = {name: _of_entry(entry) for name, entry in entries.items() if isinstance(entry, dict)}
    return {name: own[entry if isinstance(entry, str) else name] for name, entry in entries.items()}


@functools.cache
def of_playbooks() -> dict[str, Option]:
    """Return the options of the variables that belong to no role and to no host."""
    return {variable(name): _of_variable(name) for name in table()["variables"]}


def variable(name: str) -> str:
    """Return the variable of a name in options.yml."""
    return name if name in table()["of_roles"].split() else PREFIX + name


@functools.cache
def types() -> dict[str, set[str]]:
    """Return the types of each known variable."""
    by_name: dict[str, set[str]] = {variable(name): set() for name in table()["set_by_us"].split()}
    tables = [
        of_hosts(),
        of_playbooks(),
        *(entry for role in table()["roles"] for entry in of_role(role).values()),
    ]
    for each in tables:
        for name, option in each.items():
            if name.startswith(PREFIX):
                by_name.setdefault(name, set()).add(option.get("type", "str"))
    defaults = yaml_text.load(
        (ROOT / "playbooks/vars/awx/defaults.yml").read_text(encoding="utf-8")
    )
    return {**by_name, **{name: set() for name in defaults}}


def known() -> frozenset[str]:
    """Return the names of all variables."""
    return frozenset(types())


def of_type(kind: str) -> set[str]:
    """Return the variables of a type."""
    return {name for name, kinds in types().items() if kind in kinds}


def _of_entry(entry: dict[str, Any]) -> dict[str, Option]:
    module = entry.get("module", "")
    pairs = [
        next(iter(item.items())) if isinstance(item, dict) else (item, item)
        for item in entry["options"]
    ]
    # The text of an option of the module names other options of it.
    names = {
        said if isinstance(said, str) else said.get("of", name): variable(name)
        for name, said in pairs
    }
    return {variable(name): _resolved(said, module, names) for name, said in pairs}


def _of_variable(name: str) -> Option:
    entry = table()["variables"][name]
    module = entry.partition(".")[0] if isinstance(entry, str) else ""
    names = {
        other.partition(".")[2]: variable(key)
        for key, other in table()["variables"].items()
        if isinstance(other, str) and other.startswith(f"{module}.")
    }
    return _resolved(entry, module, names)


def _resolved(said: str | Option, module: str, names: dict[str, str]) -> Option:
    """Return the option of an item of options.yml. Its description is the first paragraph of the
    module's; paragraphs has all of them.

    :param said: an option of the module, MODULE.OPTION or one of the variables of options.yml;
        or a mapping with it as "of", and with keys that override it.
    :param module: the module of the entry point.
    :param names: variables of the options of the module.
    """
    if isinstance(said, str):
        return _source(said, module, names)
    option = _source(said["of"], module, names) if "of" in said else {}
    if "description" in said:
        option.pop("paragraphs", None)
    return {**option, **_without_of(said)}


def _without_of(said: Option) -> Option:
    return {key: value for key, value in said.items() if key != "of"}


def _source(said: str, module: str, names: dict[str, str]) -> Option:
    other, dot, name = said.partition(".")
    if not dot and module and said in of_module(module):
        other, name = module, said
    elif not dot:
        return _of_variable(said)
    option = of_module(other)[name]
    found = {key: option[key] for key in KEYS if key in option}
    texts = [_text(paragraph, names) for paragraph in _paragraphs(option)]
    return {**found, "description": texts[0], "paragraphs": [text for text in texts if text]}


def _paragraphs(option: Option) -> list[str]:
    text = option["description"]
    return [text] if isinstance(text, str) else text


def _text(text: str, names: dict[str, str]) -> str:
    """Return a paragraph of a description, with the variables of the options in it."""
    text = re.sub(r"\s*The variable C\(\w+\) sets it too\.", "", text)
    text = _STATE.sub(lambda found: found.group(1).upper(), text)
    return _NAME.sub(
        lambda found: (
            f"O({names[found.group(1)]}{found.group(2)})"
            if found.group(1) in names
            else f"C({found.group(1)}{found.group(2)})"
        ),
        text,
    )


def first(option: Option) -> Option:
    """Return an option of a module with its first paragraph only."""
    return {**option, "description": _text(_paragraphs(option)[0], {})}


def default(option: Option) -> str:
    """Return the default of an option for a table."""
    value = option.get("default")
    if value in (None, "", {}, []):
        return ""
    return (
        str(value).lower()
        if isinstance(value, bool)
        else ", ".join(map(str, value))
        if isinstance(value, list)
        else str(value)
    )


def markdown(option: Option) -> str:
    """Return the description of an option as Markdown in one line, with choices that it lacks."""
    text, choices = _joined(option), option.get("choices") or ()
    if any(f"V({choice})" not in text for choice in choices):
        text += f" One of {', '.join(f'V({choice})' for choice in choices)}."
    # An option names the variable that sets it; here that is the variable itself.
    text = re.sub(r"The variable C\(\w+\) sets it too\.", "", text)
    text = re.sub(r"\bO\(([\w.]+)#\w+:(\w+)\)", r"`\2` of `\1`", text)
    text = re.sub(r"\b(?:O|V|C|RV|E)\(([^)]*(?:\\\)[^)]*)*)\)", r"`\1`", text)
    text = re.sub(r"\b[MP]\(([\w.]+)(?:#\w+)?\)", r"`\1`", text)
    return " ".join(text.split()).replace("|", "\\|").rstrip(".")


def sentence(option: Option) -> str:
    """Return the first sentence of a description, without marks."""
    text = re.sub(r"\b(?:O|V|C|RV|E|M|P)\(([^)]*)\)", r"\1", _joined(option))
    return re.split(r"\.(?:\s|$)", text)[0]


def _joined(option: Option) -> str:
    text = option.get("description") or ""
    return " ".join(text) if isinstance(text, list) else text

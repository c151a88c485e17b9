# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages made from the code: all variables, all playbooks, and the list of guides for
docs.ansible.com.

The description of a variable comes from its option (see options.py), from the documentation of a
plugin, or from the table of a page, in this order. A variable without a description is an error.
"""

from __future__ import annotations

import functools
import pathlib
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ansible_collections.drover.compute.tests.pages import (
    definitions,
    options,
    readers,
    role_files,
    surveys,
    tested,
    yaml_text,
)
from ansible_collections.drover.compute.tests.unit import examples

ROOT = examples.ROOT
DOCS = ROOT / "docs"
MADE = "<!-- Made by make pages. Do not edit. -->"

FLEET = frozenset(options.variable(name) for name in options.table()["fleet"].split())
#: Variables with a different meaning in each role.
SEVERAL = frozenset(options.variable(name) for name in options.table()["several"].split())
#: Facts that the collection sets, and names that are not for a user.
SET_BY_US = frozenset(options.variable(name) for name in options.table()["set_by_us"].split())
KINDS = {
    "fleet": (
        "Of the fleet",
        (
            "The same for every run: set them in the inventory, for all hosts"
            " (`group_vars/all.yml`), so that every run and every person has them."
        ),
    ),
    "host": (
        "Of a hypervisor",
        "Set them in the inventory, for the group `hypervisors` or for one host.",
    ),
    "run": (
        "Of a run",
        "Give them on the command line with `-e`, or with `vars` in your own play.",
    ),
    "awx": (
        "Of awx_setup",
        "In the file that is given with `-e @awx.yml`; [AWX](awx.md) describes them.",
    ),
}


def variables() -> str:
    """Return the page of all variables."""
    described = _described()
    missing = sorted(options.known() - set(described) - SET_BY_US)
    if missing:
        raise LookupError(
            f"nothing describes {', '.join(missing)}: no argument specification, no documentation,"
            " no table of a page"
        )
    text = [
        MADE,
        "",
        "# All variables",
        "",
        (
            "Every variable that the collection reads. A variable with the prefix `drover_` that is"
            " not in this list gets a warning, so that a"
        ),
        (
            "spelling mistake is noticed; on the command line it is refused, and so is one that the"
            " [playbook](playbooks.md) does not read. A variable"
        ),
        (
            "whose default is true or false takes true, yes, on, 1, false, no, off and 0, and"
            " nothing else. Durations are in seconds, `_mb` is MiB,"
        ),
        "`_gb` is GiB. The default is in brackets.",
        "",
    ]
    for kind, (title, where) in KINDS.items():
        names = sorted(name for name, each in described.items() if each["kind"] == kind)
        text += [f"## {title}", "", where, "", "| Variable | Meaning | Read by |", "|---|---|---|"]
        for name in names:
            each = described[name]
            default = f" ({each['default']})" if each["default"] not in (None, "") else ""
            text.append(f"| `{name}`{default} | {each['text']} | {', '.join(each['readers'])} |")
        text.append("")
    return "\n".join(text)


def _described() -> dict[str, dict[str, Any]]:
    """Return {variable: kind, text, default, readers}."""
    by_variable: dict[str, dict[str, Any]] = {}

    def add(name: str, kind: str, option: options.Option, reader: str) -> None:
        text = options.markdown(option)
        entry = by_variable.setdefault(
            name, {"kind": kind, "text": text, "default": options.default(option), "readers": []}
        )
        if reader not in entry["readers"]:
            entry["readers"].append(reader)
            if name in SEVERAL and len(entry["readers"]) > 1 and text not in entry["text"]:
                entry["text"] += f". {reader[0].upper()}{reader[1:]}: {text}"

    for name, option in options.of_hosts().items():
        add(name, "host", option, "`discover`")
    for role in sorted(options.table()["roles"]):
        for entry in options.of_role(role).values():
            for name, option in entry.items():
                if name.startswith(options.PREFIX):
                    add(name, _kind(name), option, f"role [{role}](../roles/{role}/README.md)")
    for folder in ("lookup", "inventory"):
        for path in sorted((ROOT / "plugins" / folder).glob("[a-z]*.py")):
            for option in options.documented(f"{folder}/{path.name}").values():
                for variable in option.get("vars") or ():
                    add(
                        variable["name"], _kind(variable["name"]), option, f"{folder} `{path.stem}`"
                    )
    for path in sorted((ROOT / "plugins/modules").glob("plan_*_info.py")):
        for option in options.of_module(path.stem).values():
            for name in re.findall(r"C\((drover_\w+)\) sets it too", str(option["description"])):
                add(name, _kind(name), options.first(option), f"module `{path.stem}`")
    rows = {name: row for name, *row in reversed(list(_rows()))}
    for name, option in options.of_playbooks().items():
        text, default, page = rows.get(name, ("", "", ""))
        by_variable.setdefault(
            name,
            {
                "kind": "host" if name.startswith("drover_power_") else _kind(name),
                "text": options.markdown(option) or text,
                "default": options.default(option) or default,
                "readers": [f"[{page[:-3]}]({page})"] if page else [],
            },
        )
    for name, text, default in _awx():
        by_variable.setdefault(
            name,
            {
                "kind": "awx",
                "text": options.markdown({"description": rows[name][0] if name in rows else text}),
                "default": default,
                "readers": ["`awx_setup`"],
            },
        )
    return by_variable


def _kind(name: str) -> str:
    return "fleet" if name in FLEET else "run"


def _rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield (variable, text, default, page) of each row that describes variables in a table of a
    page.
    """
    for path in sorted(DOCS.glob("*.md")):
        if path.name == "variables.md":
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            row = (
                re.fullmatch(r"((?:`drover_\w+`(?:, )?)+)(?: \((.*)\))?", cells[0])
                if len(cells) > 1
                else None
            )
            if row:
                for name in re.findall(r"drover_\w+", row.group(1)):
                    yield (
                        name,
                        cells[-1],
                        row.group(2) or (cells[1] if len(cells) > 2 else ""),
                        path.name,
                    )
    page = (DOCS / "power.md").read_text(encoding="utf-8")
    yield (
        "drover_power_driver",
        "how the power is switched, see [Power](power.md#drivers)",
        "",
        "power.md",
    )
    for name in ("address", "user", "password", "mac"):
        if f"`drover_power_{name}`" in page or f"drover_power_{name}:" in page:
            yield (
                f"drover_power_{name}",
                "of the power driver, see [Power](power.md#drivers)",
                "",
                "power.md",
            )


def _awx() -> Iterator[tuple[str, str, str]]:
    """Yield (variable, the comment above it, default) of each variable of the playbook
    awx_setup.
    """
    comment: list[str] = []
    follows = False
    source = (ROOT / "playbooks" / "vars" / "awx" / "defaults.yml").read_text(encoding="utf-8")
    values = yaml_text.load(source)
    for line in source.splitlines():
        name = line.partition(":")[0]
        if line.startswith("#"):
            # Variables without a line between them share a comment; a new one belongs to the next.
            comment = [] if follows else comment
            follows = False
            # Indented lines are examples.
            comment += [] if line.startswith("#  ") else [line[1:].strip()]
        elif not line.strip():
            comment = []
        elif name in values:
            value, follows = values[name], True
            yield (
                name,
                " ".join(comment),
                (
                    ""
                    if isinstance(value, (dict, list)) or "{" in str(value)
                    else options.default({"default": value})
                ),
            )


# --- playbooks ------------------------------------------------------------------------------------


def playbooks() -> str:
    """Return the page of all playbooks, made of their first comments."""
    text = [
        MADE,
        "",
        "# All playbooks",
        "",
        (
            "Ansible shows modules and roles with `ansible-doc`, but not playbooks; this page does."
            " Run each as"
        ),
        (
            "`ansible-playbook drover.compute.NAME`. Playbooks for `localhost` also run with a"
            " `--limit` that leaves out localhost. With `--check`"
        ),
        "a playbook shows what it would do. Every variable: [All variables](variables.md).",
        "",
        (
            "On the command line a variable that the playbook does not read is refused, as it would"
            " change nothing. The list of each playbook decides."
        ),
        (
            "`drover_host`, `drover_instance`, `drover_instances`, `drover_selector`,"
            " `drover_pool`, `drover_disk` and `drover_destination` are refused"
        ),
        "also if `vars` of a play or the inventory sets them.",
        "",
    ]
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        found, of_hosts = readers.of_playbook(path.stem), readers.of_hosts()
        hosts = path.stem != "discover" and found >= of_hosts
        read = ", ".join(f"`{name}`" for name in sorted(found - of_hosts if hosts else found))
        read += ", and the variables of each host that [discover](#discover) reads" if hosts else ""
        text += [
            f"## {path.stem}",
            "",
            *_head(path.read_text(encoding="utf-8")),
            "",
            f"Reads {read}.",
            "",
        ]
    return "\n".join(text)


def _head(source: str) -> list[str]:
    """Return the first comment of a playbook as Markdown: sentences unchanged, indented lines as
    commands."""
    lines: list[str] = []
    for line in source.splitlines():
        if line.startswith("#"):
            lines.append(line[1:].removeprefix(" "))
        elif line.strip() not in ("", "---"):
            break
    # The copyright is before the first empty comment.
    lines = lines[lines.index("") + 1 :] if "" in lines else lines
    text: list[str] = []
    commands = False
    for line in lines:
        if line.startswith("  ") != commands:
            commands = not commands
            if commands and text and text[-1]:
                text.append("")
            text.append("```console" if commands else "```")
        command, dummy, remark = line.strip().partition("   ")
        remark = f"  # {remark.strip()}" if remark else ""
        text.append(f"$ {command}{remark}" if commands and line.strip() else _linked(line.strip()))
    if commands:
        text.append("```")
    joined = "\n".join(text).strip("\n")
    return re.sub(
        r"\n{3,}",
        "\n\n",
        re.sub(r"\n\n```$", "\n```", joined.replace("\n\n```\n", "\n```\n\n"), flags=re.M),
    ).splitlines()


def _linked(line: str) -> str:
    line = re.sub(r"(?<![`\w/])(drover_\w+|ansible-doc [-\w. ]*[\w]+)(?![`\w])", r"`\1`", line)
    return re.sub(
        r"(?<!\w)docs/([\w-]+\.md)",
        lambda found: f"[{_title(found.group(1))}]({found.group(1)})",
        line,
    )


def _title(page: str) -> str:
    return re.search(r"^# (.*)$", (DOCS / page).read_text(encoding="utf-8"), re.M).group(1)


# --- guides for docs.ansible.com ------------------------------------------------------------------


def guides() -> str:
    """Return the list of guides for docs.ansible.com, which shows reStructuredText only: the tables
    of the index as links.
    """
    base = "https://github.com/drover-compute/drover.compute/blob/main/docs/"
    text = [
        "..",
        "  Copyright (c) 2026, The drover.compute authors",
        (
            "  GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or"
            " https://www.gnu.org/licenses/gpl-3.0.txt)"
        ),
        "  SPDX-License-" + "Identifier: GPL-3.0-or-later",
        "",
        "  Made by make pages. Do not edit.",
        "",
        ".. _ansible_collections.drover.compute.docsite.guides:",
        "",
        "Guides",
        "======",
        "",
        "The guides of drover.compute are Markdown pages in its repository.",
        "",
    ]
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    for title, body in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", page, re.M | re.S):
        text += [title, "-" * len(title), ""]
        for row in re.findall(r"^\| (.*) \| (.*) \|$", body, re.M):
            links = [
                link
                for link in re.findall(r"\[([^]]+)\]\(([\w.#-]+)\)", row[0])
                if link[1].partition("#")[0].endswith(".md")
            ]
            if links:
                named = ", ".join(f"`{name} <{base}{target}>`__" for name, target in links)
                text.append(f"- {named}: {re.sub(r'`', '``', row[1])}" if row[1] else f"- {named}")
        text.append("")
    return "\n".join(text).rstrip("\n") + "\n"


_PYTHON_HEAD = (
    "# Copyright (c) 2026, The drover.compute authors",
    (
        "# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or"
        " https://www.gnu.org/licenses/gpl-3.0.txt)"
    ),
    "# SPDX-License-" + "Identifier: GPL-3.0-or-later",
)


def read_by_playbooks() -> str:
    """Return the module with the variables of each playbook."""
    text = [
        *_PYTHON_HEAD,
        (
            '"""The variables that each playbook reads, without ``drover_``. Made by make pages. Do'
            ' not edit."""'
        ),
        "",
        "from __future__ import annotations",
        "",
        "#: The variables that describe a host.",
        'OF_HOSTS = """',
        *_without_prefix(readers.of_hosts()),
        '"""',
        "READ: dict[str, str] = {",
    ]
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        names, of_hosts = readers.of_playbook(path.stem), readers.of_hosts()
        hosts = names >= of_hosts
        text += [
            f'    "{path.stem}": """',
            *_without_prefix(names - of_hosts if hosts else names),
            *(['"""', "    + OF_HOSTS,"] if hosts else ['""",']),
        ]
    return "\n".join([*text, "}", ""])


def names_of_variables() -> str:
    """Return the module with the names of all variables."""
    kinds = {
        "NAMES": ("All variables.", set(options.known())),
        "YES_OR_NO": ("The variables with the values true or false.", options.of_type("bool")),
        "WHOLE": ("The variables with whole numbers from 0 on.", options.of_type("int")),
    }
    text = [
        *_PYTHON_HEAD,
        '"""The names of the variables, without ``drover_``. Made by make pages. Do not edit."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for name, (meaning, found) in kinds.items():
        text += [f"#: {meaning}", f'{name} = """', *_without_prefix(found), '"""']
    return "\n".join([*text, ""])


def _without_prefix(names: Iterable[str]) -> list[str]:
    return textwrap.wrap(" ".join(sorted(name.removeprefix(options.PREFIX) for name in names)), 138)


_BORDER = ROOT / "plugins" / "plugin_utils" / "_ansible_border"
#: Each generated file -> the function that returns its text.
PAGES: dict[pathlib.Path, Callable[[], str]] = {
    DOCS / "variables.md": variables,
    DOCS / "playbooks.md": playbooks,
    DOCS / "docsite" / "rst" / "guides.rst": guides,
    DOCS / "definitions.md": lambda: definitions.page(MADE),
    DOCS / "definitions.schema.json": definitions.schema,
    ROOT / "plugins" / "doc_fragments" / "definitions.py": definitions.fragment,
    _BORDER / "playbook_variables.py": read_by_playbooks,
    _BORDER / "variable_names.py": names_of_variables,
    surveys.PATH: surveys.file,
    tested.PAGE: lambda: tested.page(MADE),
}
for _role in options.table()["roles"]:
    PAGES[ROOT / "roles" / _role / "meta/argument_specs.yml"] = functools.partial(
        role_files.specification, _role
    )
    PAGES[ROOT / "roles" / _role / "README.md"] = functools.partial(role_files.readme, _role)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options in the files of the roles: in meta/argument_specs.yml and in the tables of README.md.

The rest of these files is written by hand. A table follows a line <!-- options: ENTRY ... -->,
which names the entry points of its options.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from ansible_collections.drover.compute.tests.pages import options, yaml_text

ROLES = options.ROOT / "roles"
_OPTIONS = re.compile(r"^    options:.*\n(?:(?: {6}.*)?\n)*", re.M)
_TABLE = re.compile(r"^<!-- options: (.*) -->\n\n(?:\|.*\n)*", re.M)
_ENTRY = re.compile(r"^  (\w+):\n(?:(?: {4}.*)?\n)*", re.M)


def specification(role: str) -> str:
    """Return the argument specification of a role, with the options of options.yml."""
    text = _path(role, "meta/argument_specs.yml").read_text(encoding="utf-8")
    entries = options.of_role(role)
    written = {entry.group(1) for entry in _ENTRY.finditer(text)}
    if written != set(entries):
        raise LookupError(
            f"role {role}: argument_specs.yml describes the entry points {sorted(written)},"
            f" options.yml has {sorted(entries)}"
        )
    return _ENTRY.sub(
        lambda entry: _OPTIONS.sub(lambda dummy: _block(role, entry.group(1)), entry.group()), text
    )


def readme(role: str) -> str:
    """Return the README of a role, with the tables of its options."""
    text = _path(role, "README.md").read_text(encoding="utf-8")
    return _TABLE.sub(
        lambda mark: f"<!-- options: {mark.group(1)} -->\n\n" + _table(role, mark.group(1).split()),
        text,
    )


def _path(role: str, name: str) -> pathlib.Path:
    return ROLES / role / name


def _block(role: str, entry: str) -> str:
    same = options.table()["roles"][role][entry]
    if isinstance(same, str):
        return f"    options: *{same}\n"
    is_model = entry in options.table()["roles"][role].values()
    head = f"    options: &{entry}\n" if is_model else "    options:\n"
    written = {name: _written(option) for name, option in options.of_role(role)[entry].items()}
    return head + yaml_text.dump(written, 6)


def _written(option: options.Option) -> options.Option:
    """Return an option as it is written: one paragraph is not a list, a default has a value."""
    text = option.get("paragraphs") or option["description"]
    fields = {
        **option,
        "description": text[0] if isinstance(text, list) and len(text) == 1 else text,
    }
    return {
        key: fields[key]
        for key in options.KEYS
        if key in fields and not (key == "default" and fields[key] in (None, "", []))
    }


def _table(role: str, entries: Sequence[str]) -> str:
    rows = ["| Variable | Default | |", "|---|---|---|"]
    by_variable: dict[str, list[str]] = {}
    for entry in entries:
        for name in options.of_role(role)[entry]:
            by_variable.setdefault(name, []).append(entry)
    for name, readers in by_variable.items():
        option = options.of_role(role)[readers[0]][name]
        only = len(readers) == 1 and readers[0] != "main" and len(entries) > 1
        default = options.default(option)
        rows.append(
            f"| `{name}` |{f' {default}' if default else ''} |"
            f" {f'`{readers[0]}`: ' if only else ''}{options.markdown(option)} |"
        )
    return "\n".join(rows) + "\n"

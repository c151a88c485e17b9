# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surveys of the job templates of AWX, made from the options of the variables.

An answer is never empty if its option has a default: the question has the default and is required.
A question without a default may be left empty. AWX takes an empty text for a required one, unless
it has a minimum length.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.drover.compute.tests.pages import options, yaml_text

PATH = options.ROOT / "playbooks/vars/awx/objects/surveys.yml"


def file() -> str:
    """Return the file of the surveys."""
    surveys = {
        name: {
            "name": survey["title"],
            "description": survey.get("description", ""),
            "spec": [_question(item, survey.get("of")) for item in survey["questions"]],
        }
        for name, survey in options.table()["surveys"].items()
    }
    return (
        f"{yaml_text.HEAD}\n# The surveys of the job templates. {yaml_text.MADE}\n"
        + yaml_text.dump({"awx_surveys": surveys})
    )


def _question(item: str | dict[str, str], entry: str | None) -> dict[str, Any]:
    name, kind = (item, "") if isinstance(item, str) else next(iter(item.items()))
    label, *rest = options.table()["questions"][f"{name}/{kind}" if kind else name]
    option = _option(options.variable(name), entry)
    own = rest[1] if len(rest) > 1 else {}
    return {
        "question_name": label,
        "question_description": rest[0] if rest else options.sentence(option),
        "variable": options.variable(name),
        **_answer(option, own),
    }


def _option(variable: str, entry: str | None) -> options.Option:
    role, dummy, name = (entry or "").partition(".")
    found = options.of_role(role)[name] if entry else {}
    return found.get(variable) or options.of_playbooks()[variable]


def _answer(option: options.Option, own: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a question that say which answers it takes."""
    kind, default = own.get("type", option.get("type", "str")), option.get("default")
    question: dict[str, Any] = {"type": "text"}
    if kind == "bool":
        question = {"type": "multiplechoice", "choices": ["true", "false"]}
        default = str(bool(default)).lower()
    elif option.get("choices"):
        question = {"type": "multiplechoice", "choices": option["choices"]}
    elif kind == "int":
        question = {"type": "integer", "min": 0 if default == 0 else 1}
    elif kind == "dict":
        question, default = {"type": "text", "min": 2}, "{}"
    elif option.get("required") or default:
        question["min"] = 1
    has_default = default not in (None, "", [])
    question |= {"default": default} if has_default and kind in _SIMPLE else {}
    return {
        **question,
        "required": bool(has_default and kind in _SIMPLE or option.get("required")),
        **own,
    }


_SIMPLE = ("str", "int", "bool", "dict", "path")

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the variables that a user has set: their names, and their values by their types."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean

from .._common.plain import to_plain
from .._common.validation import did_you_mean, shown
from . import variable_names
from .options import Variables

PREFIX = "drover_"
KNOWN = frozenset(PREFIX + name for name in variable_names.NAMES.split())
#: The variables with the values true or false. Ansible's filter bool takes any other word as false.
YES_OR_NO = frozenset(PREFIX + name for name in variable_names.YES_OR_NO.split())
#: The variables with whole numbers. For another value, Ansible lists all variables of the role.
WHOLE = frozenset(PREFIX + name for name in variable_names.WHOLE.split())
#: Former names without a likeness to the new ones.
_RENAMED = {"apply": "plan_only", "bandwidth_mib": "migration"}
#: The likeness, from 0 to 1, that makes a name mistyped instead of a name without its scope.
_MISTYPED = 0.85


def unknown(names: Iterable[str]) -> list[str]:
    """Return a warning for each name with the prefix that is not a variable of the collection."""
    return [
        f"drover.compute has no variable {name}{_meant(name)}, so that it changes nothing. "
        f"Correct its name; the name of a variable of your own must not begin with {PREFIX}."
        for name in sorted(each for each in names if each.startswith(PREFIX) and each not in KNOWN)
    ]


def neither_yes_nor_no(variables: Variables, template: Callable[[Any], Any]) -> list[str]:
    """Return a sentence for each variable that must be true or false and is neither.

    A misspelt ``drover_plan_only=ture`` would count as false, and begin a real run.

    :param template: evaluates a value that may be a template.
    """
    sentences = []
    for name in sorted(each for each in YES_OR_NO if each in variables):
        try:
            value = to_plain(template(variables[name]))
        except AnsibleError:
            # The task that reads it fails with Ansible's own message.
            continue
        try:
            boolean(value)
        except TypeError:
            sentences.append(
                f"{name} is {shown(value)}, which is neither true nor false. Write true, yes, on or"
                " 1, or false, no, off or 0."
            )
    return sentences


def no_numbers(
    variables: Variables, template: Callable[[Any], Any], wanted: Callable[[str], bool]
) -> list[str]:
    """Return a sentence for each variable that must be a whole number and is none.

    :param template: evaluates a value that may be a template.
    :param wanted: returns True if a variable is read.
    """
    sentences = []
    for name in sorted(each for each in WHOLE if each in variables and wanted(each)):
        try:
            value = to_plain(template(variables[name]))
        except AnsibleError:
            # The reader of the variable fails, in Ansible's own words.
            continue
        if value is not None and not (
            not isinstance(value, bool) and re.fullmatch("[0-9]+", str(value).strip())
        ):
            sentences.append(
                f"{name} is {shown(value)}, which is no whole number from 0 on. Write one, or leave"
                " it out."
            )
    return sentences


def _meant(name: str) -> str:
    """Return a question in brackets with the names that may be meant; empty without such names.

    Names have a scope: "hooks" lacks its scope and may be "rolling_hooks". "hook" may be the same,
    and is mistyped too.
    """
    bare = name.removeprefix(PREFIX).lower()
    whole = [each.removeprefix(PREFIX) for each in KNOWN]
    if bare in _RENAMED:
        scoped = [PREFIX + _RENAMED[bare]]
    else:
        ends = {each.partition("_")[2] for each in whole} - {""}
        near = (
            [bare]
            if any(each.endswith(f"_{bare}") for each in whole)
            else difflib.get_close_matches(bare, sorted(ends), 1, _MISTYPED)
        )
        scoped = sorted(each for each in KNOWN if near and each.endswith(f"_{near[0]}"))
    if not scoped or difflib.get_close_matches(bare, whole, 1, _MISTYPED):
        return did_you_mean(name, KNOWN, PREFIX)
    return f" (did you mean {' or '.join(scoped)}?)"

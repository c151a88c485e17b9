# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of options for actions, lookups and inventory.

Action plugins have no get_option. The order is: argument (or module_defaults), variable
``drover_<option>``, environment, ansible.cfg, default.
"""

from __future__ import annotations

import configparser
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from ansible import constants as C

from .._common.errors import DroverError
from .._common.validation import MOST

#: The characters that no file and no database takes: the character 0, and halves of surrogate
#: pairs.
_ODD = re.compile("[\0\ud800-\udfff]")
STORE_ENVIRONMENT = "DROVER_STORE_URL"

#: The variables of a task or a host. Each value is checked where it is read.
Variables = Mapping[str, object]


class OptionSpec(TypedDict, total=False):
    """The specification of an option, as Ansible has it."""

    type: str
    required: bool
    default: object
    choices: Sequence[object]
    elements: str
    no_log: bool
    aliases: list[str]
    options: Mapping[str, Mapping[str, object]]
    required_together: list[list[str]]
    mutually_exclusive: list[list[str]]
    required_one_of: list[list[str]]
    required_if: list[list[object]]
    required_by: Mapping[str, object]


def from_variable(option: str, variables: Variables, templar: Any) -> Any:
    """Return the templated value of ``drover_<option>``, or None if it is not set."""
    name = f"drover_{option}"
    if name not in variables:
        return None
    return templar.template(variables[name])


def add_variables(
    args: dict[str, object], options: Mapping[str, str], variables: Variables, templar: Any
) -> None:
    """Set missing options from their variables.

    :param args: the given arguments, changed in place.
    :param options: {option: its variable without ``drover_``}.
    """
    for option, variable in options.items():
        if args.get(option) is None:
            value = from_variable(variable, variables, templar)
            if value is not None:
                args[option] = value


def refuse_odd(
    args: Mapping[str, object], spec: Mapping[str, Mapping[str, object]] | None = None
) -> None:
    """Refuse values that would cause an error of Python in Ansible, a database or the file system.

    :param spec: the argument spec of Ansible; lookups have none.
    :raises DroverError: a text has a character that no file and no database takes, a number is
        infinite or too large, or a key is not a text.
    """
    for name, value in args.items():
        odd = next(filter(None, map(_ODD.search, _texts(value))), None)
        if odd is not None:
            raise DroverError(
                f"{name} has the character {ascii(odd[0])}, which no file and no database takes."
                " Take it out."
            )
        option_spec = (spec or {}).get(name, {})
        if (
            (spec is None or option_spec.get("type") == "int")
            and isinstance(value, float)
            and not math.isfinite(value)
        ):
            raise DroverError(f"{name} must be a number, not {value}.")
        if spec is None and isinstance(value, int) and value > MOST:
            raise DroverError(f"{name} must be a number of at most {MOST}, not {value}.")
        items = value if isinstance(value, list) else [value]
        keys = [key for each in items if isinstance(each, Mapping) for key in each]
        known = option_spec.get("options")
        if isinstance(known, Mapping) and known and not all(isinstance(key, str) for key in keys):
            raise DroverError(f"{name} must have keys that are texts: {', '.join(sorted(known))}.")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def store_url(args: Mapping[str, object], variables: Variables, templar: Any) -> str:
    """Return the URL of the store. It may contain a password, so do not show it."""
    return str(
        args.get("store_url")
        or from_variable("store_url", variables, templar)
        or os.environ.get(STORE_ENVIRONMENT)
        or _from_ansible_cfg("store_url")
        or default_store_url()
    )


def default_store_url() -> str:
    """Return the URL of an SQLite file below Ansible's home."""
    home = os.path.expanduser(
        os.environ.get("ANSIBLE_HOME") or C.config.get_config_value("ANSIBLE_HOME")
    )
    return "sqlite:///" + os.path.join(home, "drover", "store.db")


def _from_ansible_cfg(option: str) -> str | None:
    if not C.CONFIG_FILE:
        return None
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
    try:
        parser.read(C.CONFIG_FILE, encoding="utf-8")
    except configparser.Error:
        return None
    return parser.get("drover", option, fallback=None)

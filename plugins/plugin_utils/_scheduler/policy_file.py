# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies from a YAML file; an error names file, line and column."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

try:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
except ImportError:
    YAML = MarkedYAMLError = None  # type: ignore[assignment,misc]  # require() says that it is missing

from .._common import yaml_errors
from .._common.errors import require
from .errors import PolicyError
from .policy import Policy, merged

#: The only key of a file of variables that has the policy.
KEY = "drover_scheduler"


def combined(
    given: Mapping[str, Any] | None, path: str | None, playbook_folder: str | None
) -> Policy:
    """Return the Policy of a mapping over the mapping of a file; either may be empty.

    The user's host filters and weighers are sought beside the playbook and the file.

    :param playbook_folder: None if there is none.
    :raises PolicyError: with file, line and column if only the file can be wrong.
    """
    folders = [str(playbook_folder)] if playbook_folder else []
    if not path:
        return Policy.from_mapping(given or {}, folders)
    folders.append(os.path.dirname(os.path.abspath(path)))
    written = load(path, folders)
    return Policy.from_mapping(merged(read_policy(path), given), folders) if given else written


def load(path: str, folders: Sequence[str] = ()) -> Policy:
    """Return the Policy in a file.

    :raises PolicyError: the policy is wrong; the message has file, line and column of the error.
    """
    document, mapping = _read_document(path)
    try:
        return Policy.from_mapping(mapping, folders)
    except PolicyError as problem:
        raise PolicyError(
            f"{path}, {_where(document, problem.path)}: {problem}", problem.path
        ) from None


def read_policy(path: str) -> dict[str, object]:
    """Return the mapping in a file, as plain types: the whole file, or its value of
    drover_scheduler.

    :raises PolicyError: the file cannot be read, is not YAML or has no mapping.
    """
    return _read_document(path)[1]


def _read_document(path: str) -> tuple[Any, dict[str, Any]]:
    require("ruamel.yaml", YAML)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise PolicyError(f"The policy file {path} cannot be read: {why}.") from None
    try:
        document = YAML(typ="rt").load(io.StringIO(text))
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "line 1, column 1"
        raise PolicyError(f"{path}, {where}: {yaml_errors.in_words(problem)}.") from None
    if isinstance(document, Mapping) and set(document) == {KEY}:
        document = document[KEY]
    if document is None:
        document = {}
    if not isinstance(document, Mapping):
        raise PolicyError(f"{path}, line 1, column 1: the scheduler policy must be a mapping.")
    return document, _plain_value(document)


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_plain_value(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_value(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _where(document: Any, path: Iterable[str | int]) -> str:
    """Return the position in the file of a path of keys and list places, as far as the path
    exists.
    """
    line, column = getattr(getattr(document, "lc", None), "line", 0), 0
    yaml_node = document
    for key in path:
        position: Any = getattr(yaml_node, "lc", None)
        try:
            line, column = position.item(key) if isinstance(yaml_node, list) else position.key(key)
            yaml_node = yaml_node[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return f"line {line + 1}, column {column + 1}"

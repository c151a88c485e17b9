# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A definitions file, read with ruamel.yaml and written back with every other byte kept."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

try:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
except ImportError:
    YAML = None  # type: ignore[assignment,misc]  # require() says that it is missing

from .._common import validation, yaml_errors
from .._common.errors import DroverError, require
from .._common.plain import to_plain
from . import tables

_TAGS = {
    f"tag:yaml.org,2002:{name}"
    for name in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge")
}


class Document:
    """A definitions file. ``data`` is its content; ``where(item)`` is the place of a mapping."""

    def __init__(self, path: str) -> None:
        """Read the file.

        :raises DroverError: it is missing, unreadable, no YAML (with line and column), or no
            mapping.
        """
        require("ruamel.yaml", YAML)
        self.path = path
        try:
            with open(path, encoding="utf-8", newline="") as stream:
                self.before = stream.read()
        except (OSError, UnicodeDecodeError) as problem:
            reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
            raise DroverError(f"The definitions file {path} cannot be read: {reason}.") from problem
        self._edits: list[tuple[int, int, str]] = []
        self._wanted: dict[int, Mapping[str, str]] = {}
        try:
            self.data = YAML(typ="rt").load(self.before)
            self._root = YAML(typ="rt").compose(self.before)
        except (YAMLError, ValueError) as problem:
            raise DroverError(f"The definitions file {path}{self._sentence(problem)}") from problem
        self._check_tags(self._root)
        if self.data is None:
            raise DroverError(
                f"The definitions file {path} is empty. Give it the key instances, with a list;"
                " instances: [] is a list of none."
            )
        if not isinstance(self.data, dict):
            raise DroverError(
                f"The definitions file {path} must be a mapping with the key instances."
            )
        # Keys that begin so are the reader's own, such as anchors that instances share.
        validation.check_keys(
            path, [key for key in self.data if not str(key).startswith(tables.OWN)], tables.SECTIONS
        )

    def section(self, name: str) -> Any:
        """Return a section, one of tables.SECTIONS; an empty list if the file has none."""
        found = self.data.get(name)
        return [] if found is None else found

    def where(self, item: Any) -> str:
        """Return the place of an item of a section, for an error: "FILE line 12"."""
        mark = getattr(item, "lc", None)
        if mark is not None:
            return f"{self.path} line {mark.line + 1}"
        for section in tables.SECTIONS:
            for number, other in enumerate(
                self.section(section) if hasattr(self.section(section), "lc") else []
            ):
                if other is item:
                    return f"{self.path} line {self.section(section).lc.item(number)[0] + 1}"
        return self.path

    def _sentence(self, problem: Any) -> str:
        """Return the fault that the YAML reader found, as the rest of a sentence."""
        mark = getattr(problem, "problem_mark", None)
        position = getattr(problem, "position", None)
        if mark is not None:
            return (
                f", line {mark.line + 1}, column {mark.column + 1}:"
                f" {yaml_errors.in_words(problem)}. Nothing was changed."
            )
        if position is not None:
            return (
                f", line {self.before.count(chr(10), 0, position) + 1}: it holds a character that"
                " YAML forbids."
            )
        return f": {problem}."

    def _check_tags(self, root: Any) -> None:
        """Refuse tags, and anchors with a value that contains itself: ruamel would read it as null,
        which counts as not given.
        """
        seen: set[int] = set()
        above: set[int] = set()
        # Each node is on the stack a second time, as done: it is popped after all its contents.
        nodes = [(root, False)]
        while nodes:
            node, done = nodes.pop()
            if node is None:
                continue
            if done:
                above.remove(id(node))
                continue
            if id(node) in above:
                raise DroverError(
                    f"The definitions file {self.path}, line {node.start_mark.line + 1}: the anchor"
                    f" {node.anchor} stands for a value that has itself in it. Write the value out."
                    " Nothing was changed."
                )
            if id(node) in seen:
                continue
            seen.add(id(node))
            written = self.before[node.start_mark.index : node.end_mark.index]
            if str(node.tag) not in _TAGS or written.startswith("!"):
                raise DroverError(
                    f"The definitions file {self.path}, line {node.start_mark.line + 1}: the tag"
                    f" {node.tag} is not understood here. Write the value itself, or give the"
                    " definitions as a variable."
                )
            if isinstance(node.value, list):
                above.add(id(node))
                nodes.append((node, True))
                nodes.extend(
                    (part, False)
                    for item in node.value
                    for part in (item if isinstance(item, tuple) else [item])
                )

    def set(self, number: int, values: Mapping[str, str]) -> None:
        """Set keys of an instance, touching nothing else of the file.

        :param number: the instance's place in the list of instances, from 0.
        :param values: dict of keys and texts. A new key is inserted under the name of the instance.
        """
        node = _value(self._root, "instances").value[number]
        name = next((pair for pair in node.value if pair[0].value == "name"), None)
        if not values:
            return
        self._wanted[number] = values
        new = []
        for key, text in values.items():
            old = next((pair for pair in node.value if pair[0].value == key), None)
            if old is None:
                new.append(f"{key}: {_scalar(text)}")
            else:
                self._edits.append(self._replacement(old[0], old[1], _scalar(text)))
        if not new or name is None:
            return
        end = self._end_of_scalar(name[1])
        if node.flow_style:
            self._edits.append((end, end, "".join(f", {line}" for line in new)))
        else:
            # After the comment that may stand on the same line.
            end = (
                len(self.before) if "\n" not in self.before[end:] else self.before.index("\n", end)
            )
            end -= self.before[:end].endswith("\r")
            newline = "\r\n" if "\r\n" in self.before else "\n"
            indent = " " * name[0].start_mark.column
            self._edits.append((end, end, "".join(f"{newline}{indent}{line}" for line in new)))

    def _end_of_scalar(self, node: Any) -> int:
        """Return the end of the text of a scalar; the node of a block scalar ends only at the next
        node.
        """
        start, end = node.start_mark.index, node.end_mark.index
        return start + len(self.before[start:end].rstrip())

    def _replacement(self, key: Any, old: Any, text: str) -> tuple[int, int, str]:
        if old.start_mark.index < old.end_mark.index:
            return old.start_mark.index, self._end_of_scalar(old), text
        # There is no value yet, and perhaps not even a colon.
        after = key.end_mark.index
        colon = after + len(self.before[after:]) - len(self.before[after:].lstrip(" \t"))
        if self.before[colon : colon + 1] == ":":
            return colon + 1, colon + 1, f" {text}"
        return after, after, f": {text}"

    def text(self) -> str:
        """Return the file as it would be written now.

        :raises DroverError: the file is written in a way (aliases, for one) that cannot be changed
            in place.
        """
        text = self.before
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        if self._edits or self._wanted:
            self._prove(text)
        return text

    def _prove(self, text: str) -> None:
        """Read the new text: it must have the old content and the new values, nothing else."""
        expected = to_plain(self.data)
        for number, values in self._wanted.items():
            expected["instances"][number].update(values)
        try:
            same = to_plain(YAML(typ="rt").load(text)) == expected
        except (YAMLError, ValueError):
            same = False
        if not same:
            lines = "; ".join(
                f"{expected['instances'][number]['name'].strip()}: "
                + ", ".join(f"{key}: {value}" for key, value in values.items())
                for number, values in self._wanted.items()
            )
            raise DroverError(
                f"The definitions file {self.path} is written in a way that cannot be changed in"
                f" place, so it is left as it is. Write this into it yourself: {lines}."
            )

    def refuse_unwritable(self) -> None:
        """Refuse to place instances if their hosts and uuids cannot be written afterwards."""
        if not os.access(os.path.realpath(self.path), os.W_OK):
            raise DroverError(
                f"The definitions file {self.path} cannot be written here, and the host and the"
                " uuid of each new instance are written into it. Nothing was placed: make the file"
                " writable, or give the definitions with drover_instance_definitions."
            )

    def save(self) -> None:
        """Replace the file in one step, keeping its permissions.

        :raises DroverError: it cannot be written, or it was changed since it was read.
        """
        text = self.text()
        try:
            with open(self.path, encoding="utf-8", newline="") as stream:
                same = stream.read() == self.before
        except (OSError, UnicodeDecodeError) as problem:
            reason = getattr(problem, "strerror", None) or "it is not UTF-8 text any more"
            raise DroverError(
                f"The definitions file {self.path} cannot be written: {reason}."
            ) from problem
        if not same:
            raise DroverError(
                f"The definitions file {self.path} was changed by somebody else during this run and"
                " is left as it is. Run again: what was placed is in the store and is written"
                " then."
            )
        try:
            # A link is followed: git tracks the file that it names.
            self._replace_text(os.path.realpath(self.path), text)
        except OSError as problem:
            raise DroverError(
                f"The definitions file {self.path} cannot be written: {problem.strerror}."
            ) from problem

    def _replace_text(self, target: str, text: str) -> None:
        # The replacement of a file needs no right to write it, but a person who removed that right
        # meant it.
        with open(target, "r+b"):
            old = os.stat(target)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".drover-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
            with contextlib.suppress(PermissionError):
                os.chown(temporary, old.st_uid, old.st_gid)
            os.chmod(temporary, old.st_mode & 0o7777)
            os.replace(temporary, target)
        except OSError:
            os.unlink(temporary)
            raise


def _value(node: Any, key: str) -> Any:
    """Return the node of a key's value in a mapping node, or None."""
    return next((value for name, value in node.value if name.value == key), None)


def _scalar(text: str) -> str:
    """Return a text as YAML, quoted only if some reader would take it for another type."""
    for version in ("1.1", "1.2"):
        yaml = YAML(typ="safe", pure=True)
        yaml.version = version
        try:
            with warnings.catch_warnings():
                # The warnings are about numbers that YAML 1.1 reads differently; this function
                # looks for them itself.
                warnings.simplefilter("ignore")
                # Alone, and inside of [] or {}, where more characters mean something.
                if (
                    not text.isprintable()
                    or yaml.load(text) != text
                    or yaml.load(f"[{text}]") != [text]
                ):
                    return _quoted(text)
        except (YAMLError, ValueError):
            return _quoted(text)
    return text


def _quoted(text: str) -> str:
    """Return a text in double quotes; characters that JSON leaves unchanged and YAML does not print
    are escaped, too.
    """
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08X}" for letter in quoted)

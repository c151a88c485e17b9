# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A definitions file, read with ruamel.yaml and written back with every other byte kept."""

from __future__ import annotations

import json
import os
import tempfile

try:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
except ImportError:
    YAML = None

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, require

SECTIONS = ("instances", "server_groups")


class Document:
    """One definitions file. ``data`` is its content; ``where(item)`` says where a mapping stands."""

    def __init__(self, path):
        """Read the file.

        :raises DroverError: it is missing, unreadable, no YAML (with line and column), or no mapping.
        """
        require("ruamel.yaml", YAML)
        self.path = path
        try:
            with open(path, encoding="utf-8", newline="") as stream:
                self.before = stream.read()
        except (OSError, UnicodeDecodeError) as problem:
            reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
            raise DroverError(f"The definitions file {path} cannot be read: {reason}.") from problem
        self._edits = []
        try:
            self.data = YAML(typ="rt").load(self.before)
            self._root = YAML(typ="rt").compose(self.before)
        except MarkedYAMLError as problem:
            mark = problem.problem_mark
            where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise DroverError(f"The definitions file {path}{where}: {problem.problem or problem}.") from problem
        if not isinstance(self.data, dict):
            raise DroverError(f"The definitions file {path} must be a mapping with the key instances.")
        unknown = sorted(set(map(str, self.data)) - set(SECTIONS))
        if unknown:
            raise DroverError(f"{path}: unknown key {', '.join(unknown)}. Known: {', '.join(SECTIONS)}.")

    def section(self, name):
        """One of SECTIONS; an empty list when the file has none."""
        found = self.data.get(name)
        return [] if found is None else found

    def where(self, item):
        """The place of a mapping of the file, for an error: "FILE line 12"."""
        mark = getattr(item, "lc", None)
        return f"{self.path} line {mark.line + 1}" if mark is not None else self.path

    def set(self, number, values):
        """Set keys of an instance, touching nothing else of the file.

        :param number: the instance's place in the list of instances, from 0.
        :param values: dict of keys and texts. A key that is new goes under the instance's name.
        """
        node = _value(self._root, "instances").value[number]
        name = next(pair for pair in node.value if pair[0].value == "name")
        new = []
        for key, text in values.items():
            old = _value(node, key)
            if old is None:
                new.append(f"{key}: {_scalar(text)}")
            else:
                self._edits.append((old.start_mark.index, old.end_mark.index, _scalar(text)))
        if not new:
            return
        end = name[1].end_mark.index
        if node.flow_style:
            self._edits.append((end, end, "".join(f", {line}" for line in new)))
        else:
            # After the comment that may stand on the same line.
            end = len(self.before) if "\n" not in self.before[end:] else self.before.index("\n", end)
            end -= self.before[:end].endswith("\r")
            newline = "\r\n" if "\r\n" in self.before else "\n"
            indent = " " * name[0].start_mark.column
            self._edits.append((end, end, "".join(f"{newline}{indent}{line}" for line in new)))

    def text(self):
        """The file as it would be written now."""
        text = self.before
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def save(self):
        """Replace the file in one step, keeping its permissions.

        :raises DroverError: it cannot be written, or somebody changed it since it was read.
        """
        with open(self.path, encoding="utf-8", newline="") as stream:
            if stream.read() != self.before:
                raise DroverError(
                    f"The definitions file {self.path} was changed by somebody else during this run and is left as "
                    "it is. Run again: what was placed is in the store and is written then."
                )
        # A link is followed: the file it names is what git knows.
        target = os.path.realpath(self.path)
        try:
            handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".drover-")
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
                stream.write(self.text())
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
            os.replace(temporary, target)
        except OSError as problem:
            raise DroverError(f"The definitions file {self.path} cannot be written: {problem.strerror}.") from problem


def _value(node, key):
    """The node of a key's value in a mapping node, or None."""
    return next((value for name, value in node.value if name.value == key), None)


def _scalar(text):
    """A text as YAML, quoted only where some reader would take it for something else."""
    for version in ("1.1", "1.2"):
        yaml = YAML(typ="safe", pure=True)
        yaml.version = version
        try:
            if yaml.load(text) != text:
                return json.dumps(text)
        except MarkedYAMLError:
            return json.dumps(text)
    return text

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A definitions file, read and written back with its comments and order kept (ruamel.yaml)."""

from __future__ import annotations

import io
import os
import tempfile

try:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
except ImportError:
    YAML = None

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, require


class Document:
    """One definitions file. ``data`` is its content; ``line(item)`` says where a mapping stands."""

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
        self._yaml = YAML(typ="rt")
        self._yaml.preserve_quotes = True
        self._yaml.width = 4096
        self._yaml.indent(**_indentation(self.before))
        try:
            self.data = self._yaml.load(self.before)
        except MarkedYAMLError as problem:
            mark = problem.problem_mark
            where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise DroverError(f"The definitions file {path}{where}: {problem.problem or problem}.") from problem
        if not isinstance(self.data, dict):
            raise DroverError(f"The definitions file {path} must be a mapping with the key instances.")

    def where(self, item):
        """The place of a mapping of the file, for an error: "FILE line 12"."""
        mark = getattr(item, "lc", None)
        return f"{self.path} line {mark.line + 1}" if mark is not None else self.path

    def text(self):
        """The file as it would be written now."""
        stream = io.StringIO()
        self._yaml.dump(self.data, stream)
        return stream.getvalue()

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


def _indentation(text):
    """The file's own way to indent lists, so that writing it back changes nothing else."""
    for line in text.splitlines():
        stripped = line.lstrip(" ")
        if stripped.startswith("- "):
            offset = len(line) - len(stripped)
            return {"mapping": 2, "sequence": offset + 2, "offset": offset}
    return {"mapping": 2, "sequence": 4, "offset": 2}

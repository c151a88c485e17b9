# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that a playbook writes for people or programs: it is read unchanged, and replaced as a
whole.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

from .._common.errors import DroverError


class OutputFile:
    """A file on the controller.

    :param what: the name of the file for messages. variable: the variable that names it. path: its
        path.
    :param mode: the mode of a new file; an existing file keeps its mode.
    """

    def __init__(self, what: str, variable: str, path: str, mode: int) -> None:
        self._what, self._variable, self._mode = what, variable, mode
        self.path = os.path.abspath(os.path.expanduser(path))

    def read(self) -> bytes:
        """Read the file; empty if there is none.

        :raises DroverError: it cannot be read, is not a regular file, or its folder does not exist.
        """
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise self._cannot(f"there is no folder {folder}")
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise self._cannot("it is no regular file")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise self._cannot(f"you may not write into the folder {folder}")
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as problem:
            raise self._cannot(problem.strerror) from problem

    def write(self, content: bytes) -> None:
        """Replace the file as a whole.

        :raises DroverError: the disk is full, or the folder may not be written.
        """
        # The target of a link is replaced, so that the link stays.
        temporary, target = None, os.path.realpath(self.path)
        try:
            mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else self._mode
            handle, temporary = tempfile.mkstemp(
                prefix=".drover-report.", dir=os.path.dirname(target)
            )
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, target)
            temporary = None
        except OSError as problem:
            raise self._cannot(problem.strerror) from problem
        finally:
            if temporary is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)

    def _cannot(self, reason: str | None) -> DroverError:
        return DroverError(
            f"The {self._what} {self.path} cannot be written: {reason}. Give {self._variable} a"
            " path that you may write."
        )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a page: read as it is, and replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError

#: For its owner's eyes: it tells what runs where. Whoever opens a page to others keeps that.
MODE = 0o600


def read(path):
    """The content of a file, empty where there is none.

    :raises DroverError: it cannot be read, is no regular file, or there is no folder for it.
    """
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise _cannot(path, f"there is no folder {folder}")
    if os.path.exists(path) and not os.path.isfile(path):
        raise _cannot(path, "it is no regular file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _cannot(path, f"you may not write into the folder {folder}")
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
    except OSError as problem:
        raise _cannot(path, problem.strerror) from problem


def write(path, content):
    """Put a content in the place of a file, at once; who may read it stays as it was.

    :raises DroverError: the disk is full, or the folder may not be written.
    """
    # What a link points to, so that the link stays one.
    temporary, target = None, os.path.realpath(path)
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else MODE
        handle, temporary = tempfile.mkstemp(prefix=".drover-report.", dir=os.path.dirname(target))
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
        temporary = None
    except OSError as problem:
        raise _cannot(path, problem.strerror) from problem
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def _cannot(path, reason):
    return DroverError(f"The report {path} cannot be written: {reason}. Give drover_report a path that you may write.")

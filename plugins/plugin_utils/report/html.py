# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML page: figures in, one text out, with nothing in it that would be fetched from anywhere.

Its file is read as it is, and replaced as a whole.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from typing import Any

try:
    import jinja2
    import markupsafe
except ImportError:
    jinja2 = markupsafe = None  # type: ignore[assignment]  # require() says that it is missing

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, require
from ansible_collections.drover.compute.plugins.plugin_utils.report import formatting
from ansible_collections.drover.compute.plugins.plugin_utils.report.view import BANDS

FOLDER = os.path.join(os.path.dirname(__file__), "page")
_WRITTEN = re.compile(rb'<time id="written" datetime="([0-9TZ:.-]+)" data-seconds="([0-9.]+)">')


def page(view: Mapping[str, Any], at: float) -> bytes:
    """The page.

    :param view: what view.view() returns, with capacity (see host_loss.py) and plans (a list, see plan.py).
    :param at: the time that it says it was written at, seconds since 1970.
    :returns: bytes, the same for the same view and time.
    """
    require("Jinja2", jinja2)
    style, script = _part("style.css"), _part("filter.js")
    template = _environment().get_template("page.html.j2")
    text = template.render(
        **view,
        written=at,
        bands=BANDS,
        style=markupsafe.Markup(style),
        script=markupsafe.Markup(script),
        # What is in the page may be used, and nothing else: no script of a name that slipped through either.
        security=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
    )
    return text.encode("utf-8")


def written_at(content: bytes) -> float | None:
    """The time that a page says it was written at; None when it is none of ours."""
    found = _WRITTEN.search(content[:65536])
    return float(found.group(2)) if found else None


def _part(name: str) -> str:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(
        {name: getattr(formatting, name) for name in ("memory", "disk", "moment", "exact", "duration", "percent", "weight")}
    )
    return environment


def _finalize(value: Any) -> Any:
    """Every value that is put into the page comes by here before it is escaped."""
    if value is None:
        return "\u2013"
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return formatting.clean(value)
    return value


#: For its owner's eyes: it tells what runs where. Whoever opens a page to others keeps that.
MODE = 0o600


def read(path: str) -> bytes:
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


def write(path: str, content: bytes) -> None:
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


def _cannot(path: str, reason: str | None) -> DroverError:
    return DroverError(f"The report {path} cannot be written: {reason}. Give drover_report a path that you may write.")

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML page: figures in, one text out, with nothing in it that would be fetched from anywhere."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import re

try:
    import jinja2
    import markupsafe
except ImportError:
    jinja2 = markupsafe = None

from ansible_collections.drover.compute.plugins.plugin_utils.errors import require
from ansible_collections.drover.compute.plugins.plugin_utils.report import words
from ansible_collections.drover.compute.plugins.plugin_utils.report.picture import BANDS

FOLDER = os.path.join(os.path.dirname(__file__), "page")
_WRITTEN = re.compile(rb'<time id="written" datetime="([0-9TZ:.-]+)" data-seconds="([0-9.]+)">')


def page(picture, at):
    """The page.

    :param picture: what picture.picture() returns, with capacity (see losing.py) and plans (a list, see plan.py).
    :param at: the time that it says it was written at, seconds since 1970.
    :returns: bytes, the same for the same picture and time.
    """
    require("Jinja2", jinja2)
    style, script = _part("style.css"), _part("filter.js")
    template = _environment().get_template("page.html.j2")
    text = template.render(
        **picture,
        written=at,
        bands=BANDS,
        style=markupsafe.Markup(style),
        script=markupsafe.Markup(script),
        # What is in the page may be used, and nothing else: no script of a name that slipped through either.
        security=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
    )
    return text.encode("utf-8")


def written_at(content):
    """The time that a page says it was written at; None when it is none of ours."""
    found = _WRITTEN.search(content[:65536])
    return float(found.group(2)) if found else None


def _part(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _hash(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@functools.lru_cache(maxsize=1)
def _environment():
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(
        {name: getattr(words, name) for name in ("memory", "disk", "moment", "exact", "duration", "percent", "weight")}
    )
    return environment


def _finalize(value):
    """Every value that is put into the page comes by here before it is escaped."""
    if value is None:
        return "\u2013"
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return words.clean(value)
    return value

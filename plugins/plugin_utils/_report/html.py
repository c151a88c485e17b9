# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML page: figures in, one text out, which loads nothing."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import itertools
import operator
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

try:
    import jinja2
    import markupsafe
except ImportError:
    jinja2 = markupsafe = None  # type: ignore[assignment]  # require() says that it is missing

from ansible_collections.drover.compute.plugins.plugin_utils._errors import require
from ansible_collections.drover.compute.plugins.plugin_utils._records.simulation import Simulated
from ansible_collections.drover.compute.plugins.plugin_utils._report import formatting, simulation
from ansible_collections.drover.compute.plugins.plugin_utils._report.heat import BANDS, SHOWN
from ansible_collections.drover.compute.plugins.plugin_utils._report.version import version

FOLDER = os.path.join(os.path.dirname(__file__), "page")
#: In a content security policy: nothing.
_NONE = "'none'"
#: Where the runbooks are.
GUIDES = "https://github.com/drover-compute/drover.compute/blob/main/docs/"
#: A fleet of more hosts or instances than this is in the page as text, and the script shows a part of it at a time: a browser needs
#: seconds for a table of thousands of rows. Without a script the browser shows the whole table.
MOST_HOSTS = 500
MOST_INSTANCES = 5000
#: So many characters of these rows are in the page as they are; more are packed, and only a script shows them.
MOST_TEXT = 8_000_000
#: The heat map of more hosts than this is folded.
MOST_CELLS = 1000
#: So many lines of "Needs a look" are not folded.
LOOKS = 20
#: What stands for None.
_NOTHING = "\u2013"
#: The values of an instance in a row of a table, and the row.
_CELLS = operator.itemgetter("uuid", "name", "state", "address", "vcpus", "memory", "disk", "server_group", "project")
_ROW = '<tr id="i-%s"><th scope="row">%s</th><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>'
#: The paragraph that says when the page was written, and how old its content was then.
_AGES = re.compile(rb'<p id="ages"[^>]*>.*?</p>', re.DOTALL)


def page(view: Mapping[str, Any], at: float, fleet: str | None = None) -> bytes:
    """Write the page.

    :param view: what conductor.report_data.read() returns.
    :param at: the time of the page, seconds since 1970.
    :param fleet: the name of the fleet.
    :returns: bytes, the same for the same view, time and name.
    """
    return _rendered(
        "page.html.j2",
        at,
        fleet,
        script="page.js",
        **view,
        guides=GUIDES,
        looks=LOOKS,
        most_text=MOST_TEXT,
        large=len(view["hosts"]) > MOST_HOSTS or view["summary"]["instances"] > MOST_INSTANCES,
    )


def simulation_page(found: Simulated, at: float, fleet: str | None = None) -> bytes:
    """Write the page of a simulation.

    :param found: what _simulation.simulate.Question.answer() returns, with maps.
    :param at, fleet: of page().
    """
    before, after = found["before"], found["after"]
    return _rendered(
        "simulation.html.j2",
        at,
        fleet,
        changes=[{**each, "without": simulation.left_out(each)} for each in found["changes"]],
        facts=simulation.facts(before, after),
        fill=simulation.fill(before, after),
        sizes=simulation.sizes(before, after),
        balance=simulation.balance(found),
        states=(("Before", before), ("After", after)),
    )


def _rendered(template: str, at: float, fleet: str | None, script: str | None = None, **values: Any) -> bytes:
    """Write a page.

    :param script: the name of its script; None for a page without one.
    """
    require("Jinja2", jinja2)
    style, code = _part("style.css"), "" if script is None else _part(script)
    text = (
        _environment()
        .get_template(template)
        .render(
            **values,
            written=at,
            fleet=fleet,
            version=version(),
            bands=BANDS,
            shown=SHOWN,
            most_cells=MOST_CELLS,
            style=markupsafe.Markup(style),
            script=markupsafe.Markup(code),
            # What is in the page may be used, and nothing else: no script of a name that slipped through either.
            security=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(code) if code else _NONE}; "
            "base-uri 'none'; form-action 'none'",
        )
    )
    return text.encode("utf-8")


def differ(one: bytes, other: bytes) -> bool:
    """Return whether two pages differ in more than their ages."""
    return _AGES.sub(b"", one, count=1) != _AGES.sub(b"", other, count=1)


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
    environment.globals["name"] = _name
    environment.globals["instance_rows"] = _instance_rows
    environment.filters["packed"] = _packed
    environment.filters.update(
        {name: getattr(formatting, name) for name in ("age", "number", "memory", "disk", "moment", "exact", "duration", "weight")}
    )
    return environment


def _name(text: str | None) -> Any:
    """Write text of people, kept from turning the direction of what stands beside it; most of it cannot.

    A function and no macro, as a large page has hundreds of thousands.
    """
    return text if text is None or text.isascii() else markupsafe.Markup(f"<bdi>{markupsafe.escape(formatting.clean(text))}</bdi>")


def _instance_rows(instances: Iterable[Mapping[str, Any]]) -> Any:
    """Write the rows of a table of instances; no macro, as a large page has hundreds of thousands of values there."""
    rows = list(map(_CELLS, instances))
    values = list(itertools.chain.from_iterable(rows))
    # Looked at together, which is faster than one by one: nearly all of them are written as they are.
    cells = [_NOTHING if each is None else each for each in values] if _is_plain("".join(map(str, values))) else map(_cell, values)
    return markupsafe.Markup("\n".join([_ROW] * len(rows)) % tuple(cells))


def _is_plain(text: str) -> bool:
    """Tell whether a text is in the page as it is."""
    return text.isascii() and text.isprintable() and str(markupsafe.escape(text)) == text


def _cell(value: Any) -> str:
    """Write a value as the templates do."""
    return str(markupsafe.escape(_finalize(_name(value) if isinstance(value, str) else value)))


def _packed(text: str) -> str:
    """Compress text, the same for the same text, for the script of the page."""
    # Level 9 takes three times as long, for two percent.
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 7, mtime=0)).decode("ascii")


def _finalize(value: Any) -> Any:
    """Clean a value before it is escaped and put into the page."""
    if value is None:
        return _NOTHING
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return formatting.clean(value)
    return value

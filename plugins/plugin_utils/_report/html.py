# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML page: figures in, one text out. The page loads no other file."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import itertools
import operator
import os
import re
from collections.abc import Iterable
from typing import Any

from .parts import Cell, Figure, InstanceRow, ReportView

try:
    import jinja2
    import markupsafe
except ImportError:
    jinja2 = markupsafe = None  # type: ignore[assignment]  # require() says that it is missing

from .._common.errors import require
from .._records.simulation import Simulation
from . import formatting, simulation
from .heat import BANDS, SHOWN
from .version import version

FOLDER = os.path.join(os.path.dirname(__file__), "page")
#: The value in a content security policy that allows nothing.
_NONE = "'none'"
#: The address of the runbooks.
GUIDES = "https://github.com/drover-compute/drover.compute/blob/main/docs/"
#: A fleet with more hosts or instances than this is in the page as text, and the script shows a
#: part of it at a time: a browser needs seconds for a table of thousands of rows. Without a script
#: the browser shows the whole table.
MOST_HOSTS = 500
MOST_INSTANCES = 5000
#: The characters of these rows that are in the page as they are; more are packed, and only a script
#: shows them.
MOST_TEXT = 8_000_000
#: The heat map of more hosts than this is collapsed.
MOST_CELLS = 1000
#: The lines of "Needs a look" that are not collapsed.
LOOKS = 20
#: The text for None.
_NOTHING = "\u2013"
#: The values of an instance in a row of a table, and the row.
_CELLS = operator.itemgetter(
    "uuid", "name", "state", "address", "vcpus", "memory", "disk", "server_group", "project"
)
_ROW = (
    '<tr id="i-%s"><th'
    ' scope="row">%s</th><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>'
)
#: The paragraph with the time of the page, and the age of its content at that time.
_AGES = re.compile(rb'<p id="ages"[^>]*>.*?</p>', re.DOTALL)


def page(view: ReportView, at: float, fleet: str | None = None) -> bytes:
    """Write the page.

    :param view: the result of conductor.report_data.read().
    :param at: the time of the page, seconds since 1970.
    :param fleet: the name of the fleet.
    :returns: bytes; equal for an equal view, time and name.
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


def simulation_page(found: Simulation, at: float, fleet: str | None = None) -> bytes:
    """Write the page of a simulation.

    :param found: the result of _simulation.simulate.Question.answer(), with maps.
    :param at, fleet: the same as for page().
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


def _rendered(
    template: str, at: float, fleet: str | None, script: str | None = None, **values: Any
) -> bytes:
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
            # Only parts of the page itself are allowed, so a script in a name cannot run.
            security=(
                f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src"
                f" {_hash(code) if code else _NONE}; base-uri 'none'; form-action 'none'"
            ),
        )
    )
    return text.encode("utf-8")


def differ(one: bytes, other: bytes) -> bool:
    """Return True if two pages differ in more than their ages."""
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
    environment.globals["figure"] = _figure
    environment.globals["map_cells"] = _map_cells
    environment.globals["instance_rows"] = _instance_rows
    environment.filters["packed"] = _compress_text
    environment.filters.update(
        {
            name: getattr(formatting, name)
            for name in ("age", "number", "memory", "disk", "moment", "exact", "duration", "weight")
        }
    )
    return environment


def _name(text: str | None) -> Any:
    """Write text of people, isolated so that it cannot turn the direction of the text beside it;
    most texts cannot.

    It is a function and not a macro, because a large page has hundreds of thousands of calls.
    """
    return (
        text
        if text is None or text.isascii()
        else markupsafe.Markup(f"<bdi>{markupsafe.escape(formatting.clean(text))}</bdi>")
    )


def _instance_rows(instances: Iterable[InstanceRow]) -> Any:
    """Write the rows of a table of instances; not a macro, because a large page has hundreds of
    thousands of values there.
    """
    rows = list(map(_CELLS, instances))
    values = list(itertools.chain.from_iterable(rows))
    # One check of all values is faster than a check of each: nearly all of them need no change.
    cells = (
        [_NOTHING if each is None else each for each in values]
        if _is_plain("".join(map(str, values)))
        else map(_cell, values)
    )
    return markupsafe.Markup("\n".join([_ROW] * len(rows)) % tuple(cells))


def _map_cells(cells: Iterable[Cell], linked: bool) -> Any:
    """Write the cells of a heat map; not a macro, because a large page has tens of thousands.

    :param linked: whether the page has a row for each host.
    """
    items = []
    for cell in cells:
        bands, percents, text = cell["bands"], cell["percents"], _value(cell["text"])
        kind = "".join(
            f" {letter}{bands[letter]}" for letter, dummy in SHOWN if bands[letter] is not None
        )
        data = "".join(f' data-{letter}="{_value(percents[letter])}"' for letter, dummy in SHOWN)
        tag, more = ("a", f' href="#{_value(cell["id"])}"') if linked else ("span", ' role="img"')
        items.append(
            f'<li><{tag} class="cell {_value(cell["kind"])}{kind}"{more}{data} title="{text}"'
            f' aria-label="{text}">{_value(cell["host"])}</{tag}></li>'
        )
    return markupsafe.Markup("\n".join(items))


def _figure(each: Figure) -> Any:
    """Write a bar and a text with the same figures beside it; not a macro, as above. The upper part
    of the bar is the allocated part of the capacity, the lower part the physical use.
    """
    percent, physical, name = each["percent"], each["physical_percent"], _value(each["name"])
    parts = []
    if percent is not None or physical is not None:
        parts.append(
            '<svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none"'
            ' aria-hidden="true"><rect class="track" width="100" height="7"/>'
        )
        if percent is not None:
            parts.append(
                f'<rect class="{"over" if percent > 100 else "alloc"}" width="{min(percent, 100)}"'
                ' height="7"/>'
            )
        if physical is not None:
            parts.append(
                '<rect class="track" y="8" width="100" height="4"/><rect class="phys" y="8"'
                f' width="{min(physical, 100)}" height="4"/>'
            )
        parts.append("</svg>")
    value = f"{_value(each['used'])}/{_value(each['capacity'])}"
    parts.append(
        f'<span class="figure"><data class="{name}" value="{value}">{_value(each["text"])}</data>'
    )
    if percent is not None:
        parts.append(f" ({percent}&nbsp;%)")
    if each["shared"]:
        parts.append(" <small>of a shared pool</small>")
    if each["physical"] is not None:
        value = f"{each['physical']}/{_value(each['physical_total'])}"
        parts.append(
            f' <small><data class="{name}_physical" value="{value}">used'
            f" {_value(each['physical_text'])}</data></small>"
        )
    parts.append("</span>")
    return markupsafe.Markup("".join(parts))


def _value(value: Any) -> str:
    """Write a value in the form of the templates."""
    if isinstance(value, int):
        return str(value)
    return str(markupsafe.escape(_finalize(value)))


def _is_plain(text: str) -> bool:
    """Return True if a text needs no change for the page."""
    return text.isascii() and text.isprintable() and str(markupsafe.escape(text)) == text


def _cell(value: Any) -> str:
    """Return a value in the form of the templates; a text is treated as a name."""
    return _value(_name(value) if isinstance(value, str) else value)


def _compress_text(text: str) -> str:
    """Compress text for the script of the page; equal texts give equal results."""
    # Level 9 takes three times as long, for two percent.
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 7, mtime=0)).decode("ascii")


def _finalize(value: Any) -> Any:
    """Clean a value before it is escaped and put into the page."""
    if value is None:
        return _NOTHING
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return formatting.clean(value)
    return value

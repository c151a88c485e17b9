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

from .._common.errors import require
from .._records.simulation import Simulated
from . import formatting, simulation
from .heat import BANDS, SHOWN
from .version import version

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
    environment.globals["figure"] = _figure
    environment.globals["map_cells"] = _map_cells
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


def _map_cells(cells: Iterable[Mapping[str, Any]], linked: bool) -> Any:
    """Write the cells of a heat map; no macro, as a large page has tens of thousands.

    :param linked: whether the page has a row for each host.
    """
    found = []
    for each in cells:
        bands, percents, text = each["bands"], each["percents"], _value(each["text"])
        kind = "".join(f" {letter}{bands[letter]}" for letter, dummy in SHOWN if bands[letter] is not None)
        data = "".join(f' data-{letter}="{_value(percents[letter])}"' for letter, dummy in SHOWN)
        tag, more = ("a", f' href="#{_value(each["id"])}"') if linked else ("span", ' role="img"')
        found.append(
            f'<li><{tag} class="cell {_value(each["kind"])}{kind}"{more}{data} title="{text}" aria-label="{text}">{_value(each["host"])}</{tag}></li>'
        )
    return markupsafe.Markup("\n".join(found))


def _figure(each: Mapping[str, Any]) -> Any:
    """Write a bar, above what is allocated of the capacity, below the physical use, and beside it a text that says the same; no macro, as above."""
    percent, physical, name = each["percent"], each["physical_percent"], _value(each["name"])
    parts = []
    if percent is not None or physical is not None:
        parts.append(
            '<svg class="bar" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="7"/>'
        )
        if percent is not None:
            parts.append(f'<rect class="{"over" if percent > 100 else "alloc"}" width="{min(percent, 100)}" height="7"/>')
        if physical is not None:
            parts.append(
                f'<rect class="track" y="8" width="100" height="4"/><rect class="phys" y="8" width="{min(physical, 100)}" height="4"/>'
            )
        parts.append("</svg>")
    value = f"{_value(each['used'])}/{_value(each['capacity'])}"
    parts.append(f'<span class="figure"><data class="{name}" value="{value}">{_value(each["text"])}</data>')
    if percent is not None:
        parts.append(f" ({percent}&nbsp;%)")
    if each["shared"]:
        parts.append(" <small>of a shared pool</small>")
    if each["physical"] is not None:
        value = f"{each['physical']}/{_value(each['physical_total'])}"
        parts.append(f' <small><data class="{name}_physical" value="{value}">used {_value(each["physical_text"])}</data></small>')
    parts.append("</span>")
    return markupsafe.Markup("".join(parts))


def _value(value: Any) -> str:
    """Write a value as the templates do."""
    if isinstance(value, int):
        return str(value)
    return str(markupsafe.escape(_finalize(value)))


def _is_plain(text: str) -> bool:
    """Tell whether a text is in the page as it is."""
    return text.isascii() and text.isprintable() and str(markupsafe.escape(text)) == text


def _cell(value: Any) -> str:
    """Write a value as the templates do, and text as a name."""
    return _value(_name(value) if isinstance(value, str) else value)


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

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines and aligned columns of plain text, for terminals and job logs: instances, findings of an
audit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from .._common import labels
from .._common.errors import as_sentence, node_label, node_labels, some
from . import formatting

GAP = "  "
_GAPS = re.compile(r"(?<=\S) {2,}(?=\S)")
#: The minimum of columns for a name in a terminal, and the maximum for another value; the data has
#: the full text.
WIDEST = 32


def width(text: str) -> int:
    """Return the number of columns of a terminal that a text takes.

    Wide East Asian characters take two columns, combining marks take none.
    """
    columns = 0
    for char in text:
        if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
            continue
        columns += 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
    return columns


def cell(value: Any) -> str:
    """Write one value as a cell: None as ``-``, booleans as yes and no, floats short, always one
    line.
    """
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    if isinstance(value, (list, tuple)):
        return ", ".join(cell(item) for item in value) or "-"
    return (
        " ".join("".join(char if char.isprintable() else " " for char in str(value)).split()) or "-"
    )


def shortened(value: Any, most: int) -> str:
    """Cut a cell to this number of columns of a terminal."""
    text = cell(value)
    if width(text) <= most:
        return text
    kept = ""
    for char in text:
        if width(kept + char) > most - 3:
            break
        kept += char
    return kept + "..."


def names_within(names: Sequence[str], most: int) -> list[str]:
    """Cut names in the middle to this number of columns of a terminal; all stay whole if two would
    look the same.
    """
    cut = [name if width(name) <= most else _without_middle(name, most) for name in names]
    return cut if len(set(cut)) == len(set(names)) else list(names)


def _without_middle(name: str, most: int) -> str:
    """Cut the middle of a name. Numbers are at the end of names, so the end keeps as much as the
    beginning.
    """
    head = shortened(name, (most - 3) // 2 + 3)
    tail = ""
    for char in reversed(name):
        if width(head + char + tail) > most:
            break
        tail = char + tail
    return head + tail


#: The levels of alarm of the state of a row.
BAD, NOTABLE = "bad", "notable"
#: The heading of the column of states, and the words in it that are not fine.
STATE = "STATE"
_ALARMS = {
    "down": BAD,
    "crashed": BAD,
    "missing": BAD,
    "disabled": NOTABLE,
    "maintenance": NOTABLE,
    "paused": NOTABLE,
}


def alarm(words: str) -> str | None:
    """Return the level of alarm of a state, in the words of state() or of an instance: BAD, NOTABLE
    or None.
    """
    found = {_ALARMS.get(word) for word in words.split(", ")}
    return BAD if BAD in found else NOTABLE if NOTABLE in found else None


class Row(str):
    """A complete line of a table, with its form for a narrow terminal. It is not part of a result:
    see times.with_iso().

    alarm: the level of its state, see alarm().
    """

    alarm: str | None
    #: Return the line within this number of columns of a terminal, as far as the table can be made
    #: so narrow.
    within: Callable[[int], str]

    @classmethod
    def of(cls, table: _Table, number: int) -> Row:
        row = cls(table.lines(None)[number])
        row.alarm = table.alarms[number]
        row.within = lambda most: table.lines(most)[number]
        return row


def align(
    headings: Sequence[str],
    rows: Sequence[Sequence[Any]],
    right: Collection[str] = (),
    indent: str = "",
    optional: Sequence[str] = (),
    name: str | None = None,
) -> list[str]:
    """Align values under headings.

    :param right: headings of the columns with right-aligned values (numbers).
    :param indent: text before every line.
    :param optional: headings of the columns that a narrow terminal leaves out, one after the other,
        until the lines fit.
    :param name: heading of the column of names that are cut if the lines still do not fit, but
        never to less than WIDEST.
    :returns: a list of Rows without trailing blanks, the headings first.
    :raises ValueError: the number of values in a row differs from the number of headings.
    """
    table = _Table(headings, rows, right, indent, optional, name)
    return [Row.of(table, number) for number in range(len(table.cells))]


class _Table:
    """The cells of a table that can be laid out for any terminal; see align().

    alarms: the level of each line, see alarm().
    """

    def __init__(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[Any]],
        right: Collection[str],
        indent: str,
        optional: Sequence[str],
        name: str | None,
    ) -> None:
        self.cells = [list(headings)] + [[cell(value) for value in row] for row in rows]
        for row in self.cells:
            if len(row) != len(headings):
                raise ValueError(
                    f"a row has {len(row)} values, the table has {len(headings)} columns"
                )
        at = headings.index(STATE) if STATE in headings else None
        self.alarms = [None if at is None else alarm(row[at]) for row in self.cells]
        self._right, self._indent, self._optional, self._name = right, indent, optional, name
        self._within: dict[int | None, list[str]] = {}

    def lines(self, most: int | None) -> list[str]:
        """Return the lines, wider than ``most`` columns only if the table cannot be narrower; None
        for the whole table.
        """
        if most not in self._within:
            self._within[most] = self._laid_out(most)
        return self._within[most]

    def _laid_out(self, most: int | None) -> list[str]:
        headings, lines = self.cells[0], [list(row) for row in self.cells]
        widths = [max(width(line[number]) for line in lines) for number in range(len(headings))]
        shown = list(range(len(headings)))

        def excess() -> int:
            return (
                0
                if most is None
                else len(self._indent)
                + sum(widths[number] for number in shown)
                + len(GAP) * (len(shown) - 1)
                - most
            )

        for heading in self._optional:
            if excess() <= 0:
                break
            shown.remove(headings.index(heading))
        if self._name is not None and excess() > 0:
            at = headings.index(self._name)
            cut = names_within([line[at] for line in lines], max(widths[at] - excess(), WIDEST))
            for line, text in zip(lines, cut):
                line[at] = text
            widths[at] = max(map(width, cut))

        def aligned(line: Sequence[str]) -> str:
            cells = []
            for number in shown:
                blanks = " " * (widths[number] - width(line[number]))
                cells.append(
                    blanks + line[number]
                    if headings[number] in self._right
                    else line[number] + blanks
                )
            return (self._indent + GAP.join(cells)).rstrip()

        return [aligned(line) for line in lines]


def folded(line: str, most: int) -> list[str]:
    """Fold a line that is wider than a terminal, between words if there are any.

    The text after a fold is placed below the last column of a table if this column begins early
    enough; otherwise it is indented like the line, in a table by some more blanks.

    :param most: columns of the terminal.
    """
    inset = len(line) - len(line.lstrip(" "))
    gaps = [found.end() for found in _GAPS.finditer(line, inset)]
    hanging = width(line[: gaps[-1]]) if gaps else inset
    lines = []
    if gaps and hanging > most * 0.6:
        hanging = inset + 2 * len(GAP)
        # The last column goes to the next line as a whole, if the others fit.
        others = line[: gaps[-1]].rstrip()
        if width(line) > most >= width(others):
            lines.append(others)
            line = " " * hanging + line[gaps[-1] :]
    elif hanging > most // 2:
        hanging = 0
    while width(line) > most:
        end = _longest(line, most)
        blank = line.rfind(" ", hanging + 1 if lines else inset + 1, end + 1)
        cut = blank if blank > 0 else end
        lines.append(line[:cut].rstrip())
        line = " " * hanging + line[cut:].lstrip(" ")
    return [*lines, line]


def _longest(line: str, most: int) -> int:
    """Return the number of characters of a line that fit into this number of columns, at least one
    behind its indent.
    """
    taken = 0
    for number, char in enumerate(line):
        taken += width(char)
        if taken > most:
            return max(number, len(line) - len(line.lstrip(" ")) + 1)
    return len(line)


INSTANCE_HEADINGS = ("INSTANCE", "STATE", "HOST", "VCPU", "MEMORY", "DISK", "GROUP", "PROJECT")
SIZES = ("VCPU", "MEMORY", "DISK")


def sizes(row: Mapping[str, Any]) -> list[Any]:
    """Return the cells of SIZES: vcpus, memory_mb, and disk_gb with pool_disks of an instance or a
    move.
    """
    return [
        row.get("vcpus"),
        formatting.memory(row.get("memory_mb")),
        formatting.disks(row.get("disk_gb"), row.get("pool_disks")),
    ]


def instances_table(
    instances: Sequence[Mapping[str, Any]], nodes: Iterable[tuple[str, str | None]] = ()
) -> list[str]:
    """Return instances, one line each, or a sentence if there are none.

    :param nodes: the hosts and nodes of the fleet; they show if the name of a host alone is
        ambiguous.
    :param instances: dicts from instances.listing of the store: name, state, host, node, vcpus,
        memory_mb (MiB), disk_gb (GiB), server_group, project, and perhaps labels and addresses.
    """
    if not instances:
        return ["No instances."]
    headings, rows = list(INSTANCE_HEADINGS), []
    label = node_labels(
        [*nodes, *((each.get("host") or "", each.get("node")) for each in instances)]
    )
    for instance in instances:
        row = [
            instance.get("name"),
            instance.get("state"),
            label(instance.get("host") or "", instance.get("node")) or None,
            *sizes(instance),
        ]
        rows.append(
            [*row, *(shortened(instance.get(key), WIDEST) for key in ("server_group", "project"))]
        )
    if any(each.get("labels") for each in instances):
        headings.append("LABELS")
        rows = [
            [*row, shortened(labels.as_text(each.get("labels")), WIDEST)]
            for row, each in zip(rows, instances)
        ]
    if any(each.get("addresses") for each in instances):
        headings.append("ADDRESSES")
        rows = [[*row, each.get("addresses")] for row, each in zip(rows, instances)]
    optional = [each for each in ("LABELS", "PROJECT", "GROUP") if each in headings]
    return align(headings, rows, right=SIZES, optional=optional, name="INSTANCE")


def moving_lines(moves: Sequence[Mapping[str, Any]], now: float) -> list[str]:
    """Return a line for each migration that is under way; none if nothing moves.

    :param moves: dicts name, type, source, destination, created_at.
    """
    return [
        f"{each['name']}:"
        f" {'moves' if each['type'] != 'resize' else 'is resized'}{_live(each['type'])},"
        f" {each['source']} -> {each['destination']}, begun"
        f" {formatting.ago(now - each['created_at'])}"
        for each in moves
    ]


def _live(kind: str) -> str:
    return {
        "live-migration": " live",
        "migration": " cold",
        "evacuation": " off its dead host",
    }.get(kind, "")


def place(row: Mapping[str, Any]) -> str | None:
    """Return the place of a row: the host, and the compute node if its name adds information."""
    return node_label(row.get("host") or "", row.get("node")) or None


def state(host: Mapping[str, Any]) -> str:
    """Return a state such as ``up``, ``down``, ``up, disabled``, ``up, maintenance``."""
    words = [host.get("state") or "up"]
    if host.get("maintenance"):
        words.append("maintenance")
    elif host.get("status") == "disabled":
        words.append("disabled")
    return ", ".join(words)


FINDING_HEADINGS = ("FINDING", "NAME", "HOST", "WHY, AND WHAT HEAL DOES")


def audit_table(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return findings, one line each, then the advice for each kind.

    :param findings: dicts from placement.audit.
    :returns: a list of lines; none when there are no findings.
    """
    if not findings:
        return []
    # Equal findings about several things are one line.
    same: dict[tuple[str, ...], list[tuple[str, Mapping[str, Any]]]] = {}
    for finding in findings:
        name = finding["name"] or finding["provider"] or finding["uuid"]
        reason = finding["why"].replace(name, "") if name else finding["why"]
        same.setdefault(
            (
                finding["kind"],
                finding["host"],
                reason.replace(finding["uuid"] or "-", ""),
                finding["heal"],
            ),
            [],
        ).append((name, finding))
    rows = [
        [
            each["kind"],
            shortened(some([name for name, _each in group], 2), WIDEST) if len(group) > 1 else name,
            shortened(each["host"], WIDEST),
            f"{as_sentence(each['why'])} Heal {each['heal']}"
            + (
                f" The same for {some([other for other, _each in group[1:]], 2)}."
                if len(group) > 1
                else ""
            ),
        ]
        for group in same.values()
        for name, each in group[:1]
    ]
    advice = {each["kind"]: each["advice"] for each in findings}
    return [
        *align(FINDING_HEADINGS, rows, name="NAME"),
        "",
        *(f"{kind}: {text}" for kind, text in advice.items()),
    ]


def audit_lines(table: Sequence[str], checked: Mapping[str, int]) -> list[str]:
    """Return the lines of an audit: its table, or the checked things if there are no findings.

    :param table: the result of audit_table().
    :param checked: {name of the things: their number}.
    """
    return list(table) or [
        f"{', '.join(f'{count} {name}' for name, count in checked.items())} checked: consistent."
    ]

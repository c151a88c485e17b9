# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Aligned columns of plain text, for terminals and job logs."""

from __future__ import annotations

import unicodedata

GAP = "  "


def width(text):
    """How many columns of a terminal a text takes.

    Wide East Asian characters take two, marks that combine with the character before none.
    """
    columns = 0
    for char in text:
        if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
            continue
        columns += 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
    return columns


def cell(value):
    """One value as a cell: None as ``-``, booleans as yes and no, floats short, always one line."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    if isinstance(value, (list, tuple)):
        return ", ".join(cell(item) for item in value) or "-"
    return " ".join("".join(char if char.isprintable() else " " for char in str(value)).split()) or "-"


def shortened(value, most):
    """A cell cut to so many columns of a terminal."""
    text = cell(value)
    if width(text) <= most:
        return text
    kept = ""
    for char in text:
        if width(kept + char) > most - 3:
            break
        kept += char
    return kept + "..."


def align(headings, rows, right=(), indent=""):
    """Values under headings.

    :param headings: a list of column headings.
    :param rows: a list of rows, each a list of as many values.
    :param right: headings of the columns whose values (numbers) end under each other.
    :param indent: put before every line.
    :returns: a list of lines without trailing blanks, the headings first.
    :raises ValueError: a row has another number of values than there are headings.
    """
    texts = [[cell(value) for value in row] for row in rows]
    for row in texts:
        if len(row) != len(headings):
            raise ValueError(f"a row has {len(row)} values, the table has {len(headings)} columns")
    lines = [list(headings)] + texts
    widths = [max(width(line[number]) for line in lines) for number in range(len(headings))]

    def aligned(line):
        cells = []
        for heading, text, most in zip(headings, line, widths):
            blanks = " " * (most - width(text))
            cells.append(blanks + text if heading in right else text + blanks)
        return (indent + GAP.join(cells)).rstrip()

    return [aligned(line) for line in lines]

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of what an audit found."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.report.columns import align, cell, width

HEADINGS = ("FINDING", "NAME", "HOST", "WHY", "HEAL")
#: More columns of a terminal than this a name does not get; the data has it whole.
WIDEST = 32
#: The same for what is told of it.
WIDEST_WHY = 100


def audit_table(findings):
    """Findings, one line each, then what to do about each kind.

    :param findings: dicts as placement.audit returns them.
    :returns: a list of lines; none when there are no findings.
    """
    if not findings:
        return []
    rows = [
        [
            each["kind"],
            _short(each["name"] or each["provider"] or each["uuid"], WIDEST),
            _short(each["host"], WIDEST),
            _short(each["why"], WIDEST_WHY),
            each["heal"],
        ]
        for each in findings
    ]
    advice = {each["kind"]: each["advice"] for each in findings}
    return [*align(HEADINGS, rows), "", *(f"{kind}: {text}" for kind, text in advice.items())]


def _short(value, most):
    """A cell cut to some columns of a terminal."""
    text = cell(value)
    if width(text) <= most:
        return text
    kept = ""
    for char in text:
        if width(kept + char) > most - 3:
            break
        kept += char
    return kept + "..."

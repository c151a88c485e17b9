# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of what an audit found."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.report.columns import align, shortened

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
            shortened(each["name"] or each["provider"] or each["uuid"], WIDEST),
            shortened(each["host"], WIDEST),
            shortened(each["why"], WIDEST_WHY),
            each["heal"],
        ]
        for each in findings
    ]
    advice = {each["kind"]: each["advice"] for each in findings}
    return [*align(HEADINGS, rows), "", *(f"{kind}: {text}" for kind, text in advice.items())]

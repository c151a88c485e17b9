# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter fleet_findings: the findings about a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._report import fleet_check


def fleet_findings(hosts: Sequence[str], hostvars: Mapping[str, Any]) -> dict[str, Any]:
    """See _fleet_findings.yml."""
    findings = fleet_check.findings({name: _answer(hostvars[name]) for name in hosts})
    return {
        "findings": [each._asdict() for each in findings],
        "errors": sum(each.severity == fleet_check.ERROR for each in findings),
        "warnings": sum(each.severity == fleet_check.WARNING for each in findings),
        "lines": fleet_check.lines(len(hosts), findings),
    }


def _answer(variables: Mapping[str, object]) -> dict[str, object]:
    # Ansible's hostvars has no get().
    looked = to_plain(variables["check_looked"]) if "check_looked" in variables else {}
    if "host" not in looked:
        return {"problem": str(looked.get("msg") or "it gave no answer")}
    reaches = [
        to_plain(variables[name])
        for name in ("check_reach", "check_root_reach")
        if name in variables
    ]
    unreached = []
    for reach in reaches:
        failed = reach.get("msg") if "tried" not in reach and not reach.get("skipped") else None
        unreached += [str(failed)] if failed else list(reach.get("sentences") or ())
    compared = to_plain(variables["check_compared"]) if "check_compared" in variables else {}
    return {
        **looked,
        "unreached": sorted(set(unreached)),
        "lacking": compared.get("lacking"),
        "names": compared.get("names"),
        "migration": (
            to_plain(variables["drover_migration"]) if "drover_migration" in variables else None
        ),
        "migration_address": next(
            (str(variables[name]) for name in ("drover_migration_address",) if name in variables),
            None,
        ),
    }


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_fleet_findings": fleet_findings}

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit: contradictions in the store or between the store and the hosts, and the repair of safe
cases.

snapshot.py reads the store, checks.py and hardware_checks.py find (data in, data out), repair.py
repairs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypedDict

from ..._store.database import bulk
from ..._store.database.sql import Connection
from . import checks, hardware_checks, repair, snapshot
from .findings import LEVELS, Finding, Findings


class Audit(TypedDict):
    """The findings of an audit: before the repair, repaired (``mended``), and left.

    counts: {kind: number of findings that are left}; sound: True if nothing that is left is more
    than information; checked: the numbers of hosts, instances and allocations.
    """

    changed: bool
    findings: list[Finding]
    mended: list[Finding]
    left: list[Finding]
    counts: dict[str, int]
    sound: bool
    checked: dict[str, int]


@bulk.without_collection()
def audit(
    connection: Connection,
    now: float,
    mend: bool = False,
    release_expired: bool = False,
    has_ended: Callable[[str], bool] = lambda holder: False,
) -> Audit:
    """Check the whole store.

    :param mend: True to repair the safe cases, in the caller's transaction, which must be a writing
        one.
    :param release_expired: True if it is safe to release claims that have expired.
    :param has_ended: returns True if the run of a holder is known to have ended.
    """
    seen = dataclasses.replace(snapshot.read(connection), ended=has_ended)
    findings = examine(seen, now, release_expired)
    before = listing = findings.listing()
    if mend and not findings.mends.nothing:
        repair.apply(connection, findings.mends, now)
        # The store is read again, so that only seen repairs count.
        listing = examine(
            dataclasses.replace(snapshot.read(connection), ended=has_ended), now, release_expired
        ).listing()
    remaining = {_key(each) for each in listing}
    counts: dict[str, int] = {}
    for each in listing:
        counts[each["kind"]] = counts.get(each["kind"], 0) + 1
    return {
        "changed": mend and not findings.mends.nothing,
        "findings": before,
        "mended": [each for each in before if each["safe"] and _key(each) not in remaining],
        "left": listing,
        "counts": counts,
        "sound": all(each["level"] == LEVELS[-1] for each in listing),
        "checked": {
            "hosts": len(seen.services),
            "instances": len(seen.instances),
            "allocations": sum(
                len(amounts) for held in seen.held.values() for amounts in held.values()
            ),
        },
    }


def examine(seen: snapshot.AuditSnapshot, now: float, release_expired: bool = False) -> Findings:
    """Find all faults in a snapshot, with their repairs."""
    findings = Findings()
    checks.examine_domains(seen, findings, now)
    checks.examine_instances(seen, findings)
    checks.examine_restarted_hosts(seen, findings)
    checks.examine_consumers(seen, findings, now, release_expired)
    checks.examine_builds(seen, findings, now)
    checks.examine_providers(seen, findings)
    hardware_checks.examine(seen, findings)
    checks.examine_migrations(seen, findings, now)
    return findings


def _key(finding: Finding) -> tuple[str | None, ...]:
    return finding["kind"], finding["uuid"], finding["provider"], finding["resource"]

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit: what in the store contradicts itself or what hosts show, and mending what is safe.

snapshot.py reads the store, checks.py finds (data in, data out), repair.py mends.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.placement.audit import checks, repair, snapshot
from ansible_collections.drover.compute.plugins.plugin_utils.placement.audit.findings import LEVELS, Findings


def audit(connection, now, mend=False, release_expired=False):
    """Look at the whole store, and mend what is safe when asked to.

    :param mend: True to mend, in the caller's one transaction, which must be a writing one then.
    :param release_expired: True to count claims that expired as safe to release.
    :returns: a dict of plain types: changed (bool), findings (what there was), mended (those of them
        that are gone now), left (what there is now; without mend the same as findings), counts (dict
        kind -> how many of left), sound (nothing of left is more than information).
    """
    found = examine(snapshot.read(connection), now, release_expired)
    before = left = found.listing()
    if mend and not found.mends.nothing:
        repair.apply(connection, found.mends, now)
        # Read anew: what is said to be mended has been seen to be.
        left = examine(snapshot.read(connection), now, release_expired).listing()
    remaining = {_key(each) for each in left}
    counts = {}
    for each in left:
        counts[each["kind"]] = counts.get(each["kind"], 0) + 1
    return {
        "changed": mend and not found.mends.nothing,
        "findings": before,
        "mended": [each for each in before if each["safe"] and _key(each) not in remaining],
        "left": left,
        "counts": counts,
        "sound": all(each["level"] == LEVELS[-1] for each in left),
    }


def examine(seen, now, release_expired=False):
    """All findings of a Snapshot, with what would mend the safe ones, as Findings."""
    found = Findings()
    checks.examine_domains(seen, found)
    checks.examine_instances(seen, found)
    checks.examine_consumers(seen, found, now, release_expired)
    checks.examine_providers(seen, found)
    checks.examine_migrations(seen, found, now)
    return found


def _key(finding):
    return tuple(finding[name] for name in ("kind", "uuid", "provider", "resource"))

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fifty ansible-playbook runs claim for thirty places."""

from __future__ import annotations

import concurrent.futures

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import play
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host, selection

pytestmark = pytest.mark.long

RUNS, PLACES, AT_ONCE = 50, 30, 8


def test_fifty_playbooks_claim_for_thirty_places(prepared_url, tmp_path):
    """Slow: each run is a process of about 80 MB and two seconds, so eight run at a time."""
    fleets.discover(prepared_url, host("kvm1", vcpus=10), host("kvm2", vcpus=20))

    def run(number):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        places = ("kvm1", "kvm2") if number % 2 else ("kvm2", "kvm1")
        task = {"selections": [selection(f"web{number}", *places)], "store_url": prepared_url}
        return play(folder, [{"drover.compute.allocation": task}])

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(run, range(RUNS)))
    lost = [output for code, output in answers if code]
    assert len(lost) == RUNS - PLACES, lost[:1]
    assert all(
        "No room for web" in output and "VCPU: asked 1, used 10 of 10" in output for output in lost
    ), lost[:1]
    assert fleets.used(prepared_url) == {"kvm1": 10, "kvm2": 20}
    assert len(fleets.holdings(prepared_url)) == PLACES

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module lease: in one run, against another run, and after a run that was killed."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.tests.unit.action.running import play, run


class Other:
    holder, process = "admin@far", "far/boot/pid:[1]/7:42"


def test_one_run_takes_renews_and_gives_back(prepared_url, tmp_path):
    url = {"store_url": prepared_url}
    tasks = [
        {"drover.compute.lease": {"name": "kvm1", "purpose": "drain", **url}, "register": "first"},
        {"drover.compute.lease": {"name": "kvm1", "purpose": "drain", **url}, "register": "second"},
        {"ansible.builtin.assert": {"that": ["first is changed", "second is not changed"]}},
        {"drover.compute.lease": {"name": "kvm1", "state": "absent", **url}, "register": "third"},
        {"ansible.builtin.assert": {"that": ["third is changed"]}},
    ]
    status, said = play(tmp_path, tasks)
    assert status == 0, said


def test_a_run_that_ended_without_giving_back_does_not_stop_the_next(prepared_url, tmp_path):
    task = [
        {"drover.compute.lease": {"name": "kvm1", "purpose": "drain", "store_url": prepared_url}}
    ]
    assert play(tmp_path, task)[0] == 0
    status, said = play(tmp_path, task)
    assert status == 0 and "Its process is gone, so the lease was taken over" in said


def test_another_run_is_told(prepared_url, tmp_path):
    store = Store.open(prepared_url)
    with store.write() as connection:
        leases.take(connection, "kvm1", Other, "power off", seconds=10**9)
    status, output = play(
        tmp_path, [{"drover.compute.lease": {"name": "kvm1", "store_url": prepared_url}}]
    )
    assert status != 0 and "kvm1 is being worked on by admin@far (power off)" in " ".join(
        output.split()
    )
    assert run("lease", name="kvm1", state="absent", force=True, store_url=prepared_url)["changed"]

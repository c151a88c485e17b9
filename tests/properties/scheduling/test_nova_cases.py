# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions that Nova's own scheduler made, recorded; ``make bench-nova`` compares many more."""

from __future__ import annotations

import importlib
import json
import pathlib

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.benchmarks import fleet_file
from ansible_collections.drover.compute.tests.benchmarks.compare import differences

CASES = json.loads(pathlib.Path(__file__).with_name("nova_cases.json").read_text())


@pytest.mark.parametrize("carry", [False, True], ids=["fresh", "carry"])
def test_decisions_and_weights_are_nova_s(tmp_path, carry):
    benchmark = importlib.import_module(
        "ansible_collections.drover.compute.tests.benchmarks.schedule"
    )
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    fleet_file.load(store, CASES["fleet"])
    runner = benchmark.Runner(
        store, Policy.from_mapping(CASES["policy"]), CASES["requests"], carry, top=8
    )
    for number, theirs in enumerate(CASES["carry" if carry else "fresh"]):
        ours = runner.run(number)[0]
        assert differences(theirs, ours) == [], number
        assert theirs["chosen"] == ours["chosen"] or theirs["error"]

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded answers of Placement itself; ``make bench-placement`` compares many more."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.benchmarks import candidates
from ansible_collections.drover.compute.tests.benchmarks.compare_candidates import differences

CASES = json.loads(pathlib.Path(__file__).with_name("placement_cases.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}-{case['seed']}")
def test_answers_are_placement_s(prepared_url, case):
    asked = [theirs["query"] for theirs in case["queries"]]
    answers = candidates.run(Store.open(prepared_url), copy.deepcopy(case["topology"]), asked)[
        "queries"
    ]
    for theirs, ours in zip(case["queries"], answers):
        assert differences(theirs, ours) == [], theirs["query"]

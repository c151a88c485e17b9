# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.rebalance: an uneven fleet is balanced, once."""

from __future__ import annotations

import json
import re

import pytest
from test_fleet import Domain, changed, said

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]


def rebalance(fleet, *words, check=True, **variables):
    return fleet.playbook("rebalance", "-e", json.dumps(variables), *words, check=check)


def scores(done):
    return [
        float(number)
        for number in re.search(r"Score ([\d.]+), ([\d.]+) after", done.stdout).groups()
    ]


def test_a_skewed_fleet_is_evened_out_once(fleet):
    fleet.make(
        "kvm1",
        *[
            Domain(f"vm{number}", memory_mb=128, state="shutoff" if number == 3 else "running")
            for number in range(4)
        ],
    )
    fleet.playbook("discover")
    before, where = fleet.dump(), fleet.settled()
    file = fleet.folder / "plan.json"

    done = rebalance(fleet, drover_plan_file=str(file))
    assert fleet.dump() == before and fleet.settled() == where
    assert "Nothing was moved. drover_plan_only=false makes these moves" in said(done)
    start, promised = scores(done)
    moves = json.loads(file.read_text())["moves"]
    assert (
        promised < start
        and moves
        and all(move["gain"] > 0 and move["from_host"] == "kvm1" for move in moves)
    )
    assert (
        changed(rebalance(fleet, "--check", drover_plan_only=False)) == 1 and fleet.dump() == before
    )

    # A reviewed plan is carried out only if it is still the plan.
    text = json.loads(file.read_text())
    file.write_text(json.dumps({**text, "moves": text["moves"][:-1]}))
    assert "has other moves" in said(
        rebalance(fleet, check=False, drover_plan_file=str(file), drover_plan_only=False)
    )
    assert fleet.settled() == where
    file.write_text(json.dumps(text))
    done = rebalance(fleet, drover_plan_file=str(file), drover_plan_only=False)
    after = fleet.settled()
    assert {name: host for name, (host, dummy) in after.items()} == {
        **{name: host for name, (host, dummy) in where.items()},
        **{move["name"]: move["host"] for move in moves},
    }
    assert {name: state for name, (dummy, state) in after.items()} == {
        name: state for name, (dummy, state) in where.items()
    }
    assert float(re.search(r"the score is ([\d.]+), was", said(done))[1]) < start

    # No further move follows, also without a cooldown; and none of the moved instances, for any
    # score.
    done = rebalance(fleet, drover_plan_only=False, drover_rebalance_cooldown=0)
    assert "There is nothing to move" in said(done) or "Moved 0 of 0" in said(done)
    assert fleet.settled() == after
    done = rebalance(fleet, drover_rebalance_threshold=0, drover_rebalance_margin=0)
    assert "Moved too recently: " + ", ".join(sorted(move["name"] for move in moves)) in said(done)

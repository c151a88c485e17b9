# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No task that reads the fleet waits for a host without a time limit."""

from __future__ import annotations

import pathlib

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("playbook", ["discover.yml", "evacuate.yml"])
def test_safety_09_reading_the_fleet_ends(playbook):
    plays = yaml.safe_load((ROOT / "playbooks" / playbook).read_text(encoding="utf-8"))
    reading = [
        task
        for play in plays
        for task in play.get("tasks") or []
        if "drover.compute.compute_node" in task
    ]
    assert reading and all(task.get("timeout") for task in reading)

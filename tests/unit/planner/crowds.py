# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Crowded little fleets for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from ansible_collections.drover.compute.tests.unit.planner.guests import guest
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host

GROUPS = {"apart": ("anti-affinity", 1), "pairs": ("anti-affinity", 2)}


@st.composite
def crowds(draw, most_hosts=5, most_guests=16):
    """Return (columns, instances, host to drain): hosts are nearly full, and no rule is broken."""
    names = [f"kvm{number}" for number in range(draw(st.integers(2, most_hosts)))]
    free = {name: [12, 16, 40] for name in names}
    counts, guests = {}, []
    for number in range(draw(st.integers(1, most_guests))):
        name = names[draw(st.integers(0, len(names) - 1))]
        size = [
            draw(st.integers(1, 3)),
            draw(st.sampled_from([1, 2, 2, 4, 8])),
            draw(st.integers(0, 4)),
        ]
        if any(free[name][i] < size[i] for i in range(3)):
            continue
        free[name] = [free[name][i] - size[i] for i in range(3)]
        group = draw(st.sampled_from([None, None, None, *GROUPS]))
        if group and counts.get((group, name), 0) >= GROUPS[group][1]:
            group = None
        counts[group, name] = counts.get((group, name), 0) + 1
        guests.append(
            guest(
                f"vm{number:02d}",
                host=name,
                vcpus=size[0],
                memory_mb=size[1],
                disk_gb=size[2],
                group=group,
                move_policy=draw(
                    st.sampled_from([None] * 8 + ["never", "cold", "live", "shutdown"])
                ),
                priority=draw(st.integers(0, 2)),
            )
        )
    columns = fleet(*(host(name, 12, 16, 40) for name in names), instances=guests, groups=GROUPS)
    columns["server_groups"]["apart"]["max_moving"] = 1
    return columns, guests, draw(st.sampled_from(names))

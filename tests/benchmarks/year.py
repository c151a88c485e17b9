# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A year of a fleet, week by week, with the shipped planners and scheduler: growth, failures,
maintenance, purchases, rebalancing.

    python tests/benchmarks/year.py --hosts 10000 [--weeks 52] [--seed 1] [--plot docs/year.svg]

The fleet comes from scale.py, filled to 70 % of its memory, in a separate store; its copy in memory
is used. In each week:

- 2 % of the instances end, and new ones (3 % of the number) come, of five flavors;
- hosts die, each with a chance of 5 % a year; their instances start on other hosts, and a week
  later a new host comes;
- a 52nd of the hosts gets its maintenance, at most 48 at once: it is emptied, then brought back;
- above 85 % of memory, 3 % more hosts of the same kinds are bought;
- a rebalance makes up to --moves moves.

The program prints JSON: a row for each week and the CPU seconds of each kind of step. --plot draws
fill, moves and refusals as SVG.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import random
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
importlib.import_module("conftest")

import scale  # noqa: E402

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    host_state,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import (
    RebalanceQuestion,  # noqa: E402
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import (  # noqa: E402
    host_copies,
    relocation,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import (
    Policy,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._simulation import (
    changes,
    simulate,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._simulation.fleet import (
    SimulatedFleet,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances.instances_for_plans import (
    read_amounts,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import (
    totals,
)  # noqa: E402

FULL, BUY_FROM, BOUGHT = 0.70, 0.85, 0.03
LEAVE, COME, DIE, AT_ONCE = 0.02, 0.03, 0.05, 48


class Year:
    """A fleet during its weeks; seconds: the CPU time of each kind of step."""

    def __init__(self, connection, now, seed, moves):
        self.fleet = SimulatedFleet(connection, Policy.from_mapping(), now)
        self.connection, self.draw, self.moves = connection, random.Random(seed), moves
        self.seconds, self.number, self.dead, self.cared = {}, 0, [], 0

    def step(self, kind, work, *given):
        began = time.process_time()
        found = work(*given)
        self.seconds[kind] = self.seconds.get(kind, 0.0) + time.process_time() - began
        return found

    def change(self, key, value):
        self.number += 1
        (read,) = changes.read([{key: value}])
        return self.step(key, self.fleet.make, read._replace(number=self.number))

    def week(self, number):
        row = {"week": number, "refused": 0, "moved": 0, "not_restarted": 0, "stuck": 0}
        for name in self.dead:
            self.change("add_hosts", {"like": self.draw.choice(self.fleet.names()), "name": name})
        uuids = sorted(each["uuid"] for each in read_amounts(self.connection))
        self.step(
            "end",
            host_copies.drop,
            self.connection,
            self.draw.sample(uuids, int(len(uuids) * LEAVE)),
            self.fleet.now,
        )
        flavors = self.draw.choices(
            list(scale.FLAVORS),
            [each[3] for each in scale.FLAVORS.values()],
            k=int(len(uuids) * COME),
        )
        requests = [
            {"flavor": name, "name": f"{name}{number}", "count": flavors.count(name)}
            for name in scale.FLAVORS
            if name in flavors
        ]
        row["refused"] = sum(
            each["count"] for each in self.change("add_instances", requests)["left_out"]
        )
        names = self.fleet.names()
        self.dead = [name for name in names if self.draw.random() < DIE / 52]
        if self.dead:
            made = self.change("lose_hosts", self.dead)
            row.update(moved=row["moved"] + made["moved"], not_restarted=len(made["left_out"]))
        self.care(row, [name for name in names if name not in self.dead])
        row["memory"], row["vcpu"] = self.fill()
        if row["memory"] > BUY_FROM:
            count = max(1, int(len(names) * BOUGHT))
            self.change(
                "add_hosts",
                {
                    "like": self.draw.choice(self.fleet.names()),
                    "count": count,
                    "name": f"bought{number}",
                },
            )
        row["rebalanced"], row["score"] = self.step("rebalance", self.rebalance)
        row.update(hosts=len(self.fleet.names()), instances=len(read_amounts(self.connection)))
        return row

    def care(self, row, names):
        """Carry out the maintenance of a 52nd of the hosts."""
        count = max(1, len(names) // 52)
        mine = [names[(self.cared + place) % len(names)] for place in range(count)]
        self.cared += count
        for first in range(0, count, AT_ONCE):
            some = mine[first : first + AT_ONCE]
            made = self.change("maintenance", some)
            row["moved"] += made["moved"]
            row["stuck"] += len(made["left_out"])
            for name in some:
                host_state.change(self.connection, name, "enabled")

    def rebalance(self):
        question = RebalanceQuestion(self.fleet.policy, max_moves=self.moves, cooldown=0)
        plan = question.plan(self.connection)
        relocation.relocate(self.connection, plan["moves"], {}, self.fleet.now)
        return len(plan["moves"]), round(plan["score_after"], 4)

    def fill(self):
        rows = totals.read(self.connection, ())
        sums = {
            name: [
                sum(getattr(each, key) for each in rows if each.resource_class == name)
                for key in ("used", "capacity")
            ]
            for name in ("MEMORY_MB", "VCPU")
        }
        return [round(used / capacity, 4) for used, capacity in sums.values()]


WIDTH, HEIGHT, LEFT, TOP = 640, 130, 60, 24
CURVES = (
    ("Allocated, %", (("memory", "memory", 100), ("vcpu", "vCPU", 100))),
    (
        "Moves and restarts",
        (("moved", "maintenance and failures", 1), ("rebalanced", "rebalancing", 1)),
    ),
    (
        "Refused or not restarted",
        (("refused", "new instances refused", 1), ("not_restarted", "not restarted", 1)),
    ),
)
LICENCE = """<?xml version="1.0" encoding="UTF-8"?>
<!--
Copyright (c) 2026, The drover.compute authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->"""
COLOURS = ("#0050a0", "#b85c00")


def plot(rows, title):
    """Return three curves under each other, as SVG."""
    parts, top = [], TOP + 10
    for heading, lines in CURVES:
        most = max([max(row[key] * factor for row in rows) for key, _label, factor in lines] + [1])
        parts.append(f'<text x="{LEFT}" y="{top - 6}" font-weight="bold">{heading}</text>')
        parts.append(
            f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none"'
            ' stroke="#888"/>'
        )
        for share in (0, 0.5, 1):
            y = top + HEIGHT * (1 - share)
            parts.append(
                f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{most * share:,.0f}</text>'
            )
        for place, (key, label, factor) in enumerate(lines):
            points = " ".join(
                f"{LEFT + WIDTH * number / max(len(rows) - 1, 1):.1f},{top + HEIGHT * (1 - row[key] * factor / most):.1f}"
                for number, row in enumerate(rows)
            )
            dashes = ("none", "6 3")[place]
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{COLOURS[place]}"'
                f' stroke-width="2" stroke-dasharray="{dashes}"/>'
            )
            parts.append(
                f'<text x="{LEFT + WIDTH + 8}" y="{top + 14 + 18 * place}"'
                f' fill="{COLOURS[place]}">{label}</text>'
            )
        top += HEIGHT + 44
    parts.append(
        f'<text x="{LEFT}" y="{top - 22}">week 1</text><text x="{LEFT + WIDTH}" y="{top - 22}"'
        f' text-anchor="end">week {len(rows)}</text>'
    )
    size = f'viewBox="0 0 {LEFT + WIDTH + 190} {top - 10}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13"'
        f' role="img"><title>{title}</title>'
    )
    return "\n".join(
        [LICENCE, head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", ""]
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--moves", type=int, default=50)
    parser.add_argument("--plot")
    options = parser.parse_args()
    scale.FULL, scale.MOST = FULL, FULL + 0.03
    with tempfile.TemporaryDirectory() as folder:
        scale.fill(scale.url_in(folder), options.hosts, 0)
        with simulate.copied(Store.open(scale.url_in(folder))) as (connection, now):
            year = Year(connection, now, options.seed, options.moves)
            rows = []
            for number in range(1, options.weeks + 1):
                rows.append(year.week(number))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    memory = next(
        line.split()[1]
        for line in pathlib.Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    cpu = {
        kind: round(seconds, 1)
        for kind, seconds in sorted(year.seconds.items(), key=lambda each: -each[1])
    }
    print(
        json.dumps(
            {
                "hosts": options.hosts,
                "weeks": rows,
                "cpu_seconds": cpu,
                "mb": round(int(memory) / 1024),
            },
            indent=2,
        )
    )
    if options.plot:
        pathlib.Path(options.plot).write_text(
            plot(rows, f"A simulated year of {options.hosts:,} hosts")
        )


if __name__ == "__main__":
    main()

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeded families of drain problems through drain.py and the verifier; JSON on standard output.

    drain_families.py [--families churn,full] [--uses 0.97] [--hosts 20,200] [--seeds 3]
    [--solver-seconds 60]

Separate processes generate, plan and judge each fleet, two fleets at a time; each process has a
time limit, so the whole run has one. A fleet that the generator does not make in its time counts
under "not_made": most fleets of family full below 95 % do not exist. With --solver-seconds a fleet
that was not drained without the solver is planned again with it.

The exit status is 1 if a limit is missed, and "missed" names it.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE.parent / "peers"
FAMILIES = ("planted", "churn", "spread", "full")
#: {family: {use: least share drained without a solver}}; "full" is never drained.
LEAST = {
    "planted": {},
    "churn": {0.97: 0.79},
    "spread": {0.97: 0.56},
}
#: The greatest number of CPU seconds for one plan: it uses one core without waits, and wall time
#: depends on the machine.
SECONDS = {"planted": 1.0, "churn": 5.0, "spread": 5.0, "full": 5.0, "large": 1.0}
#: The greatest number of CPU seconds for the generator of one fleet; the largest take 4, and more
#: on a busy machine.
MAKING = 30
#: The greatest time of a plan besides the solver's time, far above every limit.
PLANNING = 60


def run(command, seconds, source=None, busy=None):
    """Return (standard output or None, standard error) of a command; ``busy``: greatest number of
    CPU seconds."""

    def limit():
        if busy:
            resource.setrlimit(resource.RLIMIT_CPU, (busy, busy))

    try:
        with open(source or os.devnull, encoding="utf-8") as stream:
            done = subprocess.run(
                command,
                stdin=stream,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
                preexec_fn=limit,
            )
    except subprocess.TimeoutExpired:
        return None, f"not done in {seconds} s"
    # A program that was killed at its limit may have written a part of its output.
    if done.returncode < 0 or (done.returncode and not done.stdout):
        return None, done.stderr
    return done.stdout, done.stderr


def one(case, options):
    """Return {verdict, status, ...} of one fleet: generated, planned, judged."""
    with tempfile.TemporaryDirectory() as folder:
        fleet, answer = pathlib.Path(folder, "fleet.json"), pathlib.Path(folder, "plan.json")
        command = [sys.executable, str(PEERS / "fleetgen.py")]
        for key, value in case.items():
            command += [f"--{key}", str(value)]
        text, _error = run(command, 60 * MAKING, busy=MAKING)
        if not text:
            return {"verdict": "not made"}
        fleet.write_text(text, encoding="utf-8")
        outcome = planned(fleet, answer, options, 0)
        if options.solver_seconds and outcome["verdict"] == "partial":
            outcome = {
                **planned(fleet, answer, options, options.solver_seconds),
                "without": outcome,
            }
        return outcome


def planned(fleet, answer, options, solver):
    command = [sys.executable, str(HERE / "drain.py"), "--extra-moves", str(options.extra_moves)]
    began = time.monotonic()
    text, error = run([*command, "--solver-seconds", str(solver)], PLANNING + 3 * solver, fleet)
    if text is None:
        return {
            "verdict": "no plan",
            "error": error[-300:],
            "wall_s": time.monotonic() - began,
            "cpu_s": 0.0,
        }
    answer.write_text(text, encoding="utf-8")
    judged, error = run(
        [sys.executable, str(PEERS / "verify.py"), str(fleet), str(answer)], PLANNING
    )
    if judged is None:
        return {
            "verdict": "no verdict",
            "error": error[-300:],
            "wall_s": time.monotonic() - began,
            "cpu_s": 0.0,
        }
    plan = json.loads(text)
    moved = {move["vm"] for move in plan["moves"]}
    explained = {each["vm"] for each in plan["blocked"] if each["why"]}
    data = json.loads(fleet.read_text(encoding="utf-8"))
    left = {vm["name"] for vm in data["vms"] if vm["host"] in data["drain"]} - moved
    more = {"cpu_s": plan["cpu_s"], "method": plan["method"], "proven": bool(plan["proof"])}
    return {**json.loads(judged), **more, "unexplained": len(left - explained)}


def summary(key, found):
    """Return one row: a family, use and size (one case with all its seeds and mixes)."""
    family, use, hosts = key
    made = [each for each in found if each["verdict"] != "not made"]
    row = {
        "family": family,
        "use": use,
        "hosts": hosts,
        "fleets": len(made),
        "not_made": len(found) - len(made),
    }
    if not made:
        return row
    first = [each.get("without", each) for each in made]
    done = [each for each in first if each["verdict"] == "drained"]
    extra = sorted(each["extra_moves"] for each in done)
    row |= {
        "drained_percent": round(100 * len(done) / len(made), 1),
        "invalid": sum(each["verdict"] == "invalid" for each in made + first),
        "wrong_infeasible": sum(each["verdict"] == "wrong-infeasible" for each in made + first),
        "no_plan": sum(each["verdict"].startswith("no ") for each in made + first),
        "proven_infeasible": sum(each["verdict"] == "infeasible" for each in first),
        "unexplained": sum(each.get("unexplained", 0) for each in first),
    }
    for name in ("wall_s", "cpu_s"):
        row[name] = {
            "median": round(statistics.median(each[name] for each in first), 3),
            "max": round(max(each[name] for each in first), 3),
        }
    if done:
        row["extra_moves"] = {
            "mean": round(statistics.mean(extra), 1),
            "max": extra[-1],
            "plans_with_any": sum(count > 0 for count in extra),
        }
    again = [each for each in made if "without" in each]
    if again:
        row["with_solver"] = {
            "fleets": len(again),
            "drained": sum(each["verdict"] == "drained" for each in again),
            "proven_infeasible": sum(each["verdict"] == "infeasible" for each in again),
            "wall_s": [round(each["wall_s"], 1) for each in again],
        }
    return row


def missed(rows):
    """Return sentences about the missed limits, over all sizes of a family and use."""
    sentences = []
    cells = collections.defaultdict(list)
    for row in rows:
        if row["fleets"]:
            cells[row["family"], row["use"]].append(row)
    for (family, use), group_rows in cells.items():
        where = f"{family} {use}"
        for key in ("invalid", "wrong_infeasible", "no_plan", "unexplained"):
            if any(row[key] for row in group_rows):
                sentences.append(f"{where}: {key} {sum(row[key] for row in group_rows)}")
        slowest = max(row["cpu_s"]["max"] for row in group_rows)
        if slowest > SECONDS[family]:
            sentences.append(f"{where}: {slowest} s of CPU, more than {SECONDS[family]}")
        fleets = sum(row["fleets"] for row in group_rows)
        drained = sum(row["drained_percent"] * row["fleets"] / 100 for row in group_rows) / fleets
        if family == "full" and drained:
            sentences.append(f"{where}: {drained:.0%} drained, which cannot be")
        least = LEAST.get(family, {}).get(use, 1.0)
        if family != "full" and drained < least - 1e-3:
            sentences.append(f"{where}: {drained:.0%} drained, less than {least:.0%}")
        for row in group_rows:
            solver = row.get("with_solver")
            if solver and family in ("churn", "spread") and solver["drained"] < solver["fleets"]:
                sentences.append(f"{where}, {row['hosts']} hosts: {solver} with the solver")
    return sentences


def cases_of(options):
    """Return [(key of the row, arguments of the generator)]."""
    cases = []
    for family in options.families:
        for use in options.uses:
            for hosts in options.hosts:
                for mix in ("flavors", "odd"):
                    for seed in range(options.first, options.first + options.seeds):
                        parameters = {
                            "family": family,
                            "hosts": hosts,
                            "post-util": use,
                            "mix": mix,
                            "seed": seed,
                        }
                        cases.append(((family, use, hosts), parameters))
    if options.large:
        # A hundred instances leave one of a thousand hosts with ordinary load.
        parameters = {
            "family": "planted",
            "hosts": 1000,
            "post-util": 0.6,
            "mix": "odd",
            "shape": "large",
        }
        parameters |= {"cpu-ratio": 8, "min-vms": 98, "max-vms": 110}
        cases += [
            (("large", 0.6, 1000), {**parameters, "seed": seed})
            for seed in range(1, options.large + 1)
        ]
    return cases


def main():
    def numbers(kind):
        return lambda text: [kind(each) for each in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", type=numbers(str), default=list(FAMILIES), help="[all four]")
    parser.add_argument(
        "--uses", type=numbers(float), default=[0.9, 0.93, 0.95, 0.97], help="memory in use after"
    )
    parser.add_argument("--hosts", type=numbers(int), default=[20, 60, 200], help="[20,60,200]")
    parser.add_argument(
        "--seeds", type=int, default=3, help="fleets of each family, use, size and mix [3]"
    )
    parser.add_argument("--first", type=int, default=1, help="the first seed [1]")
    parser.add_argument(
        "--large", type=int, default=2, help="drains of 100 instances out of 1,000 hosts [2]"
    )
    parser.add_argument(
        "--extra-moves", type=int, default=64, help="most moves of instances of other hosts [64]"
    )
    parser.add_argument(
        "--solver-seconds",
        type=float,
        default=0,
        help="plan what is left with the solver, 0: do not",
    )
    parser.add_argument("--jobs", type=int, default=2, help="fleets at a time [2]")
    options = parser.parse_args()
    # One core each: the benchmark measures the planner, not the threads of NumPy.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    cases, by_case = cases_of(options), collections.defaultdict(list)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for number, ((key, case), outcome) in enumerate(
            zip(cases, pool.map(lambda c: one(c[1], options), cases)), 1
        ):
            by_case[key].append(outcome)
            if outcome["verdict"] not in ("not made", "drained"):
                words = {
                    name: outcome.get(name)
                    for name in ("verdict", "left", "wall_s", "errors", "error", "method")
                }
                print(f"{' '.join(map(str, case.values()))}: {words}", file=sys.stderr, flush=True)
            if number % 24 == 0:
                print(
                    f"{number} of {len(cases)}, {time.monotonic() - began:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
    rows = [summary(key, each) for key, each in by_case.items()]
    wrong = missed(rows)
    print(_text(rows, wrong, began))
    return 1 if wrong else 0


def _text(rows, wrong, began):
    """Return JSON with one line for each row."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return (
        f'{{"rows": [\n{lines}\n],\n"missed": {json.dumps(wrong)},\n"seconds":'
        f" {time.monotonic() - began:.0f}}}"
    )


if __name__ == "__main__":
    sys.exit(main())

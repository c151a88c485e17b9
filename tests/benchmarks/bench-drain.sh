#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Seeded fleets through the planner of drains and the verifier; a table per family and use of memory.
#
# DRAIN   the folder with fleetgen.py and verify.py              [../shared/drain]
# HOSTS   how many hosts the fleets have, spaced                 [20 60 200]
# SEEDS   fleets for each family, use, size and mix of instances [3]
# FIRST   the first seed                                         [1]
# EXTRA   most moves of instances of other hosts                 [64]
# SOLVER  seconds for the exact model, 0 does without it         [0]
set -eu
cd "$(dirname "$0")/../.."
DRAIN=$(cd "${DRAIN:-../shared/drain}" && pwd)
PYTHON=${PYTHON:-.venv/bin/python}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
# One core: what is measured is the planner, not how many threads NumPy may have.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
for family in planted churn spread full; do
    for use in 0.9 0.93 0.95 0.97; do
        for hosts in ${HOSTS:-20 60 200}; do
            for mix in flavors odd; do
                seed=${FIRST:-1}
                while [ "$seed" -lt $((${FIRST:-1} + ${SEEDS:-3})) ]; do
                    if "$PYTHON" "$DRAIN/fleetgen.py" --family "$family" --hosts "$hosts" --post-util "$use" --mix "$mix" \
                        --seed "$seed" > "$WORK/fleet.json" 2> "$WORK/none"; then
                        "$PYTHON" tests/benchmarks/drain.py --extra-moves "${EXTRA:-64}" --solver-seconds "${SOLVER:-0}" \
                            < "$WORK/fleet.json" > "$WORK/plan.json"
                        "$PYTHON" "$DRAIN/verify.py" "$WORK/fleet.json" "$WORK/plan.json" > "$WORK/one" || true
                        sed "s/^/$family $use /" "$WORK/one" >> "$WORK/all"
                    fi
                    seed=$((seed + 1))
                done
            done
        done
    done
done
"$PYTHON" - "$WORK/all" <<'PYTHON'
import json, statistics, sys
rows = {}
for line in open(sys.argv[1]):
    family, use, rest = line.split(" ", 2)
    rows.setdefault((family, use), []).append(json.loads(rest))
print(f"{'family':8} {'memory':>6} {'fleets':>6} {'drained':>8} {'median s':>9} {'max s':>7} {'extra moves: mean':>18} {'max':>4}"
      f" {'invalid':>8} {'wrong infeasible':>17}")
bad = 0
for (family, use), found in rows.items():
    done = [each for each in found if each["verdict"] == "drained"]
    extra = [each["extra_moves"] for each in done if each["extra_moves"]] or [0]
    times = [each["wall_s"] for each in found]
    invalid = sum(each["verdict"] == "invalid" for each in found)
    wrong = sum(each["verdict"] == "wrong-infeasible" for each in found)
    bar = {"planted": 1.0, "full": 0.0, "churn": 0.79 if use == "0.97" else 1.0, "spread": 0.56 if use == "0.97" else 1.0}
    bad += invalid + wrong + (len(done) < bar[family] * len(found)) + (family == "full" and bool(done))
    print(f"{family:8} {use:>6} {len(found):6} {100 * len(done) / len(found):7.0f}% {statistics.median(times):9.3f} {max(times):7.3f}"
          f" {statistics.mean(extra):18.1f} {max(extra):4} {invalid:8} {wrong:17}")
sys.exit(bool(bad))
PYTHON

#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Compare our allocation candidates with Placement's own: answers over random topologies, and times, in one
# run; then the claims, by bench-claims.sh.
#
# PLACEMENT  the environment Placement is installed into, or is in already            [.venv-placement]
# SEEDS      how many random topologies of each kind: flat, nested, sharing, mixed    [125]
# FIRST      the first seed                                                          [1]
# QUERIES    how many queries for each                                               [5]
# TIMES      0 leaves the times out                                                   [1]
# CLAIMS     0 leaves the claims out                                                  [1]
set -eu
cd "$(dirname "$0")/../.."
PLACEMENT=${PLACEMENT:-.venv-placement}
PYTHON=${PYTHON:-.venv/bin/python}
PEERS=$(pwd)/tests/peers
[ -x "$PLACEMENT/bin/placement-manage" ] || {
    python3 -m venv "$PLACEMENT"
    "$PLACEMENT/bin/pip" install -q openstack-placement psycopg2-binary
}
PLACEMENT=$(cd "$PLACEMENT" && pwd)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
wrong=0

for kind in flat nested sharing mixed; do
    "$PLACEMENT/bin/python" tests/benchmarks/placement_answers.py --peers "$PEERS" --kind "$kind" \
        --first "${FIRST:-1}" --count "${SEEDS:-125}" --queries "${QUERIES:-5}" -o "$WORK/$kind.jsonl"
done
"$PYTHON" tests/benchmarks/compare_candidates.py "$WORK"/*.jsonl || wrong=1

if [ "${TIMES:-1}" != 0 ]; then
    gen() { (cd "$PEERS" && "$PLACEMENT/bin/python" gen_fleet.py "$@"); }
    gen topology --kind perfload --roots 1000 -o "$WORK/perfload-1000.json"
    gen topology --kind perfload --roots 10000 -o "$WORK/perfload-10000.json"
    gen topology --kind perfload-nested --roots 1000 -o "$WORK/nested-1000.json"
    gen topology --kind sharing --roots 1000 --seed 1 -o "$WORK/sharing-1000.json"
    (cd "$PEERS" && "$PLACEMENT/bin/python" -c '
import gen_fleet, json, sys
queries = {
    "perfload-1000": gen_fleet.PERFLOAD_QUERY,
    "perfload-10000": gen_fleet.PERFLOAD_QUERY,
    "nested-1000": gen_fleet.PERFLOAD_NESTED_QUERY,
    "sharing-1000": "resources=VCPU:1,MEMORY_MB:256,DISK_GB:10",
}
for name, query in queries.items():
    json.dump([query], open(f"{sys.argv[1]}/{name}.queries.json", "w"))
' "$WORK")
    set --
    for case in perfload-1000 perfload-10000 nested-1000 sharing-1000; do
        # To standard output: with -o the end of its file may be lost when Python ends.
        (cd "$PEERS" && "$PLACEMENT/bin/python" placement_peer.py run --db "sqlite:///$WORK/$case.db" --reset --bulk \
            --topology "$WORK/$case.json" --queries "$WORK/$case.queries.json" --repeat 5) > "$WORK/$case.theirs.json"
        "$PYTHON" tests/benchmarks/candidates.py --topology "$WORK/$case.json" --queries "$WORK/$case.queries.json" \
            --repeat 15 --json "$WORK/$case.ours.json"
        set -- "$@" "$case"
    done
    "$PYTHON" tests/benchmarks/compare_times.py "$WORK" "$@" || wrong=1
fi
if [ "${CLAIMS:-1}" != 0 ] && [ -x tests/benchmarks/bench-claims.sh ]; then
    PLACEMENT="$PLACEMENT" PYTHON="$PYTHON" tests/benchmarks/bench-claims.sh || wrong=1
fi
exit "$wrong"

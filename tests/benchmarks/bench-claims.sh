#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Compare claims with Placement's own, by eight processes on one PostgreSQL, in one run: spread over 200
# providers, and on ten of them. Then half of ours are killed in the middle.
#
# PLACEMENT  the environment Placement is installed into, or is in already    [.venv-nova]
# CLAIMS     how many of ours in all                                          [4000]
# PEER       how many of Placement's for each process                         [60]
# OURS_URL, PEER_URL  two databases of one server that may be EMPTIED; without them the tests' private one runs
set -eu
cd "$(dirname "$0")/../.."
PLACEMENT=${PLACEMENT:-.venv-nova}
PYTHON=${PYTHON:-.venv/bin/python}
CLAIMS=${CLAIMS:-4000}
PEER=${PEER:-60}
if [ -z "${OURS_URL:-}" ]; then
    # PostgreSQL ends with this process, however that ends.
    exec "$PYTHON" - "$0" <<'PYTHON'
import importlib, os, subprocess, sys
sys.path.insert(0, os.getcwd())
importlib.import_module("conftest")
from ansible_collections.drover.compute.tests.unit import postgres
cluster = postgres.Cluster()
try:
    with cluster.database() as ours, cluster.database() as peer:
        peer = peer.replace("+psycopg:", "+psycopg2:")
        code = subprocess.call(["sh", "tests/benchmarks/bench-claims.sh"], env={**os.environ, "OURS_URL": ours, "PEER_URL": peer})
finally:
    cluster.stop()
sys.exit(code)
PYTHON
fi
PEERS=$(pwd)/tests/peers
[ -x "$PLACEMENT/bin/placement-manage" ] || {
    python3 -m venv "$PLACEMENT" && "$PLACEMENT/bin/pip" install -q openstack-placement psycopg2-binary
}
PLACEMENT=$(cd "$PLACEMENT" && pwd)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
(cd "$PEERS" && "$PLACEMENT/bin/python" gen_fleet.py topology --kind flat --roots 200 --seed 3 -o "$WORK/flat.json")
wrong=0
for case in spread hot; do
    hot=0
    [ "$case" = spread ] || hot=10
    # Inventories large enough that all claims fit, as ours are.
    "$PYTHON" - "$WORK/flat.json" <<'PYTHON'
import json, sys
topology = json.load(open(sys.argv[1]))
for provider in topology["providers"]:
    provider["inventories"] = {name: {"total": amount} for name, amount in
                               (("VCPU", 1000), ("MEMORY_MB", 256000), ("DISK_GB", 10000))}
json.dump(topology, open(sys.argv[1], "w"))
PYTHON
    (cd "$PEERS" && "$PLACEMENT/bin/python" placement_peer.py bench-claims --db "$PEER_URL" --reset --bulk --procs 8 \
        --topology "$WORK/flat.json" --claims "$PEER" --hot "$hot" -o "$WORK/peer.json")
    "$PYTHON" tests/benchmarks/claims.py --store-url "$OURS_URL" --workers 8 --claims "$CLAIMS" --hot "$hot" > "$WORK/ours.json" \
        || wrong=1
    "$PYTHON" - "$WORK/peer.json" "$WORK/ours.json" "$case" <<'PYTHON' || wrong=1
import json, sys
peer, ours = (json.load(open(name)) for name in sys.argv[1:3])
ratio = ours["claims_per_s"] / peer["claims_per_s"]
print(f"{sys.argv[3]}: Placement {peer['claims_per_s']} claims a second ({peer['statuses']}), ours {ours['claims_per_s']} "
      f"({ours['successes']} of {ours['claims']}, conflicts {ours['conflicts']}), {ratio:.1f} times (bar 10); "
      f"over capacity {ours['over_capacity']}, sums {'right' if ours['ok'] else 'WRONG'}")
sys.exit(ratio < 10)
PYTHON
done
"$PYTHON" tests/benchmarks/claims.py --store-url "$OURS_URL" --workers 8 --claims "$CLAIMS" --hot 10 --kill > "$WORK/killed.json" || wrong=1
"$PYTHON" - "$WORK/killed.json" <<'PYTHON'
import json, sys
ours = json.load(open(sys.argv[1]))
print(f"kill -9 of {ours['killed']} of {ours['workers']}: {ours['successes']} successes counted, {ours['consumers']} in the store, "
      f"over capacity {ours['over_capacity']}, sums {'right' if ours['ok'] else 'WRONG'}")
PYTHON
exit "$wrong"

#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Compare our scheduler with Nova's own: decisions over random fleets, and times, in one run.
#
# NOVA    the environment Nova is installed into, or is in already          [.venv-nova]
# SEEDS   how many random fleets, each with 100 requests, fresh and carried [10]
# FIRST   the first seed                                                   [1]
# TIMES   0 leaves the times out                                            [1]
set -eu
cd "$(dirname "$0")/../.."
NOVA=${NOVA:-.venv-nova}
SEEDS=${SEEDS:-10}
PYTHON=${PYTHON:-.venv/bin/python}
PEERS=$(pwd)/tests/peers
[ -x "$NOVA/bin/nova-scheduler" ] || { python3 -m venv "$NOVA" && "$NOVA/bin/pip" install -q nova; }
NOVA=$(cd "$NOVA" && pwd)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
FILTERS=AllHostsFilter,ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter
FILTERS=$FILTERS,ServerGroupAffinityFilter,AggregateInstanceExtraSpecsFilter,AggregateImagePropertiesIsolation
FILTERS=$FILTERS,AggregateMultiTenancyIsolation,AggregateTypeAffinityFilter,AggregateNumInstancesFilter,NumInstancesFilter
FILTERS=$FILTERS,AggregateIoOpsFilter,IoOpsFilter,DifferentHostFilter,SameHostFilter,SimpleCIDRAffinityFilter
FILTERS=$FILTERS,IsolatedHostsFilter,JsonFilter,MetricsFilter
TIMED=ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
TIMED=$TIMED,AggregateInstanceExtraSpecsFilter,NumInstancesFilter,IoOpsFilter,DifferentHostFilter,SameHostFilter,JsonFilter

gen() { (cd "$PEERS" && "$NOVA/bin/python" gen_fleet.py "$@"); }
# To standard output: with -o the end of its file may be lost when Python ends.
nova() { PYTHONPATH=$PEERS "$NOVA/bin/python" tests/benchmarks/nova_more.py --mode capacity --set scheduler.max_placement_results=1000000 "$@"; }
wrong=0
seed=${FIRST:-1}
while [ "$seed" -le "$SEEDS" ]; do
    gen fleet --hosts $((60 + seed * 37 % 240)) --seed "$seed" -o "$WORK/fleet.json"
    gen requests --fleet "$WORK/fleet.json" --count 100 --seed "$seed" -o "$WORK/requests.json"
    "$PYTHON" tests/benchmarks/richer.py --seed "$seed" --fleet "$WORK/fleet.json" --requests "$WORK/requests.json" \
        --policy "$WORK/policy.yml" --set "$WORK/set"
    set --
    while read -r option; do set -- "$@" --set "$option"; done < "$WORK/set"
    for carry in "" --carry; do
        nova --fleet "$WORK/fleet.json" --requests "$WORK/requests.json" --filters "$FILTERS" --alternates $carry "$@" > "$WORK/nova.json"
        "$PYTHON" tests/benchmarks/schedule.py --fleet "$WORK/fleet.json" --requests "$WORK/requests.json" \
            --filters "$FILTERS" --policy "$WORK/policy.yml" --alternates $carry --json "$WORK/ours.json"
        printf 'seed %s %s: ' "$seed" "${carry:-fresh}"
        "$PYTHON" tests/benchmarks/compare.py "$WORK/nova.json" "$WORK/ours.json" || wrong=1
        [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP/$seed$carry" && cp "$WORK"/* "$KEEP/$seed$carry/"; }
    done
    seed=$((seed + 1))
done
[ "${TIMES:-1}" = 0 ] && exit "$wrong"

gen fleet --hosts 1000 --seed 5 -o "$WORK/1000.json"
gen fleet --hosts 10000 --seed 5 -o "$WORK/10000.json"
printf '%s' '[{"vcpus": 2, "memory_mb": 4096, "root_gb": 40, "num_instances": 1, "extra_specs": {}, "scheduler_hints": {},
 "group": null, "ignore_hosts": [], "force_hosts": [], "image": {}, "availability_zone": null, "project_id": "p0"}]' > "$WORK/one.json"
sed 's/"num_instances": 1,/"num_instances": 100,/' "$WORK/one.json" > "$WORK/hundred.json"
for case in one:10000 hundred:1000 hundred:10000; do
    requests=${case%:*} hosts=${case#*:}
    nova --fleet "$WORK/$hosts.json" --requests "$WORK/$requests.json" --filters "$TIMED" > "$WORK/nova.json"
    "$PYTHON" tests/benchmarks/schedule.py --fleet "$WORK/$hosts.json" --requests "$WORK/$requests.json" \
        --filters "$TIMED" --repeat 7 --json "$WORK/ours.json"
    "$PYTHON" - "$WORK/nova.json" "$WORK/ours.json" "$requests instance(s), $hosts hosts" <<'PYTHON' || wrong=1
import json, sys
nova, ours = (json.load(open(name)) for name in sys.argv[1:3])
theirs, mine = nova["results"][0]["cpu_ms"]["filter_weigh"], ours["results"][0]["cpu_ms"]
bar = 500 if sys.argv[3].startswith("one") else 1000
print(f"{sys.argv[3]}: Nova filter+weigh {theirs:.0f} ms, ours {mine['filter_weigh']:.2f} ms of CPU, "
      f"{theirs / mine['filter_weigh']:.0f} times (bar {bar}); store to answer {mine['total']:.0f} ms")
sys.exit(theirs / mine["filter_weigh"] < bar)
PYTHON
done
exit "$wrong"

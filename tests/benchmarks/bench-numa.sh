#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Compare our fit to NUMA cells and PCI devices with Nova's own: answers for random fleets, and times, in one run.
#
# NOVA    the environment Nova is installed into, or is in already          [.venv-nova]
# FIRST   the first seed                                                    [1]
# SEEDS   the last seed                                                     [300]
# TIMES   0 leaves the times out                                            [1]
set -eu
cd "$(dirname "$0")/../.."
NOVA=${NOVA:-.venv-nova}
PYTHON=${PYTHON:-.venv/bin/python}
PEERS=$(pwd)/tests/peers
[ -x "$NOVA/bin/nova-scheduler" ] || { python3 -m venv "$NOVA" && "$NOVA/bin/pip" install -q nova; }
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
seed=${FIRST:-1}
while [ "$seed" -le "${SEEDS:-300}" ]; do
    "$PYTHON" "$PEERS/gen_numa_fleet.py" "$seed" > "$WORK/$seed.json"
    "$NOVA/bin/python" "$PEERS/numa_peer.py" --fresh < "$WORK/$seed.json" > "$WORK/$seed.nova"
    "$PYTHON" tests/benchmarks/numa.py < "$WORK/$seed.json" > "$WORK/$seed.ours"
    set -- "$@" "$WORK/$seed.json" "$WORK/$seed.nova" "$WORK/$seed.ours"
    seed=$((seed + 1))
done
"$PYTHON" tests/benchmarks/compare_numa.py "$@"
[ "${TIMES:-1}" = 0 ] || "$PYTHON" tests/benchmarks/numa.py --time --nova "$NOVA/bin/python"

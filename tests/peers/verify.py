# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge one plan against one fleet. Standard library only; shares no code with any planner.

    verify.py fleet.json plan.json      -> one JSON line; exit 0 when the plan is valid, 1 when it
    is not

A plan is {"status": "ok" | "partial" | "infeasible" | "timeout", "moves": [{"vm", "from", "to",
"wave"?}, ...]}. Moves run in the order given. Moves that carry the same consecutive "wave" run at
the same time: every destination is reserved before any source is released. A move without "wave" is
a separate wave. Checked after each wave starts (not only at the end): CPU, memory and disk of every
destination, anti-affinity groups, traits, pinned VMs, no move onto a drained or non-up host, "from"
is where the VM is. "ok" is valid only when every drained host is empty; "partial" must be
executable; "infeasible" is judged against truth when the fleet still carries it.
"""

import json
import sys


def verify(fleet, plan):
    hosts = {h["name"]: h for h in fleet["hosts"]}
    ratio = fleet["limits"]["cpu_ratio"]
    drain = set(fleet["drain"])
    vms = {v["name"]: dict(v) for v in fleet["vms"]}
    cap = {
        n: (int(h["threads"] * ratio), h["mem_mb"] - h["mem_reserved_mb"], h["disk_gb"])
        for n, h in hosts.items()
    }
    used = {n: [0, 0, 0] for n in hosts}
    grp = {n: {} for n in hosts}

    def add(n, v, s):
        for k, q in enumerate((v["vcpus"], v["mem_mb"], v["disk_gb"])):
            used[n][k] += s * q
        for g in v["groups"]:
            grp[n][g] = grp[n].get(g, 0) + s

    for v in vms.values():
        add(v["host"], v, 1)
    errors, moved, extra, mem_moved, waves = [], 0, 0, 0, []
    for _i, m in enumerate(plan.get("moves", [])):
        w = m.get("wave")
        if waves and w is not None and waves[-1][0] == w:
            waves[-1][1].append(m)
        else:
            waves.append((w, [m]))
    seen = {}
    for w, ms in waves:
        for m in ms:
            v = vms.get(m.get("vm"))
            if v is None:
                errors.append(f"no such VM: {m.get('vm')}")
                continue
            if v["host"] != m.get("from"):
                errors.append(f"{m['vm']} is on {v['host']}, not on {m.get('from')}")
                continue
            t = m.get("to")
            if t not in hosts:
                errors.append(f"no such host: {t}")
                continue
            if t in drain or hosts[t]["status"] != "up":
                errors.append(f"{m['vm']} to {t}: host takes no VM")
            if v["pinned"]:
                errors.append(f"{m['vm']} is pinned")
            if not set(v["requires"]) <= set(hosts[t]["traits"]):
                errors.append(f"{m['vm']} to {t}: traits")
            if t == v["host"]:
                errors.append(f"{m['vm']} moves to where it is")
            add(t, v, 1)
            if v["host"] not in drain:
                extra += 1
            seen[m["vm"]] = seen.get(m["vm"], 0) + 1
            moved += 1
            mem_moved += v["mem_mb"]
        for t in {m.get("to") for m in ms if m.get("to") in hosts}:
            for k, what in enumerate(("vcpu", "mem", "disk")):
                if used[t][k] > cap[t][k]:
                    errors.append(f"wave {w}: {what} of {t}: {used[t][k]} > {cap[t][k]}")
            for g, c in grp[t].items():
                if c > 1:
                    errors.append(f"wave {w}: group {g} twice on {t}")
        for m in ms:
            v = vms.get(m.get("vm"))
            if v is not None and v["host"] == m.get("from") and m.get("to") in hosts:
                add(v["host"], v, -1)
                v["host"] = m["to"]
    remaining = sum(1 for v in vms.values() if v["host"] in drain)
    truth = fleet.get("truth", {})
    st = plan.get("status")
    verdict = None
    if errors:
        verdict = "invalid"
    elif st == "ok":
        verdict = "drained" if remaining == 0 else "invalid"
        if remaining:
            errors.append(f"{remaining} VMs left on the drained hosts")
    elif st == "infeasible":
        known = truth.get("reorder")
        verdict = "wrong-infeasible" if known else "infeasible"
    else:
        verdict = "partial"
    stay = [n for n in hosts if n not in drain]
    mu = [used[n][1] / cap[n][1] for n in stay]
    avg = sum(mu) / len(mu)
    return {
        "name": fleet["name"],
        "verdict": verdict,
        "status": st,
        "left": remaining,
        "moved": moved,
        "extra_moves": extra,
        "hops": sum(1 for c in seen.values() if c > 1),
        "mem_moved_mb": mem_moved,
        "waves": len(waves),
        "max_mem": round(max(mu), 4),
        "sd_mem": round((sum((x - avg) ** 2 for x in mu) / len(mu)) ** 0.5, 4),
        "errors": errors[:5],
        "wall_s": plan.get("wall_s"),
    }


if __name__ == "__main__":
    with open(sys.argv[1]) as f, open(sys.argv[2]) as p:
        r = verify(json.load(f), json.load(p))
    print(json.dumps(r))
    sys.exit(0 if r["verdict"] in ("drained", "infeasible", "partial") else 1)

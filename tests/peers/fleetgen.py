# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeded generator of host-drain problems (pure standard library).

    fleetgen.py --family planted --hosts 40 --post-util 0.95 --seed 7 > fleet.json

Every fleet is one JSON object:

  format   "drainbench/1"
  drain    names of the hosts that must become empty
  limits   cpu_ratio (vCPU per thread), parallel_total, parallel_per_host
  hosts    [{name, threads, mem_mb, mem_reserved_mb, disk_gb, status, traits, zone}]
  vms      [{name, vcpus, mem_mb, disk_gb, host, groups, requires, pinned, dirty_mb_s}]
           groups   = hard anti-affinity groups: two VMs that share one never share a host,
                      not even for a moment
           requires = traits that the host must have
           pinned   = must not be moved (never set on a VM of a drained host)
  truth    what the generator knows (removed before a planner sees the fleet):
           family, direct  (true/false/null: can every VM go straight to its new host?)
                   reorder (true/false/null: can it be done when other VMs may move too?)
           why     the certificate

Families:
  planted   a full assignment without the drained host is drawn first, then some VMs are put
            on the drained host: a direct drain exists (truth.direct = true).
  spread    as planted, then free memory is spread over the fleet by feasible single moves
            (what a spreading scheduler does) and the drained host holds one VM larger than
            every free slot: no direct drain exists, but the walk read backwards is a drain
            with make-room moves (direct = false, reorder = true).
  churn     no planting: VMs come and go under a spreading scheduler until the asked
            utilisation is reached; nothing is promised (both null).
  full      as churn, but the drained host is one of at most 12 hosts with a trait that all their
            VMs need, and the others have less free memory than must move (both false).

post-util is the memory used by all VMs divided by the memory of the hosts that stay.
"""

import argparse
import json
import random
import sys

FLAVORS = [  # vcpus, mem GiB, weight: the usual cloud ladder (powers of two)
    (1, 2, 18),
    (2, 4, 22),
    (2, 8, 16),
    (4, 8, 16),
    (4, 16, 12),
    (8, 16, 7),
    (8, 32, 6),
    (16, 64, 3),
]
ODD = [  # hand-made libvirt guests: no ladder
    (1, 1, 6),
    (1, 2, 12),
    (2, 3, 14),
    (2, 5, 14),
    (2, 6, 12),
    (4, 7, 10),
    (4, 10, 10),
    (4, 12, 8),
    (6, 20, 6),
    (8, 24, 5),
    (8, 28, 3),
    (12, 40, 2),
    (16, 56, 1),
]
SHAPES = {  # threads, mem GiB
    "small": (48, 256),
    "medium": (64, 512),
    "large": (96, 768),
}
SMALL_MAX = 32  # largest flavor (GiB) that the small host shape takes


def draw(rng, mix, cap_gib):
    ok = [f for f in mix if f[1] <= cap_gib]
    v, m, _ = rng.choices(ok, weights=[f[2] for f in ok])[0]
    return v, m


class Fleet:
    def __init__(self, rng, a):
        self.rng, self.a = rng, a
        self.hosts, self.vms = [], []
        threads, mem = SHAPES[a.shape]
        for i in range(a.hosts):
            t, m = threads, mem
            if a.hetero and rng.random() < 0.3:
                t, m = SHAPES[rng.choice(list(SHAPES))]
            traits = (
                ["gen1"]
                + (["gen2"] if rng.random() < 0.7 else [])
                + (["gen3"] if rng.random() < 0.3 else [])
            )
            self.hosts.append(
                {
                    "name": f"hv{i:03d}",
                    "threads": t,
                    "mem_mb": m * 1024 + 8192,
                    "mem_reserved_mb": 8192,
                    "disk_gb": int(m * 10 / 0.85),
                    "status": "up",
                    "traits": traits,
                    "zone": f"z{i % 3}",
                }
            )
        self.d = rng.randrange(a.hosts)
        self.hosts[self.d]["traits"] = ["gen1", "gen2", "gen3"]
        self.used = [[0, 0, 0] for _ in self.hosts]
        self.groups_on = [{} for _ in self.hosts]
        self.on = [set() for _ in self.hosts]

    def cap(self, h):
        x = self.hosts[h]
        return (
            int(x["threads"] * self.a.cpu_ratio),
            x["mem_mb"] - x["mem_reserved_mb"],
            x["disk_gb"],
        )

    def need(self, v):
        x = self.vms[v]
        return (x["vcpus"], x["mem_mb"], x["disk_gb"])

    def fits(self, v, h):
        c, n, u = self.cap(h), self.need(v), self.used[h]
        if any(u[k] + n[k] > c[k] for k in range(3)):
            return False
        x = self.vms[v]
        if any(self.groups_on[h].get(g, 0) for g in x["groups"]):
            return False
        return set(x["requires"]) <= set(self.hosts[h]["traits"])

    def put(self, v, h):
        for k, n in enumerate(self.need(v)):
            self.used[h][k] += n
        for g in self.vms[v]["groups"]:
            self.groups_on[h][g] = self.groups_on[h].get(g, 0) + 1
        self.on[h].add(v)
        self.vms[v]["host"] = h

    def take(self, v):
        h = self.vms[v]["host"]
        for k, n in enumerate(self.need(v)):
            self.used[h][k] -= n
        for g in self.vms[v]["groups"]:
            self.groups_on[h][g] -= 1
        self.on[h].discard(v)
        self.vms[v]["host"] = None

    def new_vm(self, vcpus, mem_gib, disk):
        r = self.rng
        self.vms.append(
            {
                "name": "",
                "vcpus": vcpus,
                "mem_mb": mem_gib * 1024,
                "disk_gb": disk,
                "host": None,
                "groups": [],
                "requires": [],
                "pinned": False,
                "dirty_mb_s": r.choice([5, 10, 20, 50, 100, 300]),
            }
        )
        return len(self.vms) - 1

    def free_mem(self, h):
        return self.cap(h)[1] - self.used[h][1]

    def fill(self, h, util, mix, cap_gib):
        """draw VMs on host h until its memory use is as near below util as whole VMs allow"""
        c = self.cap(h)
        target = int(c[1] * util)
        while True:
            room = (target - self.used[h][1]) // 1024
            if room < min(f[1] for f in mix):
                return
            vc, m = draw(self.rng, mix, min(cap_gib, room))
            dk = min(m * self.rng.choice([5, 10, 15]), c[2] - self.used[h][2])
            vc = min(vc, c[0] - self.used[h][0])
            if vc < 1 or dk < 1:
                return
            self.put(self.new_vm(vc, m, dk), h)

    def add_groups(self, share):
        """anti-affinity groups of 2..6 VMs that now sit on different hosts"""
        r = self.rng
        pool = [v for v in range(len(self.vms)) if self.vms[v]["host"] is not None]
        r.shuffle(pool)
        remaining, g = int(len(pool) * share), 0
        while remaining > 1 and pool:
            size, got, seen = r.randint(2, 6), [], set()
            for v in list(pool[:400]):
                if self.vms[v]["host"] not in seen:
                    got.append(v)
                    seen.add(self.vms[v]["host"])
                    if len(got) == size:
                        break
            if len(got) < 2:
                break
            for v in got:
                pool.remove(v)
                h = self.vms[v]["host"]
                self.vms[v]["groups"].append(f"g{g:03d}")
                self.groups_on[h][f"g{g:03d}"] = 1
            g += 1
            remaining -= len(got)

    def add_traits(self, share):
        for _v, x in enumerate(self.vms):
            if x["host"] is not None and self.rng.random() < share:
                t = [t for t in self.hosts[x["host"]]["traits"] if t != "gen1"]
                if t:
                    x["requires"] = [self.rng.choice(t)]

    def seed_drained(self, n, big_first=False):
        """Move n random VMs from the others onto the drained host."""
        r, d = self.rng, self.d
        cand = [v for v, x in enumerate(self.vms) if x["host"] not in (None, d)]
        r.shuffle(cand)
        if big_first:
            k = max(range(len(cand)), key=lambda i: (self.vms[cand[i]]["mem_mb"], -i))
            cand.insert(0, cand.pop(k))
        done = 0
        for v in cand:
            if done >= n:
                break
            if self.fits(v, d):
                self.take(v)
                self.put(v, d)
                done += 1
        return done

    def spread(self, moves):
        """feasible single moves that even out free memory, never touching the drained host"""
        r, others = self.rng, [h for h in range(len(self.hosts)) if h != self.d]
        for _ in range(moves):
            src = min(r.sample(others, min(8, len(others))), key=self.free_mem)
            dst = max(r.sample(others, min(8, len(others))), key=self.free_mem)
            gap = self.free_mem(dst) - self.free_mem(src)
            vs = [v for v in sorted(self.on[src]) if self.vms[v]["mem_mb"] * 2 <= gap + 2048]
            if not vs or src == dst:
                continue
            v = r.choice(vs)
            self.take(v)
            if self.fits(v, dst):
                self.put(v, dst)
            else:
                self.put(v, src)

    def pin(self, share):
        for _v, x in enumerate(self.vms):
            if x["host"] is not None and x["host"] != self.d and self.rng.random() < share:
                x["pinned"] = True

    def out(self, truth):
        order = list(range(len(self.vms)))
        self.rng.shuffle(order)
        vms = []
        for i, v in enumerate(o for o in order if self.vms[o]["host"] is not None):
            x = dict(self.vms[v])
            x["name"] = f"vm{i:05d}"
            x["host"] = self.hosts[x["host"]]["name"]
            vms.append(x)
        mem = sum(x["mem_mb"] for x in vms)
        post = sum(self.cap(h)[1] for h in range(len(self.hosts)) if h != self.d)
        pre = post + self.cap(self.d)[1]
        a = self.a
        return {
            "format": "drainbench/1",
            "name": f"{a.family}-h{a.hosts}-u{a.post_util:g}-{a.mix}-{a.shape}-s{a.seed}",
            "drain": [self.hosts[self.d]["name"]],
            "limits": {"cpu_ratio": a.cpu_ratio, "parallel_total": 8, "parallel_per_host": 2},
            "hosts": self.hosts,
            "vms": vms,
            "truth": dict(
                truth,
                family=a.family,
                post_util=round(mem / post, 4),
                pre_util=round(mem / pre, 4),
                vms_on_drained=len(self.on[self.d]),
            ),
        }


def build(a):
    for attempt in range(200 if a.hosts <= 60 else 6):
        rng = random.Random(
            f"{a.family}/{a.hosts}/{a.post_util}/{a.mix}/{a.shape}/{a.seed}/{attempt}"
        )
        f = Fleet(rng, a)
        mix = FLAVORS if a.mix == "flavors" else ODD
        cap_gib = SMALL_MAX if a.shape == "small" else 64
        n = rng.randint(a.min_vms, a.max_vms)
        others = [h for h in range(a.hosts) if h != f.d]
        if a.family in ("planted", "spread"):
            for h in others:
                f.fill(h, min(0.995, a.post_util + rng.uniform(-0.02, 0.02)), mix, cap_gib)
            f.add_groups(a.group_share)
            f.add_traits(a.trait_share)
            got = f.seed_drained(n, big_first=a.family == "spread")
            if got < a.min_vms:
                continue
            if a.family == "planted":
                f.pin(a.pin_share)
                return f.out({"direct": True, "reorder": True, "why": "planted assignment"})
            f.spread(60 * a.hosts)
            big = max(f.vms[v]["mem_mb"] for v in f.on[f.d])
            room = max(f.free_mem(h) for h in others)
            if big <= room:
                continue
            # pinning could break the backward walk: none here
            return f.out(
                {
                    "direct": False,
                    "reorder": True,
                    "why": f"a VM of {big} MB, largest free slot {room} MB; reversed walk drains",
                }
            )
        # churn / full: arrivals and departures under a spreading scheduler
        allh = list(range(a.hosts))
        post_cap = sum(f.cap(h)[1] for h in others)
        target = int(post_cap * a.post_util)
        used = 0
        churn = int(len(allh) * 40)
        groups = [f"g{i:03d}" for i in range(a.hosts * 3)]
        misses = 0
        steps = 0
        while misses < 60 and (used < target or steps < churn):
            steps += 1
            if used >= target:
                h = max(allh, key=lambda q: f.used[q][1])
                v = rng.choice(sorted(f.on[rng.choice([q for q in allh if f.on[q]])]))
                used -= f.vms[v]["mem_mb"]
                f.take(v)
                continue
            vc, m = draw(rng, mix, cap_gib)
            if used + m * 1024 > target + 4096:
                misses += 1
                if used >= target - 4096:
                    steps += 1
                    h = rng.choice([q for q in allh if f.on[q]])
                    v = rng.choice(sorted(f.on[h]))
                    if steps < churn:
                        used -= f.vms[v]["mem_mb"]
                        f.take(v)
                        misses = 0
                continue
            v = f.new_vm(vc, m, m * rng.choice([5, 10, 10]))
            if rng.random() < a.group_share:
                f.vms[v]["groups"] = [rng.choice(groups)]
            if rng.random() < a.trait_share:
                f.vms[v]["requires"] = [rng.choice(["gen2", "gen3"])]
            ok = [h for h in allh if f.fits(v, h)]
            if not ok:
                misses += 1
                continue
            misses = 0
            f.put(v, max(ok, key=lambda q: (f.free_mem(q), -q)))
            used += m * 1024
        # the drained host: one that holds between min and max VMs
        ok = [h for h in allh if a.min_vms <= len(f.on[h]) <= a.max_vms]
        if not ok:
            continue
        f.d = rng.choice(ok)
        f.pin(a.pin_share)
        need = sum(f.vms[v]["mem_mb"] for v in f.on[f.d])
        room = sum(f.free_mem(h) for h in allh if h != f.d)
        if a.family == "full":
            # an island of hosts that alone have a trait, full of VMs that need it: nothing can
            # leave it
            island = [f.d] + rng.sample([h for h in allh if h != f.d], min(11, a.hosts // 2))
            for h in island:
                f.hosts[h]["traits"] = sorted(set(f.hosts[h]["traits"]) | {"sriov"})
                for v in f.on[h]:
                    f.vms[v]["requires"] = sorted(set(f.vms[v]["requires"]) | {"sriov"})
            room = sum(f.free_mem(h) for h in island if h != f.d)
            if need <= room:
                continue
            return f.out(
                {
                    "direct": False,
                    "reorder": False,
                    "why": (
                        f"{need} MB to move, {room} MB free on the {len(island) - 1} hosts with the"
                        " trait"
                    ),
                }
            )
        if need > room:
            return f.out(
                {
                    "direct": False,
                    "reorder": False,
                    "why": f"{need} MB to move, {room} MB free elsewhere",
                }
            )
        return f.out({"direct": None, "reorder": None, "why": "not planted"})
    raise SystemExit("no fleet with these parameters: other seed or utilisation")


def parser():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--family", choices=["planted", "spread", "churn", "full"], default="planted")
    p.add_argument("--hosts", type=int, default=40)
    p.add_argument("--post-util", type=float, default=0.95)
    p.add_argument("--mix", choices=["flavors", "odd"], default="flavors")
    p.add_argument("--shape", choices=list(SHAPES), default="medium")
    p.add_argument("--hetero", action="store_true")
    p.add_argument("--cpu-ratio", type=float, default=3.0)
    p.add_argument("--min-vms", type=int, default=30)
    p.add_argument("--max-vms", type=int, default=100)
    p.add_argument("--group-share", type=float, default=0.3)
    p.add_argument("--trait-share", type=float, default=0.15)
    p.add_argument("--pin-share", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=1)
    return p


def make(**kw):
    a = parser().parse_args([])
    for k, v in kw.items():
        setattr(a, k, v)
    return build(a)


if __name__ == "__main__":
    json.dump(build(parser().parse_args()), sys.stdout, indent=1)
    print()

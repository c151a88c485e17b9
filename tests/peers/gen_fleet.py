# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeded generators of fleets, request batches and placement topologies.

Pure standard library; the same seed and arguments give the same bytes.

  gen_fleet.py fleet     --hosts 1000 --seed 1 -o fleet.json
  gen_fleet.py requests  --fleet fleet.json --count 200 --seed 2 -o req.json
  gen_fleet.py topology  --kind mixed --roots 200 --seed 3 -o topo.json
  gen_fleet.py topology  --kind fleet --fleet fleet.json -o topo.json
  gen_fleet.py queries   --topology topo.json --count 200 --seed 4 -o q.json

Topology kinds: flat, nested (NUMA + PF + GPU children), sharing (flat
computes whose disk is on a shared-storage provider), mixed (nested and
sharing together), perfload / perfload-nested (the topologies the placement
gate loads), fleet (one flat provider per host of a fleet file).
"""

import argparse
import json
import random
import sys
import uuid

NS = uuid.UUID("8d5f2f0e-5d1c-4a33-9c59-6a3a0f6b7f11")
SHARING = "MISC_SHARES_VIA_AGGREGATE"
PERFLOAD_AGGS = [
    "14a5c8a3-5a99-4e8f-88be-00d85fcb1c17",
    "66d98e7c-3c25-485d-a0dc-1cea651884de",
    "a59dbb28-fd98-4c6e-9ec5-ae5f3d04b0aa",
]
PERFLOAD_TRAITS = ["HW_CPU_X86_AVX2", "HW_CPU_X86_SSE2", "STORAGE_DISK_SSD"]
PERFLOAD_QUERY = f"resources=VCPU:1,DISK_GB:10,MEMORY_MB:256&member_of={PERFLOAD_AGGS[0]}&required=HW_CPU_X86_AVX2"
PERFLOAD_NESTED_QUERY = (
    "resources=DISK_GB:10&required=COMPUTE_VOLUME_MULTI_ATTACH"
    "&resources_COMPUTE=VCPU:1,MEMORY_MB:256&required_COMPUTE=CUSTOM_FOO"
    "&resources_FPGA=FPGA:1&group_policy=none&same_subtree=_COMPUTE,_FPGA"
)


def named_uuid(kind, name):
    """The uuid every peer script gives to the thing called `name`."""
    return str(uuid.uuid5(NS, f"{kind}/{name}"))


def rand_uuid(rng):
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


# --- fleets and requests ---------------------------------------------------


def make_fleet(n, seed=0, load=0.45, all_up=False):
    """Return n hosts filled to about `load` of the capacity by their ratios."""
    rng = random.Random(f"fleet/{seed}")
    hosts = []
    for i in range(n):
        vcpus = rng.choice((16, 32, 48, 64, 96, 128))
        memory_mb = vcpus * 1024 * rng.choice((2, 4, 8))
        local_gb = rng.choice((500, 1000, 2000, 4000, 8000))
        ratios = {
            "cpu": rng.choice((2.0, 4.0, 8.0)),
            "ram": rng.choice((1.0, 1.0, 1.5)),
            "disk": 1.0,
        }
        fill = min(0.95, max(0.0, rng.gauss(load, 0.2)))
        count = min(45, int(fill * vcpus * ratios["cpu"] / 4))
        aggregates = []
        if rng.random() < 0.40:
            aggregates.append({"name": "ssd", "metadata": {"ssd": "true", "tier": "gold,silver"}})
        if rng.random() < 0.15:
            aggregates.append({"name": "gpu", "metadata": {"gpu": "true"}})
        if rng.random() < 0.10:
            aggregates.append(
                {
                    "name": "pack",
                    "metadata": {"ram_weight_multiplier": "-1.0", "max_instances_per_host": "30"},
                }
            )
        hosts.append(
            {
                "host": f"host-{i:05d}",
                "node": f"host-{i:05d}",
                "host_ip": f"10.{i >> 14 & 255}.{i >> 6 & 255}.{(i & 63) * 4 + 1}",
                "vcpus": vcpus,
                "vcpus_used": int(vcpus * ratios["cpu"] * fill),
                "memory_mb": memory_mb,
                "memory_mb_used": int(memory_mb * ratios["ram"] * fill),
                "local_gb": local_gb,
                "local_gb_used": int(local_gb * fill * 0.8),
                "cpu_allocation_ratio": ratios["cpu"],
                "ram_allocation_ratio": ratios["ram"],
                "disk_allocation_ratio": ratios["disk"],
                "num_instances": count,
                "num_io_ops": rng.choice((0, 0, 0, 0, 1, 1, 2, 3, 7, 9)),
                "hypervisor_type": "QEMU",
                "hypervisor_version": rng.choice((7002000, 8002002, 10000000)),
                "availability_zone": f"az{1 + i % 4}",
                "aggregates": aggregates,
                "enabled": all_up or rng.random() > 0.02,
                "up": all_up or rng.random() > 0.01,
                "failed_builds": rng.choice((0,) * 49 + (1,)),
                "instances": [rand_uuid(rng) for _ in range(count)],
            }
        )
    return {"hosts": hosts}


FLAVORS = [
    (1, 512, 1),
    (1, 2048, 20),
    (2, 4096, 40),
    (4, 8192, 80),
    (8, 16384, 160),
    (16, 65536, 320),
]


def make_requests(fleet, count, seed=0, plain=False):
    """Requests that use hints, groups, extra specs and forced hosts.

    plain: only a flavor and an instance count, for timing runs.
    """
    rng = random.Random(f"requests/{seed}")
    hosts = fleet["hosts"]
    names = [h["host"] for h in hosts]
    used = [i for h in hosts for i in h["instances"][:2]]
    out = []
    for _ in range(count):
        vcpus, memory_mb, root_gb = rng.choice(FLAVORS)
        req = {
            "vcpus": vcpus,
            "memory_mb": memory_mb,
            "root_gb": root_gb,
            "num_instances": rng.choice((1,) * 8 + (2, 5)),
            "extra_specs": {},
            "scheduler_hints": {},
            "group": None,
            "ignore_hosts": [],
            "force_hosts": [],
            "image": {},
            "availability_zone": None,
            "project_id": f"p{rng.randrange(4)}",
        }
        if not plain:
            _decorate(req, rng, names, used, hosts)
        out.append(req)
    return out


def _decorate(req, rng, names, used, hosts):
    specs, hints = req["extra_specs"], req["scheduler_hints"]
    roll = rng.random()
    if roll < 0.10:
        specs["aggregate_instance_extra_specs:ssd"] = "true"
    elif roll < 0.15:
        specs["aggregate_instance_extra_specs:tier"] = "<or> gold <or> bronze"
    elif roll < 0.20:
        specs["capabilities:hypervisor_version"] = "s== 8002002"
    elif roll < 0.25:
        specs["capabilities:hypervisor_version"] = ">= 8000000"
    roll = rng.random()
    if used and roll < 0.08:
        hints["different_host"] = rng.sample(used, min(len(used), 5))
    elif used and roll < 0.14:
        hints["same_host"] = [rng.choice(used)]
    elif roll < 0.22:
        hints["query"] = json.dumps(
            [
                "and",
                [">=", "$free_ram_mb", 8192],
                ["or", ["<", "$num_instances", 10], ["=", "$hypervisor_version", 10000000]],
            ]
        )
    elif roll < 0.26:
        hints["build_near_host_ip"] = rng.choice(hosts)["host_ip"]
        hints["cidr"] = "/22"
    roll = rng.random()
    if roll < 0.24:
        policy = rng.choice(("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"))
        picked = rng.sample(hosts, min(len(hosts), 4))
        picked = [h for h in picked if h["instances"]]
        rules = {"max_server_per_host": rng.choice((1, 2, 3))} if policy == "anti-affinity" else {}
        req["group"] = {
            "policy": policy,
            "rules": rules,
            "hosts": [h["host"] for h in picked],
            "members": [h["instances"][0] for h in picked],
        }
    if rng.random() < 0.10:
        req["ignore_hosts"] = rng.sample(names, min(len(names), 5))
    if rng.random() < 0.04:
        req["force_hosts"] = [rng.choice(names)]
    if rng.random() < 0.25:
        req["availability_zone"] = f"az{rng.randrange(1, 5)}"
    if rng.random() < 0.10:
        req["image"] = {
            "properties": {"hw_architecture": rng.choice(("x86_64", "x86_64", "aarch64"))}
        }


# --- placement topologies --------------------------------------------------


def inv(total, reserved=0, min_unit=1, max_unit=None, step_size=1, ratio=1.0):
    return {
        "total": total,
        "reserved": reserved,
        "min_unit": min_unit,
        "max_unit": max_unit or max(total, 1),
        "step_size": step_size,
        "allocation_ratio": ratio,
    }


def provider(name, parent=None, inventories=None, traits=(), aggregates=()):
    return {
        "uuid": named_uuid("rp", name),
        "name": name,
        "parent": parent,
        "inventories": inventories or {},
        "traits": sorted(set(traits)),
        "aggregates": list(aggregates),
    }


def _compute_tree(rng, i, nested, shared_disk, aggs):
    """The providers of one compute host."""
    name = f"cn{i:05d}"
    traits = [
        t
        for t in ("HW_CPU_X86_AVX2", "COMPUTE_VOLUME_MULTI_ATTACH", "CUSTOM_GOLD")
        if rng.random() < 0.6
    ]
    if rng.random() < 0.05:
        traits.append("COMPUTE_STATUS_DISABLED")
    mine = [a for a in aggs if rng.random() < 0.4]
    root_inv = {}
    if not shared_disk:
        root_inv["DISK_GB"] = inv(
            rng.choice((500, 2000)), reserved=10, step_size=rng.choice((1, 1, 10))
        )
    if not nested:
        root_inv["VCPU"] = inv(rng.choice((8, 32)), ratio=rng.choice((1.0, 4.0)), max_unit=16)
        root_inv["MEMORY_MB"] = inv(
            rng.choice((8192, 65536)), reserved=512, min_unit=rng.choice((1, 128))
        )
        return [provider(name, None, root_inv, traits, mine)]
    out = [provider(name, None, root_inv, traits, mine)]
    for n in range(rng.choice((1, 2, 2))):
        numa = f"{name}_numa{n}"
        out.append(
            provider(
                numa,
                name,
                {
                    "VCPU": inv(rng.choice((4, 16)), ratio=rng.choice((1.0, 2.0))),
                    "PCPU": inv(rng.choice((2, 4))),
                    "MEMORY_MB": inv(
                        rng.choice((4096, 16384)), reserved=256, step_size=rng.choice((1, 256))
                    ),
                },
                ["HW_NUMA_ROOT"] + (["CUSTOM_FOO"] if rng.random() < 0.5 else []),
            )
        )
        for p in range(rng.choice((0, 1, 2))):
            out.append(
                provider(
                    f"{numa}_pf{p}",
                    numa,
                    {
                        "SRIOV_NET_VF": inv(rng.choice((2, 8))),
                        "NET_BW_EGR_KILOBIT_PER_SEC": inv(10000, step_size=100),
                    },
                    [rng.choice(("CUSTOM_PHYSNET_A", "CUSTOM_PHYSNET_B"))],
                )
            )
        if rng.random() < 0.4:
            out.append(
                provider(
                    f"{numa}_gpu0", numa, {"VGPU": inv(rng.choice((1, 4)))}, ["CUSTOM_NVIDIA_11"]
                )
            )
    return out


def make_topology(kind, roots, seed=0, allocs=None):
    if kind == "perfload":
        return perfload(roots)
    if kind == "perfload-nested":
        return perfload_nested(roots)
    rng = random.Random(f"topology/{kind}/{seed}")
    aggs = [named_uuid("agg", f"agg{i}") for i in range(4)]
    providers = []
    if kind in ("sharing", "mixed"):
        for s in range(2):
            providers.append(
                provider(
                    f"ss{s}",
                    None,
                    {"DISK_GB": inv(50000, reserved=100)},
                    [SHARING, "STORAGE_DISK_SSD"][: rng.choice((1, 2))],
                    [aggs[s]],
                )
            )
    for i in range(roots):
        nested = kind == "nested" or (kind == "mixed" and rng.random() < 0.6)
        shared = kind == "sharing" or (kind == "mixed" and rng.random() < 0.4)
        providers += _compute_tree(rng, i, nested, shared, aggs)
    topo = {"providers": providers, "allocations": []}
    _random_allocations(topo, rng, roots if allocs is None else allocs)
    return topo


def _random_allocations(topo, rng, count):
    """Small single-provider allocations that respect every unit rule."""
    room = {}
    for p in topo["providers"]:
        for rc, i in p["inventories"].items():
            room[p["name"], rc] = (i["total"] - i["reserved"]) * i["allocation_ratio"]
    for n in range(count):
        p = rng.choice(topo["providers"])
        res = {}
        for rc, i in p["inventories"].items():
            unit = max(i["min_unit"], i["step_size"])
            unit += -unit % i["step_size"]
            amount = unit * rng.choice((1, 1, 2))
            if amount <= i["max_unit"] and amount <= room[p["name"], rc]:
                res[rc] = amount
                room[p["name"], rc] -= amount
        if res:
            topo["allocations"].append(
                {
                    "consumer": named_uuid("consumer", f"seed{n}"),
                    "project_id": "p0",
                    "user_id": "u0",
                    "consumer_type": "INSTANCE",
                    "allocations": {p["name"]: res},
                }
            )


def perfload(n):
    """The topology that placeload 0.3.0 creates: n flat providers, all alike."""
    inventories = {
        "MEMORY_MB": inv(8192, min_unit=128),
        "DISK_GB": inv(8192, min_unit=5),
        "VCPU": inv(32, max_unit=16),
    }
    return {
        "allocations": [],
        "providers": [
            provider(
                f"rp{i:05d}",
                None,
                inventories,
                PERFLOAD_TRAITS[: 1 + i % 3],
                PERFLOAD_AGGS[: 1 + i % 3],
            )
            for i in range(n)
        ],
    }


def perfload_nested(n):
    """The nested gate topology: 7 providers per compute node."""
    out = []
    for i in range(n):
        cn = f"cn{i:05d}"
        out += [
            provider(cn, None, {"DISK_GB": inv(20480)}, ["COMPUTE_VOLUME_MULTI_ATTACH"]),
            provider(
                cn + "_n0",
                cn,
                {"VCPU": inv(4, reserved=2), "MEMORY_MB": inv(2048, min_unit=512, step_size=256)},
                ["HW_NUMA_ROOT"],
            ),
            provider(
                cn + "_n1",
                cn,
                {"VCPU": inv(4), "MEMORY_MB": inv(2048, min_unit=256, max_unit=1024)},
                ["HW_NUMA_ROOT", "CUSTOM_FOO"],
            ),
            provider(cn + "_fpga0", cn + "_n0", {"FPGA": inv(1)}),
            provider(cn + "_pgpu0", cn + "_n0", {"VGPU": inv(8)}),
            provider(cn + "_fpga1_0", cn + "_n1", {"FPGA": inv(1)}),
            provider(cn + "_fpga1_1", cn + "_n1", {"FPGA": inv(1)}),
        ]
    return {"providers": out, "allocations": []}


def fleet_aggregates(fleet):
    """name -> {'metadata', 'hosts'}; a zone is a separate aggregate."""
    out = {}
    for h in fleet["hosts"]:
        aggregates = list(h.get("aggregates") or [])
        if h.get("availability_zone"):
            aggregates.append(
                {
                    "name": "az-" + h["availability_zone"],
                    "metadata": {"availability_zone": h["availability_zone"]},
                }
            )
        for a in aggregates:
            agg = out.setdefault(a["name"], {"metadata": {}, "hosts": []})
            agg["metadata"].update(a.get("metadata") or {})
            agg["hosts"].append(h["host"])
    return out


def host_uuid(h):
    return h.get("uuid") or named_uuid("rp", h["host"] + "/" + h["node"])


def fleet_topology(fleet):
    """The flat providers nova-compute would report for a fleet."""
    member = {}
    for name, agg in fleet_aggregates(fleet).items():
        for host in agg["hosts"]:
            member.setdefault(host, []).append(named_uuid("agg", name))
    providers, allocations = [], []
    for h in fleet["hosts"]:
        traits = ["OWNER_NOVA"] + list(h.get("traits") or [])
        if not h.get("enabled", True):
            traits.append("COMPUTE_STATUS_DISABLED")
        rp = provider(
            h["host"] + "/" + h["node"],
            None,
            {
                "VCPU": inv(h["vcpus"], ratio=h["cpu_allocation_ratio"]),
                "MEMORY_MB": inv(h["memory_mb"], ratio=h["ram_allocation_ratio"]),
                "DISK_GB": inv(h["local_gb"], ratio=h["disk_allocation_ratio"]),
            },
            traits,
            member.get(h["host"], ()),
        )
        rp["uuid"] = host_uuid(h)
        providers.append(rp)
        used = {
            "VCPU": h["vcpus_used"],
            "MEMORY_MB": h["memory_mb_used"],
            "DISK_GB": h["local_gb_used"],
        }
        used = {rc: n for rc, n in used.items() if n}
        if used:
            allocations.append(
                {
                    "consumer": named_uuid("used", rp["name"]),
                    "project_id": "p",
                    "user_id": "u",
                    "consumer_type": "INSTANCE",
                    "allocations": {rp["name"]: used},
                }
            )
    return {"providers": providers, "allocations": allocations}


def make_queries(topo, count, seed=0):
    """Random allocation_candidates query strings for a topology."""
    rng = random.Random(f"queries/{seed}")
    aggs = sorted({a for p in topo["providers"] for a in p["aggregates"]})
    traits = sorted({t for p in topo["providers"] for t in p["traits"]})
    classes = {rc for p in topo["providers"] for rc in p["inventories"]}
    roots = [p["uuid"] for p in topo["providers"] if not p["parent"]]
    amounts = {
        "VCPU": (1, 2, 4),
        "PCPU": (1, 2),
        "MEMORY_MB": (256, 512, 2048),
        "DISK_GB": (10, 50),
        "SRIOV_NET_VF": (1, 2),
        "VGPU": (1, 2),
        "NET_BW_EGR_KILOBIT_PER_SEC": (100, 1000),
        "FPGA": (1,),
    }

    def res(*names):
        return ",".join(f"{rc}:{rng.choice(amounts[rc])}" for rc in names if rc in classes)

    def one():
        parts, group = [], []
        base = ["VCPU", "MEMORY_MB"] + (["DISK_GB"] if rng.random() < 0.7 else [])
        nested = "SRIOV_NET_VF" in classes and rng.random() < 0.6
        if nested:
            group = [
                s
                for s, keep in (
                    ("_NUMA", rng.random() < 0.6),
                    ("_PF", rng.random() < 0.7),
                    ("_GPU", rng.random() < 0.4),
                )
                if keep
            ]
        if "_NUMA" in group:
            if len(base) == 3:
                parts.append("resources=" + res("DISK_GB"))
            parts.append("resources_NUMA=" + res("VCPU", "MEMORY_MB"))
            if rng.random() < 0.4:
                parts.append(
                    "required_NUMA=" + rng.choice(("CUSTOM_FOO", "!CUSTOM_FOO", "HW_NUMA_ROOT"))
                )
        else:
            parts.append("resources=" + res(*base))
        if "_PF" in group:
            parts.append("resources_PF=" + res("SRIOV_NET_VF"))
            if rng.random() < 0.5:
                parts.append(
                    "required_PF="
                    + rng.choice(
                        (
                            "CUSTOM_PHYSNET_A",
                            "in:CUSTOM_PHYSNET_A,CUSTOM_PHYSNET_B",
                            "!CUSTOM_PHYSNET_B",
                        )
                    )
                )
        if "_GPU" in group:
            parts.append("resources_GPU=" + res("VGPU"))
        if len(group) > 1:
            parts.append("group_policy=" + rng.choice(("none", "isolate")))
            if rng.random() < 0.5:
                parts.append("same_subtree=" + ",".join(group))
        if traits and rng.random() < 0.35 and "_NUMA" not in group:
            usable = [t for t in traits if t != SHARING]
            t = rng.sample(usable, min(2, len(usable)))
            parts.append(
                rng.choice(("required=" + t[0], "required=!" + t[0], "required=in:" + ",".join(t)))
            )
        if aggs and rng.random() < 0.3:
            a = rng.sample(aggs, min(2, len(aggs)))
            parts.append(
                rng.choice(
                    (
                        "member_of=" + a[0],
                        "member_of=!" + a[0],
                        "member_of=in:" + ",".join(a),
                        "member_of=!in:" + ",".join(a),
                    )
                )
            )
        if rng.random() < 0.15:
            parts.append(
                "root_required=" + rng.choice(("!COMPUTE_STATUS_DISABLED", "HW_CPU_X86_AVX2"))
            )
        if rng.random() < 0.08:
            parts.append("in_tree=" + rng.choice(roots))
        return "&".join(parts)

    return [one() for _ in range(count)]


def main(argv=None):
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("what", choices=("fleet", "requests", "topology", "queries"))
    ap.add_argument("--hosts", type=int, default=1000)
    ap.add_argument("--roots", type=int, default=100)
    ap.add_argument("--count", type=int, default=100)
    ap.add_argument("--kind", default="mixed")
    ap.add_argument("--seed", default="0")
    ap.add_argument("--load", type=float, default=0.45)
    ap.add_argument("--all-up", action="store_true", help="fleet: no disabled or down host")
    ap.add_argument("--plain", action="store_true", help="requests: only flavors and counts")
    ap.add_argument("--fleet")
    ap.add_argument("--topology")
    ap.add_argument("-o", "--out", default="-")
    a = ap.parse_args(argv)

    def load(path):
        with open(path) as f:
            return json.load(f)

    if a.what == "fleet":
        data = make_fleet(a.hosts, a.seed, a.load, a.all_up)
    elif a.what == "requests":
        data = make_requests(load(a.fleet), a.count, a.seed, a.plain)
    elif a.what == "topology" and a.kind == "fleet":
        data = fleet_topology(load(a.fleet))
    elif a.what == "topology":
        data = make_topology(a.kind, a.roots, a.seed)
    else:
        data = make_queries(load(a.topology), a.count, a.seed)
    out = sys.stdout if a.out == "-" else open(a.out, "w")
    json.dump(data, out, indent=1)
    out.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

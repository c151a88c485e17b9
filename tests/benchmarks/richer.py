# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a fleet and requests of the peers' gen_fleet.py use every host filter and weigher that Nova
has too.

    python tests/benchmarks/richer.py --seed 1 --fleet FLEET.json --requests REQUESTS.json --policy
    P.yml --set NOVA.txt

Changes the two files in place, and writes a policy and, one per line, the same options for
nova_sched.py --set. Adds to hosts: metrics, statistics, aggregates for certain projects, flavors,
images and with limits and multipliers of all weighers; to requests: flavors, image properties,
extra specs without a scope, queries, requested destinations.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import uuid

AGGREGATES = (
    (0.15, "tenants", {"filter_tenant_id": "p0,p1", "filter_tenant_id_2": "p2"}),
    (0.12, "flavors", {"instance_type": "m1, m2"}),
    (0.12, "images", {"hw_disk_bus": "virtio,scsi", "os_distro": "debian"}),
    (0.10, "quiet", {"max_io_ops_per_host": "3", "io_ops_weight_multiplier": "-2.5"}),
    (0.08, "crowd", {"max_instances_per_host": "35", "num_instances_weight_multiplier": "0.7"}),
    (
        0.08,
        "odd",
        {
            "cpu_weight_multiplier": "0.3",
            "disk_weight_multiplier": "x",
            "metrics_weight_multiplier": "2",
        },
    ),
    (
        0.06,
        "soft",
        {"soft_affinity_weight_multiplier": "3", "soft_anti_affinity_weight_multiplier": "0.5"},
    ),
    (
        0.06,
        "old",
        {"hypervisor_version_weight_multiplier": "-1", "build_failure_weight_multiplier": "5"},
    ),
)
CELLS = (str(uuid.UUID(int=1)), str(uuid.UUID(int=11)))
QUERIES = (
    ["not", ["in", "$hypervisor_version", 7002000, 8002002]],
    ["or", [">", "$free_disk_mb", 500000], ["<=", "$vcpus_used", 20], ["=", "$stats.rack", "3"]],
    ["and", ["in", "$hypervisor_type", "QEMU", "KVM"], ["<", "$num_io_ops", 3]],
    ["=", "$stats.rack", "1"],
    [">=", "$vcpus_total", "$vcpus_used", 32],
)


def richer(fleet, requests, rng, single):
    for host in fleet["hosts"]:
        host["metrics"] = [
            {
                "name": "cpu.frequency",
                "value": rng.randrange(100),
                "timestamp": "2026-01-01T00:00:00.000000",
                "source": "x",
            }
        ]
        if rng.random() < 0.8:
            host["metrics"].append(
                {
                    "name": "cpu.user.time",
                    "value": rng.randrange(50),
                    "timestamp": "2026-01-01T00:00:00.000000",
                    "source": "x",
                }
            )
        host["stats"] = {"rack": rng.randrange(1, 5), "gpu": rng.choice(("yes", "no"))}
        host["cpu_info"] = json.dumps(
            {
                "arch": "x86_64",
                "features": rng.sample(["sse", "avx", "avx2", "aes"], 2),
                "topology": {"cores": rng.choice((4, 8))},
            }
        )
        host["cell"] = rng.choice(CELLS)
        host["instance_images"] = {
            each: {
                "hw_disk_bus": rng.choice(("virtio", "ide")),
                "os_distro": rng.choice(("debian", "fedora")),
            }
            for each in host["instances"]
            if rng.random() < 0.5
        }
        if rng.random() < 0.3:
            host["disk_available_least"] = rng.randrange(host["local_gb"])
        host["aggregates"] += [
            {"name": name, "metadata": metadata}
            for share, name, metadata in AGGREGATES
            if rng.random() < share
        ]
    names = [host["host"] for host in fleet["hosts"]]
    for request in requests:
        request["flavor"] = rng.choice(("m1", "m2", "m3"))
        properties = request["image"].setdefault("properties", {})
        request["image"]["id"] = str(uuid.UUID(int=rng.randrange(1, 5)))
        roll = rng.random()
        if roll < 0.1:
            properties["hw_disk_bus"] = rng.choice(("virtio", "ide"))
        elif roll < 0.2:
            properties["os_distro"] = rng.choice(("debian", "fedora"))
        elif roll < 0.25:
            properties["img_hv_requested_version"] = ">=8.0"
            properties["hw_vm_mode"] = "hvm"
        elif roll < 0.3:
            properties["img_hv_type"] = rng.choice(("kvm", "qemu"))
        roll = rng.random()
        specs = request["extra_specs"]
        if roll < 0.05:
            specs["capabilities:rack"] = rng.choice(("<or> 1 <or> 3", "!= 2", "s> 2", "== 4"))
        elif roll < 0.10:
            specs["capabilities:cpu_info:features"] = rng.choice(("<in> avx2", "<all-in> aes avx"))
        elif roll < 0.13:
            specs["capabilities:cpu_info:topology:cores"] = ">= 8"
        elif roll < 0.16:
            specs["capabilities:stats:gpu"] = "yes"
        elif roll < 0.18:
            specs["capabilities:nothing"] = "1"
        if rng.random() < 0.12 and "query" not in request["scheduler_hints"]:
            request["scheduler_hints"]["query"] = json.dumps(rng.choice(QUERIES))
        if rng.random() < 0.03 and not request["force_hosts"]:
            request["requested_destination"] = {"host": rng.choice(names)}
        elif rng.random() < 0.1:
            request["requested_destination"] = {
                "cell": rng.choice(CELLS),
                "allow_cross_cell_move": True,
            }
        if single:
            request["num_instances"] = 1


def options(rng, images_count):
    """Return (policy mapping, [Nova's GROUP.OPTION=VALUE])."""
    multipliers = {
        f"{name}_weight_multiplier": rng.choice((0.0, 0.5, 1.0, 2.0, -1.0))
        for name in ("ram", "cpu", "disk", "io_ops", "num_instances", "hypervisor_version")
    }
    multipliers.update(
        {
            f"{name}_weight_multiplier": rng.choice((0.0, 1.0, 4.0))
            for name in ("soft_affinity", "soft_anti_affinity")
        }
    )
    multipliers["cross_cell_move_weight_multiplier"] = rng.choice((0.0, 3.0, 1000000.0))
    multipliers["image_props_weight_multiplier"] = rng.choice((1.0, -2.0)) if images_count else 0.0
    setting = rng.choice(({}, {"hw_disk_bus": 2.0, "os_distro": -0.5}))
    heat = rng.random() < 0.5
    images, hosts = [str(uuid.UUID(int=4))], [f"host-{number:05d}" for number in range(0, 40, 3)]
    policy = {
        **multipliers,
        "metrics_weight_setting": {"cpu.frequency": -1.0, "cpu.user.time": 0.5},
        "metrics_weight_multiplier": 1.5,
        "image_props_weight_setting": setting,
        "metrics_required": heat,
        "max_instances_per_host": 40,
        "max_io_ops_per_host": 7,
        "isolated_images": images,
        "isolated_hosts": hosts,
        "restrict_isolated_hosts_to_isolated_images": rng.random() < 0.5,
    }
    nova = [f"{key}={value}" for key, value in multipliers.items()]
    nova += (
        [
            f"image_props_weight_setting={','.join(f'{key}={value}' for key, value in setting.items())}"
        ]
        if setting
        else []
    )
    nova += [
        "metrics.weight_setting=cpu.frequency=-1.0,cpu.user.time=0.5",
        "metrics.weight_multiplier=1.5",
        f"metrics.required={heat}",
        "max_instances_per_host=40",
        "max_io_ops_per_host=7",
        f"isolated_images={','.join(images)}",
        f"isolated_hosts={','.join(hosts)}",
        f"restrict_isolated_hosts_to_isolated_images={policy['restrict_isolated_hosts_to_isolated_images']}",
    ]
    return policy, nova


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--seed", "--fleet", "--requests", "--policy", "--set"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    rng = random.Random(f"richer/{arguments.seed}")
    fleet = json.loads(pathlib.Path(arguments.fleet).read_text())
    requests = json.loads(pathlib.Path(arguments.requests).read_text())
    # Here ImagePropertiesWeigher counts earlier placements of the batch, and Nova's does not; so
    # the comparison uses no batches.
    images = rng.random() < 0.5
    richer(fleet, requests, rng, images)
    policy, nova = options(rng, images)
    pathlib.Path(arguments.fleet).write_text(json.dumps(fleet))
    pathlib.Path(arguments.requests).write_text(json.dumps(requests))
    # JSON is YAML.
    pathlib.Path(arguments.policy).write_text(json.dumps(policy, indent=1))
    pathlib.Path(arguments.set).write_text("\n".join(nova) + "\n")


if __name__ == "__main__":
    main()

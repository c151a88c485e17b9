# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeded hosts and requests for numa_peer.py, as JSON on stdout. Standard library only.

    gen_numa_fleet.py SEED [--hosts 4] [--requests 12]

The same seed and numbers give the same document with any Python 3.9 or later. Hosts are of the
kinds that fleets have: one small socket, two sockets with and without threads, EPYC with several
cells in a socket, cells without memory or without CPUs in a set, old settings (one set for
everything) and new ones (shared and dedicated), 2 MiB and 1 GiB pages with some reserved, GPUs,
plain devices, NICs with virtual functions, devices of no known cell. Requests mix what real flavors
mix, with some that contradict themselves. Some instances are on the hosts already.
"""

import argparse
import json
import random

GPU = {"vendor_id": "10de", "product_id": "2204"}
GPU_BIG = {"vendor_id": "10de", "product_id": "20b5"}
NVME = {"vendor_id": "144d", "product_id": "a80a"}
NIC_PF = {"vendor_id": "15b3", "product_id": "101d"}
NIC_VF = {"vendor_id": "15b3", "product_id": "101e"}
# A card whose functions all have one product id.
QAT = {"vendor_id": "8086", "product_id": "37c8"}

ALIASES = [
    dict(GPU, name="gpu", device_type="type-PCI"),
    dict(GPU, name="gpu-near", device_type="type-PCI", numa_policy="required"),
    dict(GPU, name="gpu-any", device_type="type-PCI", numa_policy="preferred"),
    dict(GPU, name="gpu-socket", device_type="type-PCI", numa_policy="socket"),
    # Either of two models: aliases of one name are alternatives.
    dict(GPU, name="some-gpu", device_type="type-PCI"),
    dict(GPU_BIG, name="some-gpu", device_type="type-PCI"),
    dict(NVME, name="nvme", device_type="type-PCI", numa_policy="preferred"),
    dict(NIC_VF, name="vf", device_type="type-VF"),
    dict(NIC_VF, name="vf-near", device_type="type-VF", numa_policy="required"),
    dict(NIC_PF, name="pf", device_type="type-PF"),
    dict(QAT, name="qat", numa_policy="preferred"),
]

# Sockets, cells per socket, cores per cell, threads per core, GiB per cell.
SHAPES = [
    (1, 1, 4, 1, 16),
    (1, 1, 6, 2, 32),
    (1, 1, 8, 2, 64),
    (1, 1, 16, 2, 128),
    (2, 1, 4, 2, 32),
    (2, 1, 6, 1, 48),
    (2, 1, 8, 2, 64),
    (2, 1, 12, 2, 96),
    (2, 1, 16, 2, 128),
    (1, 4, 4, 2, 16),
    (1, 4, 8, 2, 32),
    (2, 2, 6, 2, 48),
    (2, 4, 4, 2, 32),
    (4, 1, 4, 2, 32),
]


def cores_of(sockets, cells, cores, threads, interleaved):
    """[[set of siblings, ...] of each cell]; numbered as the kernel does, or core by core."""
    total = sockets * cells * cores
    by_cell, number = [], 0
    for _cell in range(sockets * cells):
        mine = []
        for _core in range(cores):
            if interleaved:
                mine.append([number * threads + thread for thread in range(threads)])
            else:
                mine.append([number + thread * total for thread in range(threads)])
            number += 1
        by_cell.append(mine)
    return by_cell


def cpu_sets(dice, cores):
    """(cpus, pcpus, siblings) of a cell, by the way that the host is set up."""

    def flat(parts):
        return sorted(cpu for part in parts for cpu in part)

    mode = dice.mode
    if mode == "legacy":
        every = flat(cores)
        return every, every, cores
    if mode == "legacy-some":
        kept = cores[1:] or cores
        return flat(kept), flat(kept), kept
    if mode == "shared-only":
        return flat(cores), [], cores
    if mode == "dedicated-only":
        kept = cores[1:] or cores
        return [], flat(kept), kept
    if mode == "threads":
        # The first thread of each core is dedicated, the second shared.
        first = sorted(core[0] for core in cores)
        second = sorted(cpu for core in cores for cpu in core[1:])
        return second, first, cores
    # Split: some cores shared, the rest dedicated; one core is the host's own on some.
    kept = cores[1:] if dice.host_core and len(cores) > 2 else cores
    cut = max(1, len(kept) // dice.part)
    return flat(kept[:cut]), flat(kept[cut:]), kept


def pages_of(dice, memory_mb):
    """(pages, memory) of a cell; memory that huge pages take is none of the small pages'."""
    if dice.pages == "none":
        return []
    sizes, remaining_mb = [], memory_mb - 256
    if dice.pages in ("1g", "both"):
        number = max(1, int(memory_mb * dice.share / 1024))
        sizes.append(
            {
                "size_kb": 1048576,
                "total": number,
                "reserved": 1 if dice.reserve and number > 2 else 0,
            }
        )
        remaining_mb -= number * 1024
    if dice.pages in ("2m", "both"):
        number = int(memory_mb * dice.share / 2)
        sizes.append({"size_kb": 2048, "total": number, "reserved": 128 if dice.reserve else 0})
        remaining_mb -= number * 2
    if dice.pages == "2m-empty":
        sizes.append({"size_kb": 2048, "total": 0, "reserved": 0})
    return [{"size_kb": 4, "total": max(remaining_mb, 0) * 256, "reserved": 0}] + sorted(
        sizes, key=lambda p: p["size_kb"]
    )


def devices(rng, number_of_cells):
    """PCI devices of a host."""
    device_list = []
    kinds = rng.sample(["gpu", "big", "nvme", "nic", "qat"], rng.randint(2, 4))
    bus = 0x18
    unknown = rng.random() < 0.15

    def node():
        return None if unknown else rng.randrange(number_of_cells)

    for kind in kinds:
        if kind in ("gpu", "big", "nvme"):
            ids = {"gpu": GPU, "big": GPU_BIG, "nvme": NVME}[kind]
            for _ in range(rng.choice([1, 1, 2, 4])):
                device_list.append(
                    dict(ids, address=f"0000:{bus:02x}:00.0", numa_node=node(), dev_type="type-PCI")
                )
                bus += 1
        elif kind in ("nic", "qat"):
            parent_ids, child_ids = (NIC_PF, NIC_VF) if kind == "nic" else (QAT, QAT)
            for _ in range(rng.choice([1, 2])):
                parent = f"0000:{bus:02x}:00.0"
                where = node()
                device_list.append(
                    dict(parent_ids, address=parent, numa_node=where, dev_type="type-PF")
                )
                for function in range(rng.choice([0, 2, 4, 4])):
                    device_list.append(
                        dict(
                            child_ids,
                            address=f"0000:{bus:02x}:00.{function + 1}",
                            numa_node=where,
                            dev_type="type-VF",
                            parent_addr=parent,
                        )
                    )
                bus += 1
    return device_list


def host(rng, number):
    sockets, cells, cores, threads, gib = rng.choice(SHAPES)
    dice = argparse.Namespace(
        mode=rng.choice(
            [
                "split",
                "split",
                "split",
                "split",
                "split",
                "legacy",
                "legacy",
                "legacy",
                "legacy-some",
                "dedicated-only",
                "shared-only",
                "threads" if threads > 1 else "split",
            ]
        ),
        host_core=rng.random() < 0.5,
        part=rng.choice([2, 3, 4]),
        pages=rng.choice(["2m", "2m", "2m", "1g", "both", "both", "2m-empty", "none"]),
        share=rng.choice([0.25, 0.4, 0.45]),
        reserve=rng.random() < 0.3,
    )
    made = []
    for cell, mine in enumerate(cores_of(sockets, cells, cores, threads, rng.random() < 0.4)):
        cpus, pcpus, siblings = cpu_sets(dice, mine)
        memory = gib * 1024 - rng.choice([0, 512, 700])
        made.append(
            {
                "id": cell,
                "socket": cell // cells,
                "cpus": cpus,
                "pcpus": pcpus,
                "siblings": siblings,
                "memory_mb": memory,
                "pages": pages_of(dice, memory),
            }
        )
    odd = rng.random()
    if odd < 0.05:
        for cell in made:
            cell["socket"] = None
    elif odd < 0.08 and len(made) > 1:
        # A cell of memory alone.
        made[-1].update(cpus=[], pcpus=[], siblings=[])
    elif odd < 0.10:
        made = []
    host_data = {
        "name": f"host{number}",
        "cells": made,
        "cpu_allocation_ratio": rng.choice([1.0, 2.0, 4.0, 16.0]),
        "ram_allocation_ratio": rng.choice([1.0, 1.0, 1.5]),
        "pci": devices(rng, max(1, len(made))) if rng.random() < 0.85 else [],
    }
    # Nova cannot count the use of a cell without figures of pages.
    count = rng.choice([0, 0, 1, 2, 3, 5]) if dice.pages != "none" else 0
    host_data["instances"] = [
        request(rng, f"old{each}", (cores * threads, gib), plain=True) for each in range(count)
    ]
    return host_data


def request(rng, name, size, plain=False):
    """A request of about the size of a cell with so many CPUs and GiB."""
    cpus, gib = size
    scale = rng.choice([0.1, 0.1, 0.15, 0.2, 0.25] + ([] if plain else [0.25, 0.4, 0.6, 1.2]))
    vcpus = max(1, min(48, round(cpus * scale)))
    if vcpus > 1 and rng.random() < 0.8:
        vcpus -= vcpus % 2
    ram = max(1, round(gib * scale * rng.choice([0.25, 0.5, 0.5, 1]))) * 1024
    specs, image = {}, {}
    kind = rng.choice(["dedicated"] * 4 + ["mixed", "shared", "none", "none", "none"])
    if kind == "mixed" and vcpus < 2:
        kind = "dedicated"
    if kind == "mixed":
        specs["hw:cpu_policy"] = "mixed"
        specs["hw:cpu_dedicated_mask"] = rng.choice(["^0", "0", f"1-{vcpus - 1}"])
    elif kind == "dedicated" and rng.random() < 0.1:
        specs["resources:PCPU"] = str(vcpus)
    elif kind == "dedicated" and rng.random() < 0.2:
        image["hw_cpu_policy"] = "dedicated"
    elif kind in ("dedicated", "shared"):
        specs["hw:cpu_policy"] = kind
    if kind in ("dedicated", "mixed"):
        policy = rng.choice(
            [None, None, None, None, "prefer", "prefer", "prefer", "isolate", "require"]
        )
        if policy:
            specs["hw:cpu_thread_policy"] = policy
        if rng.random() < 0.2:
            specs["hw:emulator_threads_policy"] = rng.choice(["isolate", "isolate", "share"])
    nodes = rng.choice([None, None, None, 1, 2, 2, 4])
    if nodes and (vcpus % nodes or ram % nodes):
        nodes = 1
    if nodes:
        specs["hw:numa_nodes"] = str(nodes)
        if nodes == 2 and vcpus > 2 and ram > 2048 and rng.random() < 0.3:
            specs.update(
                {
                    "hw:numa_cpus.0": "0",
                    "hw:numa_cpus.1": f"1-{vcpus - 1}",
                    "hw:numa_mem.0": "1024",
                    "hw:numa_mem.1": str(ram - 1024),
                }
            )
    page = rng.choice(
        [
            None,
            None,
            None,
            None,
            None,
            "large",
            "large",
            "small",
            "any",
            "any",
            "2MB",
            "2048",
            "1GB",
        ]
    )
    if page:
        specs["hw:mem_page_size"] = page
        if page in ("large", "any") and rng.random() < 0.15:
            image["hw_mem_page_size"] = rng.choice(["2048", "1GB"])
    if rng.random() < (0.1 if plain else 0.2):
        alias = rng.choice(
            [
                "gpu",
                "gpu-near",
                "gpu-any",
                "gpu-socket",
                "some-gpu",
                "nvme",
                "vf",
                "vf",
                "vf-near",
                "pf",
                "qat",
            ]
        )
        specs["pci_passthrough:alias"] = f"{alias}:{rng.choice([1, 1, 1, 2])}"
        if rng.random() < 0.15:
            specs["hw:pci_numa_affinity_policy"] = rng.choice(
                ["required", "preferred", "legacy", "socket"]
            )
    if not plain and rng.random() < 0.04:
        # A request that contradicts itself.
        rng.choice(
            [
                lambda: specs.update({"hw:numa_nodes": "3"}),
                lambda: specs.update(
                    {"hw:cpu_policy": "shared", "hw:cpu_thread_policy": "require"}
                ),
                lambda: (
                    image.update(hw_cpu_policy="dedicated")
                    or specs.update({"hw:cpu_policy": "shared"})
                ),
                lambda: specs.update({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0"}),
                lambda: (
                    image.update(hw_mem_page_size="2048") or specs.pop("hw:mem_page_size", None)
                ),
            ]
        )()
    return {
        "name": name,
        "flavor": {"name": "f-" + name, "vcpus": vcpus, "ram": ram, "extra_specs": specs},
        "image": {"properties": image},
    }


def document(seed, hosts, requests):
    rng = random.Random(seed)
    made = [host(rng, number) for number in range(hosts)]
    sizes = [
        (max(1, max(len(cell["cpus"]), len(cell["pcpus"]))), max(1, cell["memory_mb"] // 1024))
        for each in made
        for cell in each["cells"][:1]
    ] or [(8, 32)]
    # Half of the fleet's middle: a request that fits small hosts fits large ones too.
    return {
        "hosts": made,
        "alias": ALIASES,
        "pack": rng.random() < 0.3,
        "requests": [request(rng, f"r{number}", rng.choice(sizes)) for number in range(requests)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--requests", type=int, default=12)
    options = parser.parse_args()
    print(json.dumps(document(options.seed, options.hosts, options.requests), sort_keys=True))


if __name__ == "__main__":
    main()

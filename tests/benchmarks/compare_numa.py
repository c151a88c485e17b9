# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our answers (numa.py) and Nova's (numa_peer.py --fresh): counts of differences in JSON.

    python tests/benchmarks/compare_numa.py DOCUMENT THEIRS OURS [DOCUMENT THEIRS OURS ...]

The document is the input of both; the answers are files of lines. The program compares: fits, why
(for a wrong request the name of Nova's exception), numa, placement, unplaced instances; for each
guest cell its host cell, memory, page size, shared vCPUs, and the number of used CPUs of each core;
for each PCI request its count, policy, and the number of devices of each pool. The first CPU of a
core depends on Python's sets in Nova, so it is not compared.
"""

from __future__ import annotations

import collections
import json
import sys


def parts(answer, cores):
    """Return the compared parts of an answer, by name."""
    reason = answer["why"]
    return {
        "fits": answer["fits"],
        "why": reason.split(":")[0] if reason else reason,
        "numa": answer["numa"],
        "placement": answer["placement"],
        "unplaced": answer.get("unplaced"),
        "cells": [
            {key: cell[key] for key in ("guest", "host", "memory_mb", "page_kb", "shared")}
            | {"vcpus": sorted(cell["pins"])}
            for cell in answer["cells"]
        ],
        "pins": [_by_core(cell["pins"].values(), cores) for cell in answer["cells"]],
        "reserved": [_by_core(cell["reserved"], cores) for cell in answer["cells"]],
        "pci": [
            {
                "count": each["count"],
                "policy": each["policy"],
                "pools": collections.Counter(device["pool"] for device in each["devices"]),
            }
            for each in answer["pci"]
        ],
    }


def _by_core(cpus, cores):
    return collections.Counter(cores.get(cpu, cpu) for cpu in cpus)


def cores_of(document):
    """Return {host: {cpu: number of its core}}."""
    return {
        host["name"]: {
            cpu: (cell["id"], number)
            for cell in host.get("cells") or ()
            for number, core in enumerate(cell.get("siblings") or ())
            for cpu in core
        }
        for host in document["hosts"]
    }


def differences(theirs, ours, cores):
    """Return the names of the differences between two answers to one request about one host."""
    if (theirs["request"], theirs["host"]) != (ours["request"], ours["host"]):
        return ["order"]
    one, other = (parts(each, cores.get(theirs["host"], {})) for each in (theirs, ours))
    return [name for name in one if one[name] != other[name]]


def main():
    counts = collections.Counter()
    shown = []
    names = sys.argv[1:]
    for document_name, theirs_name, ours_name in zip(names[::3], names[1::3], names[2::3]):
        with open(document_name) as file:
            cores = cores_of(json.load(file))
        with open(theirs_name) as theirs, open(ours_name) as ours:
            pairs = [[json.loads(line) for line in file] for file in (theirs, ours)]
        counts["documents"] += 1
        counts["missing"] += abs(len(pairs[0]) - len(pairs[1]))
        for their_answer, our_answer in zip(*pairs):
            counts["answers"] += 1
            counts["fit"] += their_answer["fits"]
            differing = differences(their_answer, our_answer, cores)
            counts["different"] += bool(differing)
            counts.update(f"different {name}" for name in differing)
            if differing and len(shown) < 20:
                shown.append(
                    {
                        "document": document_name,
                        "differs": differing,
                        "theirs": their_answer,
                        "ours": our_answer,
                    }
                )
    print(json.dumps({"counts": dict(sorted(counts.items())), "shown": shown}, indent=1))
    return 1 if counts["different"] or counts["missing"] or not counts["answers"] else 0


if __name__ == "__main__":
    sys.exit(main())

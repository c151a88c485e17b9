# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of Nova to many small cases, recorded for
tests/properties/scheduling/test_nova_vectors.py.

    PYTHONPATH=tests/peers NOVA/bin/python tests/benchmarks/numa_record.py <
    tests/peers/numa_vectors.json > tests/properties/scheduling/nova_vectors.json

The input is a list of cases with ``number``, ``host``, ``request`` (in words) and ``document``.
Nova runs again for each document; parts that are equal in many documents are written once.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import numa_peer


def place_of(value, known):
    """Return the place of a value in a list; add the value if it is missing."""
    if value not in known:
        known.append(value)
    return known.index(value)


def main():
    record = {
        "comment": (
            f"Answers of Nova {version('nova')}, each choice of cells tried afresh, recorded by"
            " tests/benchmarks/numa_record.py."
        ),
        "cells": [],
        "aliases": [],
        "cases": [],
    }
    for case in json.load(sys.stdin):
        document = case["document"]
        hosts = [
            {**host, "cells": [place_of(cell, record["cells"]) for cell in host["cells"]]}
            for host in document["hosts"]
        ]
        more = {key: document[key] for key in ("pack", "device_spec") if document.get(key)}
        more["alias"] = [
            place_of(alias, record["aliases"]) for alias in document.get("alias") or ()
        ]
        record["cases"].append(
            {
                "number": case["number"],
                "words": f"{case['host']}: {case['request']}",
                "document": {"hosts": hosts, "requests": document["requests"], **more},
                "answers": list(numa_peer.answers(document, fresh=True)),
            }
        )
    print(
        json.dumps(record, sort_keys=True, separators=(",", ":")).replace(
            '{"answers"', '\n{"answers"'
        )
    )


if __name__ == "__main__":
    main()

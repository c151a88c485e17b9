# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The allocation candidates of a file of queries over a file of providers, and the time for them.

    python tests/benchmarks/candidates.py --topology TOPOLOGY.json --queries QUERIES.json [--json
    OUT]
        [--store-url URL] [--repeat N]

The files come from the peers' gen_fleet.py; the output has the form of their ``placement_peer.py
run``. The topology replaces the providers of the store. Then each query goes through the code of
the lookup allocation_candidates, from an opened store to the answer. Times are in milliseconds, the
median of --repeat runs. Without --store-url the store is a temporary file.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
    import conftest  # noqa: F401  pylint: disable=unused-import

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement.candidates import (
    query_string,
    response,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.benchmarks import topology_file


def ask(store, names, text, repeat=1):
    """Answer one query: return its answer as the peer writes it, with names for uuids, and its
    times."""
    wall, cpu = [], []
    for _run in range(repeat):
        start, used = time.perf_counter(), time.process_time()
        try:
            with store.read() as connection:
                answer, problem = response.answer(connection, query_string.parse(text)), None
        except DroverError as refusal:
            answer, problem = None, str(refusal)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    times = {
        "query": text,
        "ms": round(statistics.median(wall) * 1000, 3),
        "cpu_ms": round(statistics.median(cpu) * 1000, 3),
    }
    if problem:
        return {**times, "status": 400, "errors": [{"status": 400, "detail": problem}]}
    return {
        **times,
        "status": 200,
        "count": len(answer["allocation_requests"]),
        **named_by(answer, names),
    }


def named_by(found, names):
    """Return an answer with names for uuids, in an order that is equal for two stores."""
    requests = [
        {
            "allocations": {
                names[uuid]: each["resources"] for uuid, each in request["allocations"].items()
            },
            "mappings": {
                suffix: sorted(names[uuid] for uuid in uuids)
                for suffix, uuids in request["mappings"].items()
            },
        }
        for request in found["allocation_requests"]
    ]
    requests.sort(key=lambda request: json.dumps(request, sort_keys=True))
    summaries = {
        names[uuid]: {
            "resources": each["resources"],
            "traits": sorted(each["traits"]),
            "parent": names.get(each["parent_provider_uuid"]),
            "root": names[each["root_provider_uuid"]],
        }
        for uuid, each in found["provider_summaries"].items()
    }
    return {"allocation_requests": requests, "provider_summaries": summaries}


def run(store, topology, queries, repeat=1):
    """Load a topology, then empty the mapping; answer its queries, each a text or {"query":
    text}.
    """
    start = time.perf_counter()
    topology_file.load(store, topology)
    spent = time.perf_counter() - start
    names = names_of(topology)
    # The time of the answers must not include the loading.
    topology.clear()
    texts = [each if isinstance(each, str) else each["query"] for each in queries]
    return {
        "providers": len(names),
        "load_seconds": {"total": spent},
        "queries": [ask(store, names, text, repeat) for text in texts],
        "claims": [],
    }


def names_of(topology):
    """Return {uuid: name} of a topology file."""
    return {each["uuid"]: each["name"] for each in topology["providers"]}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topology", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--json", default="-", metavar="OUT")
    parser.add_argument("--store-url")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    topology, queries = (
        json.loads(pathlib.Path(name).read_text()) for name in (options.topology, options.queries)
    )
    with tempfile.TemporaryDirectory(prefix="drover-candidates-") as folder:
        store = Store.open(options.store_url or f"sqlite:///{folder}/store.db")
        found = run(store, topology, queries, options.repeat)
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    if options.json == "-":
        sys.stdout.write(text)
    else:
        pathlib.Path(options.json).write_text(text)


if __name__ == "__main__":
    main()

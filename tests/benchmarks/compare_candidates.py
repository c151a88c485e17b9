# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our allocation candidates against recorded answers of Placement (placement_answers.py), as sets.

    python tests/benchmarks/compare_candidates.py ANSWERS ...

Every answer, requests with mappings and summaries, must be equal to the answer of Placement with
its merging repaired. If the unchanged Placement returns less, our answer must contain all of it;
the program counts these cases.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
    import conftest  # noqa: F401  pylint: disable=unused-import

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.benchmarks import candidates, topology_file


def differences(theirs, ours):
    """Return the differences between two answers to one query, as a list of texts."""
    if theirs["status"] != ours["status"]:
        return [f"status {theirs['status']} there, {ours['status']} here: {ours.get('errors')}"]
    if theirs["status"] != 200:
        return []
    texts = []
    their_set, our_set = as_set(theirs), as_set(ours)
    texts += [f"missing {each}" for each in sorted(their_set - our_set)] + [
        f"extra {each}" for each in sorted(our_set - their_set)
    ]
    if len(our_set) != len(ours["allocation_requests"]):
        texts.append("a request came twice")
    summaries = theirs["provider_summaries"], ours["provider_summaries"]
    for name in sorted(set(summaries[0]) | set(summaries[1])):
        one, other = (each.get(name) for each in summaries)
        if one != other:
            texts.append(f"summary of {name}: {one} there, {other} here")
    return texts


def lost(asis, ours):
    """Return the number of requests that the unchanged Placement leaves out; None if it returns a
    request that we do not."""
    if asis["status"] != ours["status"]:
        return None
    if asis["status"] != 200:
        return 0
    their_set, our_set = as_set(asis), as_set(ours)
    shown = ours["provider_summaries"]
    if their_set - our_set or any(
        shown.get(name) != each for name, each in asis["provider_summaries"].items()
    ):
        return None
    return len(our_set - their_set)


def as_set(one):
    return {json.dumps(request, sort_keys=True) for request in one["allocation_requests"]}


def main():
    topologies = queries = wrong = less = left_out = refused = empty = 0
    with tempfile.TemporaryDirectory(prefix="drover-candidates-") as folder:
        store = Store.open(f"sqlite:///{folder}/store.db")
        for name in sys.argv[1:]:
            with open(name) as lines:
                for line in lines:
                    case = json.loads(line)
                    topologies += 1
                    topology_file.load(store, case["topology"])
                    names = candidates.names_of(case["topology"])
                    for asis, mended in zip(case["asis"], case["mended"]):
                        mended = mended or asis
                        queries += 1
                        ours = candidates.ask(store, names, mended["query"])
                        refused += ours["status"] == 400
                        empty += ours.get("count") == 0
                        texts = differences(mended, ours)
                        without = lost(asis, ours)
                        if without is None:
                            texts.append("Placement as it is says something else")
                        elif without:
                            less, left_out = less + 1, left_out + without
                        if texts:
                            wrong += 1
                            print(f"{case['kind']} {case['seed']}: {mended['query']}")
                            print("\n".join(f"    {each}" for each in texts[:5]))
    print(
        f"{topologies} topologies, {queries} queries ({refused} refused, {empty} without a"
        f" candidate): {wrong} differ. Placement as it is leaves out {left_out} requests of {less}"
        " queries."
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Placement's answers over many small topologies, by one process. Run with Placement's
Python.

    python placement_answers.py --peers FOLDER --kind KIND --first N --count N --queries N -o OUT

Topology N of a kind has 4 to 20 roots and comes, like its queries, from the peers' gen_fleet.py
with seed N. Each query is answered by the unchanged Placement ("asis"), and by Placement with one
defect repaired ("mended", null if that makes no difference). The defect: Placement merges equal
partial allocation requests of different anchors. So for a group that one sharing provider satisfies
alone, only one anchor is left, and the other groups lose all other trees.
"""

import argparse
import json
import sys
import tempfile


def mend():
    """Make Placement distinguish partial requests of different anchors; return a function that
    undoes it."""
    from placement.objects.allocation_candidate import AllocationRequest

    equal, hashed = AllocationRequest.__eq__, AllocationRequest.__hash__
    AllocationRequest.__eq__ = lambda one, other: (
        equal(one, other) and one.anchor_root_provider_uuid == other.anchor_root_provider_uuid
    )
    AllocationRequest.__hash__ = lambda one: hash((hashed(one), one.anchor_root_provider_uuid))

    def undo():
        AllocationRequest.__eq__, AllocationRequest.__hash__ = equal, hashed

    return undo


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", required=True)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--queries", type=int, default=10)
    parser.add_argument("-o", "--out", required=True)
    options = parser.parse_args()
    sys.path.insert(0, options.peers)
    import gen_fleet
    import placement_peer

    with tempfile.TemporaryDirectory(prefix="placement-") as folder, open(options.out, "w") as out:
        app = placement_peer.PlacementApp(f"sqlite:///{folder}/placement.db")
        for seed in range(options.first, options.first + options.count):
            topology = gen_fleet.make_topology(options.kind, 4 + seed % 17, seed)
            queries = gen_fleet.make_queries(topology, options.queries, seed)
            placement_peer.reset(app)
            forget_traits()
            placement_peer.load_bulk(app, topology)
            names = placement_peer.provider_names(app)
            asis = [placement_peer.ask(app, query, names) for query in queries]
            undo = mend()
            # Only a query with both kinds of groups has partial requests to merge.
            mended = [
                (
                    placement_peer.ask(app, query, names)
                    if "resources=" in query and "resources_" in query
                    else None
                )
                for query in queries
            ]
            undo()
            for answer in mended:
                # The last merge is intended: equal whole requests are one.
                if answer and answer["status"] == 200:
                    answer["allocation_requests"] = unlike(answer["allocation_requests"])
                    answer["count"] = len(answer["allocation_requests"])
            json.dump(
                {
                    "kind": options.kind,
                    "seed": seed,
                    "topology": topology,
                    "asis": asis,
                    "mended": mended,
                },
                out,
            )
            out.write("\n")


def forget_traits():
    """Remove the custom traits, which the peers' reset leaves."""
    from placement import db_api
    from placement.db.sqlalchemy import models

    with db_api.get_placement_engine().begin() as connection:
        table = models.Trait.__table__
        connection.execute(table.delete().where(table.c.name.like("CUSTOM\\_%", escape="\\")))


def unlike(requests):
    found = {json.dumps(each, sort_keys=True): each for each in requests}
    return [found[key] for key in sorted(found)]


if __name__ == "__main__":
    sys.exit(main())

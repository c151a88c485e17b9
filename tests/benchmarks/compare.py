# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the outputs of two schedulers over the same fleet and requests.

    python tests/benchmarks/compare.py NOVA.json OURS.json

Two decisions are equal if they have the same hosts, or hosts of equal weight (to 1e-9), the same
number of hosts that passed, the same weights in the same order, and for one instance the same
alternates. The program prints the differences and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import sys

CLOSE = 1e-9


def close(one, other):
    return abs(one - other) <= CLOSE * max(1.0, abs(one), abs(other))


def differences(theirs, ours):
    """Return the differences between two results of one request, as texts."""
    texts = []
    if bool(theirs.get("error")) != bool(ours.get("error")):
        return [f"one failed: {theirs.get('error')} / {ours.get('error')}"]
    if theirs.get("error") and not theirs["weighed"]:
        return []
    if theirs["passed"] != ours["passed"]:
        texts.append(f"passed {theirs['passed']} / {ours['passed']}")
    if len(theirs["weighed"]) != len(ours["weighed"]):
        texts.append(f"weighed {len(theirs['weighed'])} / {len(ours['weighed'])}")
    for place, (one, other) in enumerate(zip(theirs["weighed"], ours["weighed"])):
        if not close(one["weight"], other["weight"]):
            texts.append(f"weight {place}: {one} / {other}")
            break
    mine = {(each["host"], each["node"]): each["weight"] for each in ours["weighed"]}
    for entry in theirs["weighed"]:
        weight = mine.get((entry["host"], entry["node"]))
        # The last places of the list may be a tie, and each scheduler shows another host of it.
        if weight is None and not close(entry["weight"], theirs["weighed"][-1]["weight"]):
            texts.append(f"{entry} is not in our list")
        elif weight is not None and not close(weight, entry["weight"]):
            texts.append(f"{entry} weighs {weight} here")
    if theirs["chosen"] != ours["chosen"]:
        weights = {each["host"]: each["weight"] for each in theirs["weighed"]}
        for one, other in zip(theirs["chosen"], ours["chosen"]):
            if one != other and not (
                one in weights and other in weights and close(weights[one], weights[other])
            ):
                texts.append(f"chosen {theirs['chosen']} / {ours['chosen']}")
                break
    return texts + alternates(theirs, ours)


def alternates(theirs, ours):
    """Return the differences between the alternates of a request for one instance; alternates of a
    batch differ on purpose."""
    one, other = theirs.get("alternates"), ours.get("alternates")
    if one is None or other is None or len(one) != 1 or theirs["chosen"] != ours["chosen"]:
        return []
    weights = {each["host"]: each["weight"] for each in theirs["weighed"] + ours["weighed"]}
    alike = len(one[0]) == len(other[0]) and all(
        mine == his or (mine in weights and his in weights and close(weights[mine], weights[his]))
        for mine, his in zip(one[0], other[0])
    )
    return [] if alike else [f"alternates {one[0]} / {other[0]}"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("theirs")
    parser.add_argument("ours")
    arguments = parser.parse_args()
    with open(arguments.theirs) as file:
        theirs = json.load(file)
    with open(arguments.ours) as file:
        ours = json.load(file)
    wrong = 0
    for one, other in zip(theirs["results"], ours["results"]):
        found = differences(one, other)
        wrong += bool(found)
        for text in found:
            print(f"request {one['index']}: {text}")
    print(
        f"{len(theirs['results']) - wrong} of {len(theirs['results'])} requests decided alike"
        f" ({len(ours['results'])} here)"
    )
    return 1 if wrong or len(theirs["results"]) != len(ours["results"]) else 0


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines and warnings of a discovery for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .._store.instances import went_down
from .._tracker.facts import KvmFacts

#: Lists of a record for people to look at, with their words.
TO_LOOK_AT = {
    "missing": "missing here",
    "stale": "evacuated and still defined here",
    "doubled": "on several hosts",
    "unreported": "compute nodes no longer reported",
}


def lines(host: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines with instances and nodes that a person must look at or start.

    :param found: the result of record.record().
    """
    names = {
        each: [name["name"] if isinstance(name, dict) else name for name in found[each]]
        for each in TO_LOOK_AT
    }
    parts = [f"{TO_LOOK_AT[each]}: {', '.join(names[each])}" for each in TO_LOOK_AT if names[each]]
    if parts:
        yield f"{host}: {'; '.join(parts)}"
    if found["went_down"]:
        yield from went_down.sentences({host: found["went_down"]})


def doubled(instances: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a message for each doubled domain, and one for nodes that are the same machine."""
    sentences: list[str] = []
    shared: dict[tuple[str, ...], list[str]] = {}
    for instance in instances:
        if instance["one_machine"]:
            shared.setdefault(tuple(instance["nodes"]), []).append(instance["name"])
        else:
            where = " and ".join(
                f"{node} ({instance['states'][node]})" for node in instance["nodes"]
            )
            sentences.append(
                f"{instance['name']} is on {where}, as each host was last read. Nothing was done"
                " about it. Run drover.compute.discover, for it may have moved. If the result is"
                " the same, destroy and undefine the wrong one, but keep its disks, which the"
                " other may use."
            )
    for nodes, names in shared.items():
        sentences.append(
            f"{' and '.join(nodes)} have the same host_uuid and show the same domains:"
            f" {', '.join(names)}. If it is one machine under two names, destroy nothing: take the"
            " wrong name out of the inventory, and run ansible-playbook drover.compute.host_remove"
            " -e drover_host=THE-WRONG-NAME -e drover_new_name=THE-RIGHT-NAME, then"
            " drover.compute.discover. If they are two machines, give each a host_uuid of its own"
            " in libvirtd.conf."
        )
    return sentences


def policy(sentence: str) -> str:
    """Return the warning about a policy that cannot be read."""
    return f"{sentence} It is not moved until its metadata is corrected."


def no_kvm(host: str, probed: KvmFacts) -> Iterator[str]:
    """Yield a warning if a host offers KVM but no guest starts with it."""
    if probed.get("offered") and probed.get("works") is False:
        yield (
            f"Host {host} offers KVM, but no guest starts with it: {probed.get('message')}. Set its"
            " drover_cpu, such as mode: custom and model: qemu64, or its drover_domain_type: qemu;"
            " or repair its virtualisation."
        )

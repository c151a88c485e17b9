# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One walk over the reports of a discovery, which gives each writer of the record its part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._common.errors import DroverError, node_label
from .._store.instances.files import Use
from .domain import DomainReport, needs
from .node import NodeKey, NodeReport, NodeRows
from .record_sharing import SharedParts


class Walk:
    """The reports of hosts after the walk. All parts are by (host, hypervisor_hostname) or host.

    :param before: the nodes of these hosts at their last discovery.
    :raises DroverError: reports of one host, or the pools of several, contradict each other.
    """

    def __init__(self, reports: Mapping[str, Sequence[NodeReport]], before: NodeRows) -> None:
        self.nodes: dict[NodeKey, NodeReport] = {}
        self.names: dict[NodeKey, str] = {}
        self.zones: dict[str, str] = {}
        self.labels: dict[str, dict[str, str]] = {}
        #: The domains by uuid, and the files that each needs.
        self.domains: dict[NodeKey, dict[str, DomainReport]] = {}
        self.files: dict[NodeKey, dict[str, set[Use]]] = {}
        for host, nodes in reports.items():
            for node in nodes:
                key = (host, node["hypervisor_hostname"])
                if key in self.nodes:
                    raise _double(*key)
                self.nodes[key] = node
        for (host, _name), node in sorted(self.nodes.items()):
            zone = node["availability_zone"]
            if zone and self.zones.setdefault(host, zone) != zone:
                raise _two_zones(host, self.zones[host], zone)
            if self.labels.setdefault(host, node["labels"]) != node["labels"]:
                raise _two_sets_of_labels(host)
        for key, node in self.nodes.items():
            facts = node["columns"]["facts"]
            domains = {each["columns"]["uuid"]: each for each in node["domains"]}
            self.domains[key] = domains
            self.files[key] = {uuid: needs(each, facts) for uuid, each in domains.items()}
            # The name of the provider is the name of the node if host and node have the same name;
            # else it has both names.
            self.names[key] = node_label(*key)
        self.shared = SharedParts()
        for (host, name), node in sorted(self.nodes.items()):
            row = before.get((host, name))
            self.shared.add(host, node, row.facts if row is not None else None)


def _double(host: str, name: str) -> DroverError:
    return DroverError(
        f"Host {host} reports two compute nodes named {name}. A compute node is unique by host and "
        "hypervisor_hostname: give each its own, and nothing was recorded."
    )


def _two_zones(host: str, one: str, other: str) -> DroverError:
    return DroverError(
        f"Host {host} would be in two availability zones, {one} and {other}. Its compute nodes"
        " share one: correct availability_zone of its nodes; nothing was recorded."
    )


def _two_sets_of_labels(host: str) -> DroverError:
    return DroverError(
        f"Host {host} would have two sets of labels. Its compute nodes share one: correct labels of"
        " its nodes; nothing was recorded."
    )

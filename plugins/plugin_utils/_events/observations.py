# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observations of hosts and their domains, each with its time (seconds since 1970), and the records
of the store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import NamedTuple

#: States of a domain. A domain that is GONE is not defined on that host.
RUNNING, PAUSED, SHUTOFF, GONE = "running", "paused", "shutoff", "gone"
#: Reasons of a state; all other reasons have no meaning here.
CRASHED, IO_ERROR, MIGRATED, SHUTDOWN, DESTROYED = (
    "crashed",
    "io_error",
    "migrated",
    "shutdown",
    "destroyed",
)
#: A reason of GONE: the definition was removed. A domain that was running then continues to run.
UNDEFINED = "undefined"


class ObservedDomain(NamedTuple):
    """A domain in the form that its host shows."""

    uuid: str
    name: str
    state: str
    reason: str = ""


class HostConnected(NamedTuple):
    """The libvirt of a host answers, and has these domains. A poll repeats it."""

    host: str
    at: float
    domains: list[ObservedDomain]


class HostLost(NamedTuple):
    """The libvirt of a host does not answer."""

    host: str
    at: float
    words: str


class HostAnswered(NamedTuple):
    """The reaction to SSH and TCP of a host with a libvirt that does not answer, see
    host_answer.Answer.
    """

    host: str
    at: float
    means: str
    words: str
    refusal: str = ""


class DomainChanged(NamedTuple):
    """A domain of a host has another state."""

    host: str
    at: float
    domain: ObservedDomain


Observation = HostConnected | HostLost | HostAnswered | DomainChanged


@dataclasses.dataclass(frozen=True)
class View:
    """The state of the store at a moment; empty without a store."""

    #: {host that may be down on purpose: the reason}.
    quiet: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Hosts with a working run of drover.compute.
    busy_hosts: Collection[str] = frozenset()
    #: Instances with an open order or migration.
    busy_instances: Collection[str] = frozenset()
    #: {uuid: (host, True if it runs)}, of the requested instances.
    recorded: Mapping[str, tuple[str, bool]] = dataclasses.field(default_factory=dict)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of hosts and their domains, each with its time (seconds since 1970), and what the store knows beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import NamedTuple

#: States of a domain. A domain that is GONE is not defined on that host.
RUNNING, PAUSED, SHUTOFF, GONE = "running", "paused", "shutoff", "gone"
#: Reasons of a state; all others mean nothing here.
CRASHED, IO_ERROR, MIGRATED, SHUTDOWN, DESTROYED = "crashed", "io_error", "migrated", "shutdown", "destroyed"
#: Of GONE: its definition was removed. A domain that runs then runs on.
UNDEFINED = "undefined"


class Domain(NamedTuple):
    """A domain as its host shows it."""

    uuid: str
    name: str
    state: str
    reason: str = ""


class Connected(NamedTuple):
    """The libvirt of a host answers, and has these domains. Repeated by a poll."""

    host: str
    at: float
    domains: list[Domain]


class Lost(NamedTuple):
    """The libvirt of a host does not answer."""

    host: str
    at: float
    words: str


class Answered(NamedTuple):
    """How a host whose libvirt does not answer reacts to SSH and TCP: as of host_answer.Answer."""

    host: str
    at: float
    means: str
    words: str
    refusal: str = ""


class Changed(NamedTuple):
    """A domain of a host has another state."""

    host: str
    at: float
    domain: Domain


Observation = Connected | Lost | Answered | Changed


@dataclasses.dataclass(frozen=True)
class View:
    """What the store says at a moment; empty where there is none."""

    #: {host that may be down on purpose: why}.
    quiet: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Hosts on which a run of drover.compute works.
    busy_hosts: Collection[str] = frozenset()
    #: Instances with an open order or migration.
    busy_instances: Collection[str] = frozenset()
    #: {uuid: (host, whether it runs)}, of the instances that were asked for.
    recorded: Mapping[str, tuple[str, bool]] = dataclasses.field(default_factory=dict)

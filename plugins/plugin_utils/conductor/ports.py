# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of the conductor: what it reaches the world by. The border to Ansible implements them; so does a simulation."""

from __future__ import annotations

import typing


class Hosts(typing.Protocol):
    """The hypervisors of the inventory."""

    def discover(self, host: str, limit: int | None = None) -> dict:
        """Read a host and record it in the store.

        :param limit: seconds that it may take.
        :returns: what the module compute_node returns: nodes, and occupants (see store.occupancy.occupants).
        :raises Unreachable: the host cannot be reached.
        :raises Late: it did not answer in time.
        :raises DroverError: it was reached and could not be read; its details have ``answers`` where its libvirt answers all the same.
        """

    def hand(self, host: str, limit: int | None = None) -> typing.Any:
        """The way to run modules on a host: remote_module.Hand, or what answers like it.

        :param limit: seconds that each call may take.
        """

    def answer(self, host: str) -> typing.Any:
        """How a host answers this controller, whatever its libvirt does: planner.host_answer.Answer."""

    def variables(self, host: str) -> typing.Mapping:
        """The variables of a host in the inventory; none where it is not there."""


class Clock(typing.Protocol):
    """The module time is one."""

    def time(self) -> float: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class Ports(typing.NamedTuple):
    """All of them, as a run has them.

    store: an open Store. leasing: leasing.Leasing. say: a function (line) for the person who watches.
    """

    store: typing.Any
    hosts: Hosts
    leasing: typing.Any
    say: typing.Callable[[str], None]
    clock: Clock

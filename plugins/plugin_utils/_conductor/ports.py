# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of the conductor to the world.

The border to Ansible implements them, and so does a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

from .._common.certainty import Answer
from .._common.errors import DroverError
from .._evacuation import host_answer
from .._records.hosts import Occupants
from .._records.outcomes import DomainLook
from .._store.engine import Store
from .._store.runs import leases
from .leasing import Leasing
from .own_machines import OwnMachines
from .under_way import UnderWay

if TYPE_CHECKING:
    # Python 3.10 has no NotRequired in typing.
    from typing_extensions import NotRequired


class Discovery(TypedDict):
    """The result of the module compute_node for a host, as far as the conductor uses it."""

    occupants: Occupants
    changed: NotRequired[bool]


class Hand(Protocol):
    """The way to run modules on one host.

    Each call raises DroverError if the run may begin nothing more.
    """

    def reach(self) -> None:
        """Check that the host answers, before anything is begun there.

        :raises Unreachable: it does not answer.
        """

    def read(self, module: str, args: Mapping[str, object]) -> dict[str, Any]:
        """Run a module that changes nothing.

        :returns: its result, also of a failure.
        :raises Unreachable: the host cannot be reached.
        :raises Late: it did not answer in time.
        """

    def foretell(self, module: str, args: Mapping[str, object]) -> dict[str, Any]:
        """Run a module in check mode; returns and errors as in read()."""

    def act(self, module: str, args: Mapping[str, object]) -> Answer:
        """Run a module that may change the host."""

    def look(
        self, uri: str, orders: Mapping[str, Iterable[str]], patience: int
    ) -> Mapping[str, DomainLook | None]:
        """Withdraw orders, and look at the domains of their instances.

        :param uri: the URI of libvirt there.
        :param orders: dict uuid of an instance -> orders that must not begin any more.
        :param patience: seconds to wait for a call that works on one of the instances.
        :returns: dict uuid -> the answer of the host; None if it did not answer.
        """


class Hosts(Protocol):
    """The hypervisors of the inventory."""

    def discover(self, host: str, limit: int | None = None) -> Discovery:
        """Read a host and record it in the store.

        :param limit: seconds that the discovery may take.
        :raises Unreachable: the host cannot be reached.
        :raises Late: it did not answer in time.
        :raises Answers: its libvirt answers, with facts that cannot be used.
        :raises DroverError: it was reached but could not be read.
        """

    def hand(self, host: str, limit: int | None = None) -> Hand:
        """Return the way to run modules on a host.

        :param limit: seconds that each call may take.
        """

    def at_once(
        self, questions: Mapping[str, Callable[[Hand], dict[str, Any]]], limit: int
    ) -> dict[str, dict[str, Any] | DroverError]:
        """Put a question to each of several hosts, at the same time. The questions change nothing.

        :param questions: dict host -> function. It may run in another process, without the store,
            and returns plain types.
        :param limit: seconds that each call of a host may take.
        :returns: dict host -> the result of its function, or the DroverError of a host that does
            not answer.
        """

    def answer(self, host: str) -> host_answer.HostAnswer:
        """Return the answer of a host to this controller, independent of its libvirt."""

    def names(self) -> list[str]:
        """Return the names of all hypervisors of the inventory, also beyond the limit of a run."""

    def variables(self, host: str) -> Mapping[str, Any]:
        """Return the variables of a host in the inventory; empty without such a host."""


class Clock(Protocol):
    """A clock. The module time is one."""

    def time(self) -> float: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


class StartRules(NamedTuple):
    """The rules of a check before an instance starts.

    - absent: hosts that do not answer and that a person names: such a host has no instance that
      starts.
    - max_age: seconds that the last look at a host stays valid in a fleet of more than 100 hosts.
    """

    absent: frozenset[str] = frozenset()
    max_age: int = 900


class Ports(NamedTuple):
    """All ports of a run.

    - say: show a line to the operator.
    - own: the machines that the run itself needs.
    - under_way: the work that continues after the end of the run.
    """

    store: Store
    hosts: Hosts
    leasing: Leasing
    say: Callable[[str], None]
    clock: Clock
    start_rules: StartRules = StartRules()
    own: OwnMachines = OwnMachines()
    under_way: UnderWay = UnderWay()


class DiscoveryPorts(NamedTuple):
    """The ports of a discovery.

    - hand: the way to run modules on the host.
    - actor: a function that returns the holder of leases of this task; it raises DroverError if the
      playbook has ended.
    - say: show a line to the operator.
    - limit: seconds that the task may take; 0 without a limit.
    """

    store: Store
    hand: Hand
    hosts: Hosts
    actor: Callable[[], leases.Actor]
    say: Callable[[str], None]
    clock: Clock
    limit: int = 0

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of the conductor: what it reaches the world by. The border to Ansible implements them; so does a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

from .._common.certainty import Answer
from .._common.errors import DroverError
from .._planner import host_answer
from .._records.hosts import Occupants
from .._records.outcomes import DomainLook
from .._store.engine import Store
from .leasing import Leasing
from .own_machines import OwnMachines
from .under_way import UnderWay

if TYPE_CHECKING:
    # Python 3.10 does not have it in typing.
    from typing_extensions import NotRequired


class Discovery(TypedDict):
    """What the module compute_node returns of a host that was read, as far as the conductor uses it."""

    occupants: Occupants
    changed: NotRequired[bool]


class Hand(Protocol):
    """The way to run modules on one host. Each call raises DroverError where nothing may be begun any more."""

    def reach(self) -> None:
        """See that the host answers, before anything is begun there.

        :raises Unreachable: it does not.
        """

    def read(self, module: str, args: dict[str, Any]) -> dict[str, Any]:
        """Run a module that changes nothing.

        :returns: its result, a failure included.
        :raises Unreachable: the host cannot be reached.
        :raises Late: it did not answer in time.
        """

    def foretell(self, module: str, args: dict[str, Any]) -> dict[str, Any]:
        """Run a module in check mode; the rest as of read()."""

    def act(self, module: str, args: dict[str, Any]) -> Answer:
        """Run a module that may change the host."""

    def look(self, uri: str, orders: Mapping[str, Iterable[str]], patience: int) -> Mapping[str, DomainLook | None]:
        """Withdraw orders and look what is there of their instances.

        :param uri: of libvirt there.
        :param orders: dict uuid of an instance -> orders that may not begin any more.
        :param patience: seconds to wait for a call that works on one of them.
        :returns: dict uuid -> what the host shows, None where it did not answer.
        """


class Hosts(Protocol):
    """The hypervisors of the inventory."""

    def discover(self, host: str, limit: int | None = None) -> Discovery:
        """Read a host and record it in the store.

        :param limit: seconds that it may take.
        :raises Unreachable: the host cannot be reached.
        :raises Late: it did not answer in time.
        :raises DroverError: it was reached and could not be read; its details have ``answers`` where its libvirt answers all the same.
        """

    def hand(self, host: str, limit: int | None = None) -> Hand:
        """Return the way to run modules on a host.

        :param limit: seconds that each call may take.
        """

    def at_once(self, questions: Mapping[str, Callable[[Hand], dict[str, Any]]], limit: int) -> dict[str, dict[str, Any] | DroverError]:
        """Ask several hosts at the same time, each its question, which changes nothing.

        :param questions: dict host -> function. It may run in another process, without the store, and returns plain types.
        :param limit: seconds that each call of a host may take.
        :returns: dict host -> what its function returned, or the DroverError of a host that does not answer.
        """

    def answer(self, host: str) -> host_answer.Answer:
        """Find out how a host answers this controller, whatever its libvirt does."""

    def names(self) -> list[str]:
        """Return the names of all hypervisors of the inventory, whatever part of it a run is limited to."""

    def variables(self, host: str) -> Mapping[str, Any]:
        """Return the variables of a host in the inventory; none where it is not there."""


class Clock(Protocol):
    """The module time is one."""

    def time(self) -> float: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


class StartRules(NamedTuple):
    """What counts before an instance starts.

    - absent: hosts that do not answer and that a person names: nothing that starts may be there.
    - max_age: seconds for which the last look at a host counts in a fleet of more than 100 hosts.
    """

    absent: frozenset[str] = frozenset()
    max_age: int = 900


class Ports(NamedTuple):
    """All of them, as a run has them.

    say: show a line to the person who watches. own: the machines that the run needs itself. under_way: what goes on by itself if the run ends.
    """

    store: Store
    hosts: Hosts
    leasing: Leasing
    say: Callable[[str], None]
    clock: Clock
    start_rules: StartRules = StartRules()
    own: OwnMachines = OwnMachines()
    under_way: UnderWay = UnderWay()

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resize of instances, and its confirmation or revert: its order, one instance after the other.

A Resize has the whole state of its run. Each step is in the store before it is done. If a run is
killed, the next one continues the open resize. A cold migration is a resize to the same size on
another host.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, NoReturn, ParamSpec

from .._common import certainty
from .._common.errors import DroverError, TimeOver
from .._records import orders
from .._records.instances import NamedInstance
from .._store.hosts import continuity
from .._store.instances import instance_lookup
from .ports import Ports
from .progress import MENTION, pause
from .removing import Removing
from .resize_steps import ResizeSteps, StepResult
from .settings import ResizeSettings

#: The ends of a resize.
CONFIRM, REVERT = "confirm", "revert"
#: The beginning of a refusal, by the ending; None for a resize.
NOT_DONE = {
    None: "It is not resized",
    CONFIRM: "Its resize is not confirmed",
    REVERT: "Its resize is not reverted",
}
#: Seconds of a lease beyond the time that its work may take.
SPARE = 300

#: A change: (name of an instance, before, after).
Difference = tuple[str, Mapping[str, object], Mapping[str, object]]
More = ParamSpec("More")


class LeftOpen(DroverError):
    """The place of an instance, or the right to work on it, is uncertain. Nothing is undone."""


@dataclasses.dataclass(frozen=True)
class ResizeRequest:
    """The request of the operator.

    - instances: names, uuids, or mappings of both.
    - size: the new size; None to resize nothing.
    - ending: CONFIRM, REVERT or None.
    - host: the destination; None to choose one.
    """

    instances: Sequence[Any]
    settings: ResizeSettings
    size: orders.NewSize | None = None
    ending: str | None = None
    host: str | None = None


class ResizeRun:
    """One run of a resize."""

    def __init__(self, ports: Ports, request: ResizeRequest) -> None:
        self.request, self._settings = request, request.settings
        self._store, self._hosts, self._leasing, self._say = (
            ports.store,
            ports.hosts,
            ports.leasing,
            ports.say,
        )
        self._steps, self._own = ResizeSteps(ports, request.settings), ports.own
        self._removing = Removing(ports)
        #: The failures, a sentence for each instance.
        self.failed: list[str] = []
        #: Uuids of instances with a failed resize, so that nothing can be confirmed.
        self.stuck: set[str] = set()
        #: The resizes in their present state, by the uuid of the instance.
        self.resizes: dict[str, orders.Resize] = {}
        self.differences: list[Difference] = []
        self.changed = False

    def run(self) -> dict[str, object]:
        """Resize the instances, and end their resizes.

        :returns: a dict: changed, resizes.
        :raises DroverError: an instance was not resized, or its resize was not ended; the others
            were.
        """
        if self.request.size is None and self.request.ending is None:
            raise DroverError(
                "Nothing was done, because no new size is given. Set drover_flavor to a flavor, or"
                " set drover_vcpus, drover_memory_mb or drover_disk_gb. To end an earlier resize,"
                " set drover_resize to confirm or revert."
            )
        instance_lookup.refuse_none(self.request.instances)
        with self._store.read() as connection:
            instances = instance_lookup.find(connection, self.request.instances)
        if self.request.size is not None:
            self.resize(instances)
        if self.request.ending is not None:
            self.end(instances)
        result: dict[str, object] = {
            "changed": self.changed,
            "resizes": list(self.resizes.values()),
        }
        if self.failed:
            raise DroverError(" ".join(self.failed), **result)
        return result

    # The resize

    def resize(self, instances: Iterable[NamedInstance]) -> None:
        """Resize instances; a failure stops no other instance."""
        for instance in instances:
            with self._note_failure(instance):
                self._resize(instance)

    def _resize(self, instance: NamedInstance) -> None:
        source = instance["migration"]["source"] if instance["migration"] else instance["host"]
        self._own.refuse_stop([instance], "It is not resized")
        self._refuse_unread(instance, None)
        with self._hold_leases([source] if source else [], f"resize of {instance['name']}"):
            begun = self._steps.begin(
                *self._steps.find(instance_lookup.as_named(instance)),
                self.request.size,
                self.request.host,
            )
            self._note_difference(instance["name"], begun)
            if begun.resize is None and not begun.changed:
                self._say(
                    f"{instance['name']}: it has that size on {instance['host']} already, so it is"
                    " not resized."
                )
            if self._settings.check_mode and begun.changed and begun.resize is not None:
                self._say(_foreseen(begun.resize))
            if begun.changed and begun.resize is not None and not self._settings.check_mode:
                self._carry_out(begun.resize)

    def _carry_out(self, resize: orders.Resize) -> None:
        name, source, destination = resize["name"], resize["source"], resize["destination"]
        with self._hold_leases([] if resize["same_host"] else [destination], f"resize of {name}"):
            try:
                self._take_step(self._steps.leave, resize)
                if not resize["same_host"] and resize["status"] != "finished":
                    self._move_domain(
                        self._read_resize(resize)["order"], source, resize["source_uri"]
                    )
            except LeftOpen:
                raise
            except DroverError as problem:
                self._take_back(resize, problem)
            self._take_step(self._steps.arrive, resize)

    def _take_back(self, resize: orders.Resize, problem: DroverError) -> NoReturn:
        """Give an instance that did not leave its host its old size and state there.

        :raises DroverError: always; its message begins with the message of the problem.
        """
        try:
            self._take_step(self._steps.undo, resize, str(problem))
        except TimeOver as another:
            raise TimeOver(f"{problem} {another}", another.limit) from None
        except DroverError as another:
            raise DroverError(f"{problem} {another}", **another.details) from None
        raise DroverError(
            f"{problem} It is on {resize['source']} with its old size, as before."
        ) from None

    # The end of a resize

    def end(self, instances: Iterable[NamedInstance]) -> None:
        """Confirm or revert the resizes of instances; a failure stops no other instance."""
        for instance in instances:
            if instance["uuid"] not in self.stuck:
                with self._note_failure(instance):
                    self._end_resize(instance)

    def _end_resize(self, instance: NamedInstance) -> None:
        _instance, resize = self._steps.find(instance_lookup.as_named(instance))
        if resize is None:
            self._say(
                f"{instance['name']} has no resize that waits to be confirmed; nothing is done."
            )
            return
        self._refuse_unread(instance, self.request.ending)
        if self.request.ending == CONFIRM:
            with self._hold_leases(
                [resize["destination"]], f"confirming the resize of {resize['name']}"
            ):
                self._take_step(self._steps.confirm, resize)
        else:
            self._revert(resize)

    def _revert(self, resize: orders.Resize) -> None:
        source, destination = resize["source"], resize["destination"]
        self._own.refuse_stop([resize], "Its resize is not reverted")
        with self._hold_leases(
            list(dict.fromkeys([source, destination])), f"reverting the resize of {resize['name']}"
        ):
            self._take_step(self._steps.leave_again, resize)
            if not resize["same_host"] and not self._settings.check_mode:
                self._move_domain(
                    self._read_resize(resize)["back"], destination, resize["destination_uri"]
                )
            self._take_step(self._steps.revert, resize)

    # Parts of a run

    def _refuse_unread(self, instance: NamedInstance, ending: str | None) -> None:
        """Refuse a resize while an unread host may run the instance.

        Otherwise it could be started here a second time, or get another disk.
        """
        with self._store.read() as connection:
            refused = f"Instance {instance['name']}: {NOT_DONE[ending]}"
            continuity.refuse_unread(connection, refused, self._hosts.names(), continuity.RUNNING)

    def _take_step(
        self,
        step: Callable[Concatenate[orders.Resize, More], StepResult],
        resize: orders.Resize,
        *more: More.args,
        **named: More.kwargs,
    ) -> None:
        """Take a step of a resize in its present state in the store."""
        self._note_difference(resize["name"], step(self._read_resize(resize), *more, **named))

    def _read_resize(self, resize: orders.Resize) -> orders.Resize:
        """Return a resize in its present state in the store.

        :raises LeftOpen: it is no longer open.
        """
        _instance, now = self._steps.find(resize["uuid"])
        if now is None or now["migration"] != resize["migration"]:
            raise LeftOpen(
                f"The resize of {resize['name']} from {resize['source']} to {resize['destination']}"
                " is not open any more: a discovery, or another run, has ended it. Nothing more"
                " was done. See where it is with drover.compute.instance_info."
            )
        return now

    def _note_difference(self, name: str, step: StepResult) -> None:
        self.changed = self.changed or step.changed
        if step.resize is not None:
            self.resizes[step.resize["uuid"]] = step.resize
        if step.changed and step.difference is not None:
            self.differences.append((name, *step.difference))

    def _move_domain(self, order: Mapping[str, Any], source: str, uri: str) -> None:
        """Move a domain that is off, with its unshared disks, and follow the move to its end.

        The worker on the hypervisor continues by itself. A move that is under way or done is only
        followed.

        :param order: as the module _domain_migration takes it.
        """
        name, destination = order["name"], order["destination"]
        order = {
            **order,
            **self._removing.of_moves(
                [{**order, "source": source}], {order["uuid"]: order}, fresh=True
            )[order["uuid"]],
        }
        way, wait = f"{name}: {source} -> {destination}", MENTION
        self._say(f"{way}, cold, started")
        while True:
            answer = self._hosts.hand(source).act(
                "_domain_migration", {"uri": uri, "start": [order], "wait": wait}
            )
            if answer.outcome != certainty.DONE:
                raise DroverError(f"Instance {name} on {source}: {answer.message}")
            (answered,) = answer.result["moves"]
            status, message = answered["status"], answered.get("message") or ""
            if status in ("failed", "cancelled"):
                raise DroverError(
                    f"Instance {name} did not move from {source} to {destination}: {message}"
                )
            if status == "conflict" and certainty.runs_there(answered):
                # A killed run had already started it there.
                return
            if status in ("conflict", "lost"):
                raise LeftOpen(
                    f"Instance {name}, from {source} to {destination}: {message} Nothing was done"
                    " about it: look at both hosts with virsh list --all, correct what is wrong"
                    " there, and run this again, which goes on with it."
                )
            if status != "running":
                return
            if answered.get("percent") is not None:
                self._say(f"{way}, {answered['percent']:.0f} %")
            wait = int(pause(answered.get("elapsed_s"), 1))
            self._extend((source, destination), wait)

    def _extend(self, hosts: Iterable[str], wait: int) -> None:
        try:
            for host in hosts:
                self._leasing.extend(host, wait + self._settings.timeout + SPARE)
        except DroverError as problem:
            # The run that has the lease now takes care of the instance.
            raise LeftOpen(str(problem)) from None

    def _hold_leases(
        self, hosts: Iterable[str], purpose: str
    ) -> contextlib.AbstractContextManager[None]:
        """Hold the leases of hosts for the time of a shutdown and a start of an instance."""
        if self._settings.check_mode:
            return contextlib.nullcontext()
        return self._leasing.held(hosts, purpose, 2 * self._settings.timeout + SPARE)

    @contextlib.contextmanager
    def _note_failure(self, instance: NamedInstance) -> Iterator[None]:
        """Note the failure of an instance and continue.

        Raise it if the time of the whole run is over.
        """
        try:
            yield
        except TimeOver:
            raise
        except DroverError as problem:
            self.stuck.add(instance["uuid"])
            self.failed.append(str(problem))


def _foreseen(resize: orders.Resize) -> str:
    """Return the line of a dry run on a resize or a cold migration."""
    where = (
        f"on {resize['source']}"
        if resize["same_host"]
        else f"from {resize['source']} to {resize['destination']}"
    )
    old, new = (
        f"{size['vcpus']} vCPU, {size['memory_mb']} MiB" for size in (resize["old"], resize["new"])
    )
    what = (
        f"would be resized {where}: {old} -> {new}"
        if old != new or resize["same_host"]
        else f"would move cold {where}"
    )
    stops = ". It would be shut down for that, and started again" if resize["running"] else ""
    return f"{resize['name']}: {what}{stops}."

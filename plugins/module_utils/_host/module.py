# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base class of all modules that run on a hypervisor.

Private to the collection. A module refuses to begin on another machine than the one that its caller
expects, and its result says which machine gave it.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from ansible.module_utils.basic import AnsibleModule

from .._files.limits import CallTimeout
from .._files.problem import Problem, sentence
from .._libvirt import binding, machine
from .._libvirt.calls import LimitedObject
from .capabilities import parse_capabilities

#: The limit in seconds for the answer of a libvirt about its machine.
PATIENCE = 10


class ModuleRun(Protocol):
    """The work of one run of a module."""

    def run(self) -> Mapping[str, object]:
        """Do the work and return the result of the module."""

    def certain(self) -> Mapping[str, object]:
        """Return the certain facts after a failure."""


class HostModule(AnsibleModule):
    """An AnsibleModule that knows the machine that it runs on.

    Its failure on another machine than the expected one has ``not_this_host`` and ``begun: false``.
    All its results have ``machine``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.machine = machine.here()
        super().__init__(*args, **kwargs)
        self._refuse_another_machine()

    def exit_json(self, **kwargs: Any) -> None:
        """End the module."""
        super().exit_json(**{"machine": self.machine, **kwargs})

    def fail_json(self, msg: str, **kwargs: Any) -> None:
        """End the module with a failure."""
        super().fail_json(msg, **{"machine": self.machine, **kwargs})

    def carry_out(
        self, make: Callable[[HostModule, LimitedObject], ModuleRun], local: bool = False
    ) -> None:
        """Make and run the change of a domain, and end the module.

        :param local: True if the libvirt must be this machine's.
        """
        change: ModuleRun | None = None
        with self.hypervisor(
            lambda: change.certain() if change else {"begun": False}, local
        ) as conn:
            change = make(self, conn)
            result = change.run()
        self.exit_json(**result)

    @contextlib.contextmanager
    def hypervisor(
        self, result: Callable[[], Mapping[str, object]] = dict, local: bool = False
    ) -> Iterator[LimitedObject]:
        """Give the connection to the libvirt of the option ``uri``, and end the module with one
        sentence if anything fails.

        A failure before the connection is open has ``begun: false``.

        :param result: returns what else the failed module returns.
        :param local: True if the libvirt must be this machine's.
        """
        uri = self.params["uri"]
        if local and not binding.is_local(uri):
            message = (
                f"This works on the hypervisor only, and {uri} is another machine: run it there."
            )
            self.fail_json(msg=message, begun=False)
        binding.require_binding(self)
        with self.failures(lambda: {"begun": False}):
            conn = binding.open_connection(uri)
        try:
            with self.failures(result):
                yield conn
        finally:
            binding.close(conn)

    @contextlib.contextmanager
    def reading(self, late: str, failed: str) -> Iterator[LimitedObject]:
        """Give the connection to the libvirt of the option ``uri``, for a read with a time limit.

        :param late: the sentence if the time is over.
        :param failed: the words before the reason of another failure.
        """
        conn = binding.connect(self, self.params["uri"])
        try:
            yield conn
        except CallTimeout:
            self.fail_json(msg=late)
        except (binding.libvirt.libvirtError, ValueError) as problem:
            self.fail_json(msg=f"{failed}: {binding.text_of(problem)}.")
        # Not after a failure: the close may hang, too.
        binding.close(conn)

    @contextlib.contextmanager
    def failures(
        self, result: Callable[[], Mapping[str, object]] = dict, files: str = "A file"
    ) -> Iterator[None]:
        """End the module with one sentence if anything fails.

        :param result: returns what else the failed module returns.
        :param files: the files that the module uses, in words.
        """
        try:
            yield
        except Problem as problem:
            self.fail_json(msg=sentence(problem), **result())
        except (OSError, ValueError) as problem:
            self.fail_json(
                msg=f"{files} on {binding.host_name()} cannot be used: {problem}.", **result()
            )
        except Exception as problem:
            if binding.libvirt is None or not isinstance(problem, binding.libvirt.libvirtError):
                raise
            message = f"libvirt on {binding.host_name()} refused: {binding.text_of(problem)}."
            self.fail_json(msg=message, **result())

    def _refuse_another_machine(self) -> None:
        text = machine.given()
        if not text:
            return
        try:
            expected = machine.read_expected(json.loads(text))
        except (ValueError, AttributeError) as problem:
            self.fail_json(
                msg=f"{machine.EXPECTED} cannot be read: {problem}. Nothing was done.", begun=False
            )
            return
        of_libvirt = functools.lru_cache(maxsize=None)(self._host_uuid)
        self.machine["verdict"] = machine.judge(expected, self.machine, of_libvirt)
        uri = self.params.get("uri") or ""
        if self.machine["verdict"] == machine.OTHER:
            sentence: str | None = machine.refusal(expected, self.machine, binding.host_name())
        else:
            sentence = (
                None
                if not uri or binding.is_local(uri)
                else machine.wrong_libvirt(expected, uri, of_libvirt())
            )
        if sentence is not None:
            self.machine["verdict"] = machine.OTHER
            self.fail_json(msg=sentence, not_this_host=True, begun=False)

    def _host_uuid(self) -> str | None:
        """Ask the libvirt that the module is for; None if it does not answer."""
        if "uri" in self.params:
            binding.require_binding(self)
        elif binding.libvirt is None:
            return None
        try:
            conn = binding.open_connection(
                self.params.get("uri") or "qemu:///system", seconds=PATIENCE
            )
        except binding.LibvirtProblem:
            return None
        try:
            return parse_capabilities(conn.getCapabilities())["host_uuid"]
        except (binding.libvirt.libvirtError, ValueError):
            return None
        finally:
            binding.close(conn)

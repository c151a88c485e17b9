# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain that is brought to a state: running, stopped, present or absent."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from .._files.problem import Problem
from .._host.domains import read_domain
from .._host.facts import HostDomain
from .._images import images
from .._libvirt.binding import LibvirtProblem, libvirt
from .._orders import orders
from .._orders.records import Records
from .._orders.unfinished import UnfinishedBuild
from .domain_call import DomainCall
from .presence import Presence
from .removal import Removal, is_no_domain


class Stopped(Problem):
    """The error for a module that a signal ends. It first removes the files and the domain that it
    has created.
    """


class DomainChange:
    """The work of one run of the module domain."""

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self.call = DomainCall(module, conn)
        # True if the domain is on this hypervisor after a failure, read while no other call could
        # work on it; None if unknown.
        self.left: bool | None = None

    def certain(self) -> dict[str, object]:
        """Return the certain facts after a failure."""
        links = {"links": self.call.links} if self.call.links else {}
        return {"begun": self.call.begun, "domain_left": self.left, **links}

    def run(self) -> dict[str, object]:
        """Bring the domain to the requested state and return the result of the module."""
        with _stopped_by_term():
            self.call.read_options()
            return self._run_alone()

    def _run_alone(self) -> dict[str, object]:
        uuid, order = self._uuid_to_lock(), self.call.params["order"]
        with self._lock_domain(uuid):
            try:
                if uuid is not None:
                    # After a withdrawal the domain may have left; the except clause reads it.
                    orders.refuse_withdrawn(Records(), uuid, self.call.name or uuid, order)
                return self._run()
            except (LibvirtProblem, images.ImageProblem, Stopped, libvirt.libvirtError) as exc:
                self.left = self._is_left()
                if (
                    self.call.params["state"] == "absent"
                    and not self.call.begun
                    and self.left is False
                    and is_no_domain(exc)
                ):
                    # The domain was removed after the look, by an earlier run that Ansible gave up
                    # or by the operator.
                    return self._run()
                raise

    def _uuid_to_lock(self) -> str | None:
        """Return the uuid of the domain to lock, or None."""
        if self.call.module.check_mode:
            return None
        if self.call.uuid is not None:
            return self.call.uuid
        found = self.call.find()
        return found.UUIDString() if found is not None else None

    def _lock_domain(self, uuid: str | None) -> contextlib.AbstractContextManager[None]:
        """Lock the domain against other calls of any run."""
        if uuid is None:
            return contextlib.nullcontext()
        return orders.alone(
            Records(),
            uuid,
            self.call.name or uuid,
            max(self.call.params["timeout"], orders.LEAST_PATIENCE),
        )

    def _is_left(self) -> bool | None:
        """Return True if the domain is on this hypervisor; None if libvirt does not answer."""
        try:
            return any(
                found.UUIDString() == self.call.uuid
                or (self.call.uuid is None and found.name() == self.call.name)
                for found in self.call.conn.listAllDomains(0)
            )
        except (LibvirtProblem, libvirt.libvirtError):
            return None

    def _run(self) -> dict[str, object]:
        domain = self.call.find()
        if self.call.uuid is not None:
            self.call.unfinished = UnfinishedBuild(
                Records(), self.call.uuid, self.call.params["order"]
            )
            if domain is not None and not self.call.module.check_mode:
                self.call.unfinished.end()
        before = self._picture(domain)
        if self.call.params["state"] == "absent":
            changed, after = Removal(self.call).remove(domain)
        else:
            changed, after = Presence(self.call).reach(domain)
        result: dict[str, object] = {
            "changed": changed,
            "domain": after,
            "created_disks": self.call.made_files,
            "removed_disks": self.call.removed_files,
            "kept_disks": self.call.kept_files,
        }
        if self.call.module._diff:
            result["diff"] = {
                "before_header": self.call.name or self.call.uuid,
                "after_header": self.call.name or self.call.uuid,
                "before": before,
                "after": _text_of(after, self.call.made_files),
            }
        return result

    def _picture(self, domain: Any) -> str:
        return _text_of(read_domain(domain, self.call.local) if domain is not None else None, [])


def _text_of(facts: HostDomain | None, made_files: list[str]) -> str:
    """Return a domain as text for a diff."""
    if facts is None:
        return "state: absent\n"
    files = "".join(f"file: {path}\n" for path in made_files)
    return f"state: {facts['state']}\n{files}{facts['xml'].rstrip()}\n"


def _on_term(number: int, frame: object) -> None:
    raise Stopped(f"The module was ended by signal {number}.")


@contextlib.contextmanager
def _stopped_by_term() -> Iterator[None]:
    """Raise Stopped at SIGTERM during the ``with`` block."""
    try:
        previous = signal.signal(signal.SIGTERM, _on_term)
    except ValueError:
        # Only the main thread gets signals.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)

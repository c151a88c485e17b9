# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One call of the module domain: its options, its domain, and what it has done so far."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from .._domain import power
from .._domain.definition import parse_domain, with_password, without_passwords
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name
from .._libvirt.xml import parse
from .._orders.unfinished import UnfinishedBuild
from .._ownership.move_record import KeptFile


class DomainCall:
    """A call of the module domain: its options, and what it has done so far."""

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self.module = module
        self.conn = conn
        self.params = module.params
        self.local = binding.is_local(module.params["uri"])
        self.made_files: list[str] = []
        self.links: dict[str, str] = {}
        self.removed_files: list[str] = []
        self.kept_files: list[KeptFile] = []
        # True if a change was made and not undone.
        self.begun = False
        self.unfinished: UnfinishedBuild | None = None
        self.xml: str | None = None
        self.uuid: str | None = None
        self.name: str | None = None

    def read_options(self) -> None:
        """Read the XML, the uuid and the name from the options.

        :raises LibvirtProblem: they contradict each other.
        """
        self.xml, self.uuid, self.name = self._identity()
        # The arguments are part of the result.
        self.params["xml"] = self.params["xml"] and without_passwords(self.params["xml"])
        if self.xml is not None and self.params["graphics_password"] is not None:
            try:
                self.xml = with_password(self.xml, self.params["graphics_password"])
            except ValueError as exc:
                raise LibvirtProblem(
                    f"The option graphics_password cannot be used: {exc}."
                ) from exc

    def _identity(self) -> tuple[str | None, str | None, str | None]:
        """Return the XML to define, the uuid and the name, each None if not given."""
        wanted_uuid, wanted_name, text = (
            self.params["uuid"],
            self.params["name"],
            self.params["xml"],
        )
        if wanted_uuid is not None:
            try:
                wanted_uuid = binding.canonical_uuid(wanted_uuid)
            except ValueError as exc:
                raise LibvirtProblem(f"{wanted_uuid!r} is not a uuid.") from exc
        if text is None:
            return None, wanted_uuid, wanted_name
        try:
            parsed = parse_domain(text)
        except ValueError as exc:
            raise LibvirtProblem(f"The option xml is {exc}.") from exc
        if not parsed["name"]:
            raise LibvirtProblem("The option xml has no <name>: give the domain one.")
        if wanted_name is not None and wanted_name != parsed["name"]:
            raise LibvirtProblem(
                f"The option name is {wanted_name!r} but the XML is of {parsed['name']!r}: make"
                " them the same."
            )
        own = parsed["uuid"]
        if own is not None:
            try:
                own = binding.canonical_uuid(own)
            except ValueError as exc:
                raise LibvirtProblem(
                    f"The uuid {own!r} in the XML of {parsed['name']} is not a uuid."
                ) from exc
            if wanted_uuid is not None and own != wanted_uuid:
                raise LibvirtProblem(
                    f"The option uuid is {wanted_uuid} but the XML is of {own}: make them the same."
                )
        elif wanted_uuid is not None:
            root = parse(text)
            for empty in root.findall("uuid"):
                root.remove(empty)
            ET.SubElement(root, "uuid").text = wanted_uuid
            text = ET.tostring(root, encoding="unicode")
        return text, own or wanted_uuid, parsed["name"]

    def find(self) -> Any:
        """Return the domain; None if it does not exist.

        :raises LibvirtProblem: another domain has its uuid or name.
        """
        by_uuid = power.find(self.conn, uuid=self.uuid) if self.uuid else None
        by_name = power.find(self.conn, name=self.name) if self.name else None
        if by_uuid is not None and self.name and by_uuid.name() != self.name:
            raise LibvirtProblem(
                f"The uuid {self.uuid} belongs to the domain {by_uuid.name()!r} on {host_name()},"
                f" not to {self.name!r}: correct the uuid or the name."
            )
        if self.uuid and by_name is not None and by_name.UUIDString() != self.uuid:
            raise LibvirtProblem(
                f"A domain named {self.name!r} with another uuid ({by_name.UUIDString()}, not"
                f" {self.uuid}) exists on {host_name()}: choose another name, or remove that domain"
                " first."
            )
        return by_uuid if by_uuid is not None else by_name

    def definition(self) -> str:
        """Return the XML of a domain that is missing."""
        if self.xml is None:
            raise LibvirtProblem(
                f"There is no domain {self.name or self.uuid} on {host_name()}: give its xml to"
                " have it defined."
            )
        return self.xml

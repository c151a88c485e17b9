#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_sightings
short_description: See which of some domains a hypervisor has
author:
  - The drover.compute authors (@drover-compute)
description:
  - Looks for domains by their uuids and their names, running or only defined. Nothing is changed, no lock is waited for, and no storage is read.
  - Instances are started after a look at the other hypervisors, which must not have them.
  - A libvirt that does not take connections is tried again for some seconds, because it may be restarting.
options:
  uris:
    description: The libvirt URIs of the hypervisor.
    type: list
    elements: str
    default: [qemu:///system]
  uuids:
    description: The uuids to look for.
    type: list
    elements: str
    default: []
  names:
    description: The names to look for.
    type: list
    elements: str
    default: []
  networks:
    description: Networks of libvirt that a new instance needs.
    type: list
    elements: str
    default: []
  bridges:
    description: Bridges of the host that a new instance needs.
    type: list
    elements: str
    default: []
  patience:
    description: The seconds for which the module tries a libvirt that takes no connection again.
    type: int
    default: 6
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.info_module
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute._domain_order
"""

EXAMPLES = "# Only the roles and playbooks of this collection call this module."

import time
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._domain import power
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
    LibvirtProblem,
    libvirt,
)
from ansible_collections.drover.compute.plugins.module_utils._migration import checks

#: The seconds between two tries to reach a libvirt that restarts.
AGAIN = 0.5


def _sightings(uri: str, given: dict[str, Any]) -> tuple[list[dict[str, str]], dict[str, str]]:
    conn = binding.open_connection(uri)
    try:
        found: dict[str, Any] = {}
        for kind in ("uuid", "name"):
            for text in given[f"{kind}s"]:
                domain = power.find(conn, **{kind: text})
                if domain is not None:
                    found[domain.UUIDString()] = domain
        domains = [
            {"uuid": uuid, "name": each.name(), "state": power.state_of(each)}
            for uuid, each in found.items()
        ]
        return domains, checks.lacking_plugs(conn, given["networks"], given["bridges"], "that host")
    finally:
        binding.close(conn)


def _patiently(uri: str, given: dict[str, Any]) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Read the domains. Read them again if libvirt restarts during the read."""
    deadline = time.monotonic() + given["patience"]
    while True:
        try:
            return _sightings(uri, given)
        except (LibvirtProblem, libvirt.libvirtError):
            if time.monotonic() >= deadline:
                raise
        time.sleep(AGAIN)


def main() -> None:
    """Run the module."""
    texts = {"type": "list", "elements": "str", "default": []}
    module = HostModule(
        argument_spec={
            "uris": {**texts, "default": ["qemu:///system"]},
            "uuids": texts,
            "names": texts,
            "networks": texts,
            "bridges": texts,
            "patience": {"type": "int", "default": 6},
        },
        supports_check_mode=True,
    )
    given = module.params
    given["uuids"] = [binding.domain_uuid(module, each, "looked for") for each in given["uuids"]]
    binding.require_binding(module)
    with module.failures():
        found = [_patiently(uri, given) for uri in given["uris"]]
    # A network or bridge counts as present if one of the host's libvirts has it.
    lacking = (
        {
            name: why
            for name, why in found[0][1].items()
            if all(name in each for _domains, each in found)
        }
        if found
        else {}
    )
    module.exit_json(
        changed=False,
        domains=[each for domains, _lacking in found for each in domains],
        lacking=lacking,
    )


if __name__ == "__main__":
    main()

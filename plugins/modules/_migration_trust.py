#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _migration_trust
short_description: Set up and check the SSH keys and host keys that migrations need
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on a hypervisor, for the account that it runs as. The role
    P(drover.compute.hypervisor#role) calls it for the account that Ansible uses and for root,
    because libvirt's daemon connects by itself.
  - Each line that it writes ends with a mark that names its host. It changes no other line, and no key that exists. A private key never leaves
    its host.
options:
  state:
    description:
      - V(key) returns the public key of the account and the host keys of this host. A key is made if the account has none.
      - V(present) writes the keys of O(peers) to C(~/.ssh/authorized_keys) and their host keys to C(~/.ssh/known_hosts).
      - V(absent) removes the lines of O(hosts) from both files.
      - V(checked) connects to the libvirt of O(peers) as a migration does, and changes nothing.
    type: str
    choices: [key, present, absent, checked]
    required: true
  host:
    description: The name of this host in the inventory.
    type: str
    required: true
  peers:
    description:
      - The hosts, with C(host), C(uri) (null if others do not reach it by SSH), C(keys) (dicts of C(user) and C(public_key)), C(host_keys) and
        C(sources) (the addresses from which alone its keys are accepted). This host is one of them with O(state=present).
      - Lines of hosts that are not in this list stay.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: Its name in the inventory.
        type: str
        required: true
      uri:
        description: The libvirt URI by which other hosts reach it.
        type: str
      keys:
        description: The accounts that connect from there, with C(user) and C(public_key).
        type: list
        elements: dict
        default: []
        suboptions:
          user:
            description: The name of the account.
            type: str
            required: true
          public_key:
            description: Its public key. Empty in check mode, if the key would be made.
            type: str
            default: ""
      host_keys:
        description: Its public host keys.
        type: list
        elements: str
        default: []
      sources:
        description: Addresses and networks from which alone its keys are accepted.
        type: list
        elements: str
        default: []
  hosts:
    description: With O(state=absent), the lines of these hosts are removed. All hosts if it is empty.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.platform
"""

EXAMPLES = "# Only the roles and playbooks of this collection call this module."

import os
import tempfile
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._migration import reach, trust
from ansible_collections.drover.compute.plugins.module_utils._migration.trust import TrustProblem


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "required": True},
            "host": {"type": "str", "required": True},
            "peers": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "host": {"type": "str", "required": True},
                    "uri": {"type": "str"},
                    "keys": {
                        "type": "list",
                        "elements": "dict",
                        "default": [],
                        "no_log": False,
                        "options": {
                            "user": {"type": "str", "required": True},
                            "public_key": {"type": "str", "default": "", "no_log": False},
                        },
                    },
                    "host_keys": {
                        "type": "list",
                        "elements": "str",
                        "default": [],
                        "no_log": False,
                    },
                    "sources": {"type": "list", "elements": "str", "default": []},
                },
            },
            "hosts": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    user, home = trust.account()
    try:
        found = STATES[module.params["state"]](module, user, os.path.join(home, ".ssh"))
    except (TrustProblem, OSError) as problem:
        text = str(problem).rstrip(".")
        module.fail_json(
            msg=f"{module.params['host']}, account {user}: {text}. The SSH trust of this account was not set up."
        )
    module.exit_json(**{"changed": False, "user": user, **found})


def _key(module: AnsibleModule, user: str, folder: str) -> dict[str, Any]:
    """Return the key of the account and the host keys. Make a missing key."""
    host_keys = trust.read_host_keys()
    public, missing = trust.own_key(folder)
    if not missing:
        return {"public_key": public, "host_keys": host_keys}
    if not module.check_mode:
        _make_folder(module, folder)
        public = trust.make_key(missing, module.params["host"])
    diff = {
        "before_header": missing,
        "after_header": missing,
        "before": "",
        "after": f"{public or 'an SSH key that would be made'}\n",
    }
    return {"changed": True, "public_key": public, "host_keys": host_keys, "diff": [diff]}


def _present(module: AnsibleModule, user: str, folder: str) -> dict[str, Any]:
    """Write the lines of all other hosts."""
    me, peers = module.params["host"], module.params["peers"]
    mine = next((each for each in peers if each["host"] == me), None)
    if mine is None:
        raise TrustProblem(f"{me} is not in the list of the hosts")
    where = trust.destination(mine["uri"]) if mine["uri"] else None
    accepted: dict[str, list[str]] = {}
    known: dict[str, list[str]] = {}
    for each in peers:
        if each["host"] == me:
            continue
        # If the URI has no user, ssh logs in by the name of the account that it runs as.
        keys = [key for key in each["keys"] if where and user == (where.user or key["user"])]
        if any(not key["public_key"] for key in keys):
            if not module.check_mode:
                raise TrustProblem(f"{each['host']} has no public key")
            accepted[each["host"]] = [
                f"(the key of {key['user']} that would be made)" for key in keys
            ]
        else:
            accepted[each["host"]] = trust.authorized_lines(
                [key["public_key"] for key in keys], each["sources"]
            )
        other = trust.destination(each["uri"]) if each["uri"] else None
        known[each["host"]] = (
            trust.known_lines(other.known_name, each["host_keys"]) if other else []
        )
    return _write(
        module,
        folder,
        lambda text: trust.updated(text, accepted),
        lambda text: trust.updated(text, known),
    )


def _absent(module: AnsibleModule, user: str, folder: str) -> dict[str, Any]:
    """Remove the lines of hosts. Keep everything else, also the key: other programs may use it."""
    removed: dict[str, int] = {}

    def without(text: str) -> str:
        hosts = set(module.params["hosts"]) or trust.marked_hosts(text)
        for host in map(trust.marked_host, text.split("\n")):
            if host is not None and host in hosts:
                removed[host] = removed.get(host, 0) + 1
        return trust.updated(text, {host: [] for host in hosts})

    return {**_write(module, folder, without, without), "removed": removed}


def _checked(module: AnsibleModule, user: str, folder: str) -> dict[str, Any]:
    """Connect to the libvirt of other hosts."""
    binding.require_binding(module)
    peers = [
        each
        for each in module.params["peers"]
        if each["uri"] and each["host"] != module.params["host"]
    ]
    reasons = reach.connect_all(peers)
    return {
        "tried": [each["host"] for each in peers],
        "unreached": sorted(reasons),
        "sentences": trust.sentences(module.params["host"], reasons),
    }


#: Each function gets the module, the account and its folder .ssh, and returns the result of the
#: module.
STATES: dict[str, Callable[[AnsibleModule, str, str], dict[str, Any]]] = {
    "key": _key,
    "present": _present,
    "absent": _absent,
    "checked": _checked,
}


def _write(
    module: AnsibleModule,
    folder: str,
    authorized: Callable[[str], str],
    known: Callable[[str], str],
) -> dict[str, Any]:
    """Bring both files to their new text."""
    diffs, marked = [], set()
    for name, change in (("authorized_keys", authorized), ("known_hosts", known)):
        path = os.path.realpath(os.path.join(folder, name))
        before = trust.read(path)
        after = change(before)
        marked |= trust.marked_hosts(after)
        if after == before:
            continue
        diffs.append(
            {"before_header": path, "after_header": path, "before": before, "after": after}
        )
        if not module.check_mode:
            _make_folder(module, folder)
            _replace(module, path, after)
    return {"changed": bool(diffs), "diff": diffs, "marked": sorted(marked)}


def _make_folder(module: AnsibleModule, folder: str) -> None:
    if not os.path.isdir(folder):
        os.mkdir(folder, 0o700)
        module.set_default_selinux_context(folder, False)


def _replace(module: AnsibleModule, path: str, text: str) -> None:
    """Replace a file in one step. The file keeps its mode and owner. Only its owner can read a new
    file.
    """
    is_new = not os.path.exists(path)
    descriptor, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(descriptor, "wb") as file:
        file.write(trust.encoded(text))
    module.atomic_move(temporary, path)
    if is_new:
        os.chmod(path, 0o600)


if __name__ == "__main__":
    main()

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states of the SSH trust of an account: its key, the lines of other hosts, and the check of
both.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

from ansible.module_utils.basic import AnsibleModule

from .._libvirt import binding
from . import reach, trust
from .trust import TrustProblem


def _key(module: AnsibleModule, user: str, folder: str) -> dict[str, object]:
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


def _write_trust(module: AnsibleModule, user: str, folder: str) -> dict[str, object]:
    """Write the lines of all other hosts."""
    me, peers = module.params["host"], module.params["peers"]
    mine = next((each for each in peers if each["host"] == me), None)
    if mine is None:
        raise TrustProblem(f"{me} is not in the list of the hosts")
    where = trust.destination(mine["uri"]) if mine["uri"] else None
    accepted: dict[str, list[str]] = {}
    lines_by_host: dict[str, list[str]] = {}
    for peer in peers:
        if peer["host"] == me:
            continue
        # If the URI has no user, ssh logs in by the name of the account that it runs as.
        keys = [key for key in peer["keys"] if where and user == (where.user or key["user"])]
        if any(not key["public_key"] for key in keys):
            if not module.check_mode:
                raise TrustProblem(f"{peer['host']} has no public key")
            accepted[peer["host"]] = [
                f"(the key of {key['user']} that would be made)" for key in keys
            ]
        else:
            accepted[peer["host"]] = trust.authorized_lines(
                [key["public_key"] for key in keys], peer["sources"]
            )
        other = trust.destination(peer["uri"]) if peer["uri"] else None
        lines_by_host[peer["host"]] = (
            trust.known_lines(other.known_name, peer["host_keys"]) if other else []
        )
    return _write_files(
        module,
        folder,
        lambda text: trust.updated(text, accepted),
        lambda text: trust.updated(text, lines_by_host),
    )


def _absent(module: AnsibleModule, user: str, folder: str) -> dict[str, object]:
    """Remove the lines of hosts. Keep everything else, also the key: other programs may use it."""
    removed: dict[str, int] = {}

    def without(text: str) -> str:
        hosts = set(module.params["hosts"]) or trust.marked_hosts(text)
        for host in map(trust.marked_host, text.split("\n")):
            if host is not None and host in hosts:
                removed[host] = removed.get(host, 0) + 1
        return trust.updated(text, {host: [] for host in hosts})

    return {**_write_files(module, folder, without, without), "removed": removed}


def _check_connections(module: AnsibleModule, user: str, folder: str) -> dict[str, object]:
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
STATES: dict[str, Callable[[AnsibleModule, str, str], dict[str, object]]] = {
    "key": _key,
    "present": _write_trust,
    "absent": _absent,
    "checked": _check_connections,
}


def _write_files(
    module: AnsibleModule,
    folder: str,
    authorized: Callable[[str], str],
    known: Callable[[str], str],
) -> dict[str, object]:
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
            _replace_file(module, path, after)
    return {"changed": bool(diffs), "diff": diffs, "marked": sorted(marked)}


def _make_folder(module: AnsibleModule, folder: str) -> None:
    if not os.path.isdir(folder):
        os.mkdir(folder, 0o700)
        module.set_default_selinux_context(folder, False)


def _replace_file(module: AnsibleModule, path: str, text: str) -> None:
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

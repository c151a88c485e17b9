# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The common parts of all storage servers of the lab: they run beside its switch, and give hosts
their secrets and pools."""

from __future__ import annotations

import contextlib
import os
import time
import typing

from .. import control
from ..layout import SWITCH_ADDRESS, Host, LabError, Layout, as_root, run

#: Seconds until a server answers, on a loaded machine too.
PATIENCE = 300

_CONNECT = (
    "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()"
)


def call(layout: Layout, *words: str | os.PathLike[str], text: str | None = None) -> str:
    """Run a program beside the lab's switch: it sees the lab's network, and ends with the lab."""
    pid = control.switch_pid(layout)
    return run(
        *as_root(), "nsenter", "--net", "--pid", "--target", str(pid), "--", *words, text=text
    )


def answers(layout: Layout, port: int) -> bool:
    """Return True if a server listens at the address of the switch."""
    with contextlib.suppress(LabError):
        call(layout, "python3", "-c", _CONNECT, SWITCH_ADDRESS, str(port))
        return True
    return False


def until(what: str, is_so: typing.Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait for a condition.

    :raises LabError: it is not true within ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > deadline:
            raise LabError(f"The lab's storage: not in {patience:g} s: {what}.")
        time.sleep(0.2)


def give(
    layout: Layout,
    host: Host,
    pools: typing.Mapping[str, str],
    secret: tuple[str, str, str] | None = None,
) -> None:
    """Define a secret and storage pools on a host that does not have them yet.

    :param pools: the XML of each pool by its name.
    :param secret: uuid, XML, and value in Base64.
    """
    lines = ["set -e"]
    if secret is not None:
        uuid, xml, value = secret
        lines += [
            f"virsh secret-define /dev/stdin <<'END'\n{xml}\nEND",
            f"virsh secret-set-value {uuid} {value}",
        ]
    for name, xml in pools.items():
        lines += [
            (
                f"virsh pool-info {name} >/dev/null 2>&1 || virsh pool-define /dev/stdin"
                f" <<'END'\n{xml}\nEND"
            ),
            f"virsh pool-autostart {name}",
            f"virsh pool-info {name} | grep -q 'State: *running' || virsh pool-start {name}",
        ]
    run("ssh", "-F", layout.ssh_config, host.name, "\n".join(lines))

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way to the libvirt of a destination, and the proof that it is the right one.

Private to the collection. The source reaches the destination by a name or address that may lead to
another machine. The libvirt of another machine proves nothing, so the destination counts as not
reached.
"""

from __future__ import annotations

from typing import Any

from .._host.capabilities import parse_capabilities
from .._libvirt import binding, machine
from .._libvirt.binding import LibvirtProblem, libvirt
from .._ownership.move_record import Move
from . import shared_ssh


def open_connection(move: Move, folder: str | None) -> Any:
    """Connect to the libvirt of the destination of a move.

    :param folder: the folder of the records of moves, for a login that moves share; None for a
        separate login.
    :raises LibvirtProblem: it cannot be reached, or it is another machine's.
    """
    uri = move["destination_uri"]
    conn = (
        shared_ssh.open_connection(uri, folder)
        if folder
        else binding.open_connection(uri, keepalive=True)
    )
    try:
        _refuse_another_machine(conn, move)
    except BaseException:
        binding.close(conn)
        raise
    return conn


def _refuse_another_machine(conn: Any, move: Move) -> None:
    expected = [str(each).lower() for each in move.get("host_uuids_there") or ()]
    if not expected:
        return
    try:
        host_uuid, name = (
            parse_capabilities(conn.getCapabilities())["host_uuid"],
            conn.getHostname(),
        )
    except (libvirt.libvirtError, ValueError) as problem:
        raise LibvirtProblem(
            f"{move['destination_uri']} does not say which machine it is on: {problem}"
        ) from problem
    if (host_uuid or "").lower() not in expected:
        raise LibvirtProblem(
            f"{move['destination_uri']} leads to another machine than {move['destination']}: to"
            f" {name}, {machine.described([host_uuid], None)}, and the store has"
            f" {machine.described(expected, None)}. Correct drover_migration_uri of"
            f" {move['destination']}, or the address that its name has on this host. If the machine"
            f" was exchanged: {machine.replace_command(move['destination'])}"
        )

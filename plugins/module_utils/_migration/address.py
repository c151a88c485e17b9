# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that this host finds the migration address of another host.

Private to the collection. No port of migrations is connected to: such a connection would break a
migration that waits there. Any answer of the port of SSH, a refusal too, proves that packets go to
the address and come back.
"""

from __future__ import annotations

import concurrent.futures
import socket
from collections.abc import Sequence

PORT = 22
#: Seconds to wait for an answer.
ANSWER = 3


def look(names: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Return, for each name or address, ``addresses`` (its addresses here) and ``silent`` (the
    addresses without an answer).
    """
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return dict(zip(names, pool.map(_probe_addresses, names)))


def _probe_addresses(name: str) -> dict[str, list[str]]:
    try:
        addresses = sorted(
            {
                str(each[4][0])
                for each in socket.getaddrinfo(name.strip("[]"), PORT, type=socket.SOCK_STREAM)
            }
        )
    except (OSError, UnicodeError):
        return {"addresses": [], "silent": []}
    return {"addresses": addresses, "silent": [each for each in addresses if not _answers(each)]}


def _answers(address: str) -> bool:
    try:
        socket.create_connection((address, PORT), timeout=ANSWER).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True

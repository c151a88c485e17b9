# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client's end of the control socket: it sends one line of JSON and gets one."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import struct
import typing

from .layout import LabError, Layout


class LabIsDown(LabError):
    """There is no switch behind the control socket."""


@contextlib.contextmanager
def short_path(path: pathlib.Path) -> typing.Iterator[str]:
    """Yield another name of a socket: its path may have only 107 bytes, and a checkout's may have
    more."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(layout: Layout) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(layout.control) as path:
            sock.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        raise LabIsDown("The lab is down. Start it with `make lab`.") from None
    except PermissionError:
        sock.close()
        raise LabError(f"The lab in {layout.folder} is another user's.") from None
    return sock


def switch_pid(layout: Layout) -> int:
    """Return the switch's PID on the machine; the kernel reports it, so it is never stale."""
    with connect(layout) as sock:
        size = struct.calcsize("3i")
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return struct.unpack("3i", credentials)[0]


def ask(layout: Layout, do: str, host: str | None = None, timeout: float = 600) -> typing.Any:
    """Send a request to the switch; return its answer or raise LabError with its message."""
    with connect(layout) as sock:
        sock.settimeout(timeout)
        try:
            sock.sendall(json.dumps({"do": do, "host": host}).encode() + b"\n")
            answer = sock.makefile("rb").readline()
        except TimeoutError:
            raise LabError(f"The lab's switch did not answer {do!r} in {timeout:g} s.") from None
        except ConnectionError:
            answer = b""
    if not answer:
        raise LabIsDown("The lab went down.")
    result = json.loads(answer)
    if "error" in result:
        raise LabError(result["error"])
    return result["answer"]

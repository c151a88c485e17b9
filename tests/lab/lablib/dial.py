# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ssh's ProxyCommand: ask the switch for a connection to a host and hand it to ssh.

ssh runs this with ``ProxyUseFdpass``. The switch connects inside the lab and passes the connected
socket. This program passes it to ssh and ends, and ssh has a direct connection to the host. It
needs no root and starts for every connection, so it imports little.

Usage: dial.py CONTROL_SOCKET HOST
"""

from __future__ import annotations

import os
import socket
import sys


def main() -> int:
    control, host = sys.argv[1:]
    os.chdir(os.path.dirname(control))  # the whole path may be too long for a socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as switch:
        try:
            switch.connect(os.path.basename(control))
        except OSError:
            print("The lab is down.", file=sys.stderr)
            return 1
        switch.sendall(b'{"do": "dial", "host": "%s"}\n' % host.encode())
        answer, fds = socket.recv_fds(switch, 4096, 1)[:2]
    if not fds:
        print(answer.decode().strip(), file=sys.stderr)
        return 1
    with socket.socket(fileno=os.dup(1)) as ssh:
        socket.send_fds(ssh, [b"\0"], fds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

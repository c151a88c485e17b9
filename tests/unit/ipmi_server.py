# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A management controller with IPMI: pyghmi's own server, with the faults of real ones.

As a program: python ipmi_server.py ADDRESS MOOD GUID. It writes its port, and then each Chassis
Control that it carries out. GUID belongs to the system, in hexadecimal digits in the order of the
wire; it is empty for a controller without one.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

USER, PASSWORD = "drover", "bmc-secret"


@contextlib.contextmanager
def running(mood="", address="127.0.0.1", guid=""):
    """Run one; yield (its port, its process)."""
    with subprocess.Popen(
        [sys.executable, __file__, address, mood, guid], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def serve(address, mood, guid):
    from pyghmi.ipmi import bmc
    from pyghmi.ipmi.private import serversession

    class Session(serversession.ServerSession):
        """Refuse SHA-256 as a BMC without it does: the server knows only SHA-1, and the client
        begins with SHA-256."""

        def create_open_session_response(self, request):
            response = super().create_open_session_response(request)
            if request[12] != 1:
                response[1] = 0x04
            return response

    serversession.ServerSession = Session

    class Bmc(bmc.Bmc):
        on, busy = True, 2

        def handle_raw_request(self, request, session):
            is_control = request["netfn"] == 0 and request["command"] == 2
            if (request["netfn"], request["command"]) == (6, 0x37):
                (
                    session.send_ipmi_response(code=0, data=bytes.fromhex(guid))
                    if guid
                    else session.send_ipmi_response(code=0xC1)
                )
            elif is_control and mood == "busy" and self.busy:
                self.busy -= 1
                session.send_ipmi_response(code=0xC0)
            elif is_control and mood == "no privilege":
                session.send_ipmi_response(code=0xD4)
            elif is_control and mood == "no soft shutdown" and request["data"][0] == 5:
                session.send_ipmi_response(code=0xCC)
            elif is_control and mood == "duplicate":
                threading.Timer(1, self.control, [request["data"][0]]).start()
                session.send_ipmi_response(code=0xCF)
            elif is_control and mood == "drops":
                self.control(request["data"][0])
            else:
                super().handle_raw_request(request, session)

        def control(self, number):
            print(number, flush=True)
            self.on = {0: False, 1: True, 5: False}.get(number, self.on)

        def get_power_state(self):
            return int(self.on)

        def power_off(self):
            self.control(0)

        def power_on(self):
            self.control(1)

        def power_shutdown(self):
            self.control(5)

    with socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM
    ) as probe:
        probe.bind((address, 0))
        port = probe.getsockname()[1]
    controller = Bmc({USER: PASSWORD}, port=port, address=address)
    print(port, flush=True)
    controller.listen()


if __name__ == "__main__":
    serve(*sys.argv[1:])

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Baseboard management controllers: Redfish (sushy-tools) and IPMI (pyghmi) for every host.

Each host has one port of 127.0.0.1, TCP for Redfish over TLS and UDP for IPMI. The switch carries
out their requests on the host: the power of the host is the only state, so they cannot differ from
it. (virtualbmc is the same pyghmi server with a libvirt domain behind it; a lab host is none.)

Runs as the user, outside the lab's namespaces, until the end of the switch or a signal.
Usage: python -m lablib.bmc FOLDER
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import ssl
import sys
import threading
import time
import uuid

import bcrypt
import flask
from pyghmi.ipmi import bmc as pyghmi_bmc
from pyghmi.ipmi.private import serversession
from sushy_tools import error as sushy_error
from sushy_tools.emulator import main as sushy
from sushy_tools.emulator.resources.systems.base import AbstractSystemsDriver
from werkzeug.serving import make_server

from . import control
from .layout import BMC_PASSWORD, BMC_USER, Host, LabError, Layout, run

ADDRESS = "127.0.0.1"


class Power:
    """The power of one host; the switch changes and reports it."""

    def __init__(self, layout: Layout, host: Host) -> None:
        self.layout, self.host = layout, host

    def is_on(self) -> bool:
        return control.ask(self.layout, "status")[self.host.name]

    def on(self) -> None:
        """The answer comes before the host is up, as on a real machine."""
        threading.Thread(
            target=control.ask, args=[self.layout, "start", self.host.name], daemon=True
        ).start()
        while not self.is_on():
            time.sleep(0.02)

    def off(self) -> None:
        control.ask(self.layout, "kill", self.host.name)

    def press(self) -> None:
        control.ask(self.layout, "press", self.host.name)

    def reset(self) -> None:
        self.off()
        self.on()


SHA1 = 1
INVALID_AUTHENTICATION_ALGORITHM = 0x04


class IpmiSession(serversession.ServerSession):
    """A session of pyghmi's server, which knows only SHA-1 and uses it for every request. Its
    client begins with SHA-256, and takes SHA-1 if the BMC has nothing better, because some have.
    """

    def create_open_session_response(self, request: bytes) -> bytearray:
        response = super().create_open_session_response(request)
        if request[12] != SHA1:
            response[1] = INVALID_AUTHENTICATION_ALGORITHM
        return response


serversession.ServerSession = IpmiSession


class IpmiBmc(pyghmi_bmc.Bmc):
    """One host's IPMI."""

    def __init__(self, power: Power, port: int) -> None:
        super().__init__({BMC_USER: BMC_PASSWORD}, port=port, address=ADDRESS)
        self.power = power

    def get_power_state(self) -> int:
        return int(self.power.is_on())

    def get_system_guid(self) -> uuid.UUID:
        return uuid.UUID(self.power.host.uuid)

    def power_on(self) -> None:
        self.power.on()

    def power_off(self) -> None:
        self.power.off()

    def power_shutdown(self) -> None:
        self.power.press()

    def power_reset(self) -> None:
        self.power.reset()

    power_cycle = power_reset


class RedfishSystems(AbstractSystemsDriver):
    """One system behind each port: the host of the port."""

    def __init__(self, powers: dict[int, Power]) -> None:
        super().__init__()
        self.powers = powers

    @property
    def power(self) -> Power:
        return self.powers[int(flask.request.environ["SERVER_PORT"])]

    @property
    def driver(self) -> str:
        return "lab"

    @property
    def systems(self) -> list[str]:
        return [self.power.host.uuid]

    def uuid(self, identity: str) -> str:
        if identity != self.power.host.uuid:
            raise sushy_error.NotFound(f"There is no system {identity} here.")
        return identity

    def name(self, identity: str) -> str:
        self.uuid(identity)
        return self.power.host.name

    def get_power_state(self, identity: str) -> str:
        self.uuid(identity)
        return "On" if self.power.is_on() else "Off"

    def set_power_state(self, identity: str, state: str) -> None:
        self.uuid(identity)
        actions = {
            "On": self.power.on,
            "ForceOn": self.power.on,
            "ForceOff": self.power.off,
            "GracefulShutdown": self.power.press,
            "ForceRestart": self.power.reset,
        }
        if state not in actions:
            raise sushy_error.BadRequest(f"The lab has no {state}.")
        actions[state]()

    def get_boot_device(self, identity: str) -> str:
        return "Hdd"

    def set_boot_device(self, identity: str, boot_source: str) -> None:
        raise sushy_error.NotSupportedError("A host of the lab boots from nothing.")

    def get_boot_mode(self, identity: str) -> str:
        return "UEFI"

    def get_nics(self, identity: str) -> list[dict[str, str]]:
        return []


def make_certificate(layout: Layout) -> None:
    if not layout.bmc_certificate.exists():
        run(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "3650",
            "-subj",
            "/CN=BMCs of the drover lab",
            "-addext",
            f"subjectAltName=IP:{ADDRESS}",
            "-keyout",
            layout.keys / "bmc",
            "-out",
            layout.bmc_certificate,
        )


def claim_port(host: Host) -> tuple[int, socket.socket]:
    """Return a port that is free for TCP and UDP; the socket holds its TCP."""
    for _attempt in range(50):
        listener = socket.create_server((ADDRESS, 0))
        port = listener.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((ADDRESS, port))
            except OSError:
                listener.close()
                continue
        return port, listener
    raise LabError(f"There is no free port for {host.name}'s BMC.")


def write_host_vars(layout: Layout, host: Host, port: int) -> None:
    """Write the variables of the host's power for both drivers; the lab's PID 1 accepts systemd's
    signals."""
    file = layout.host_vars(host)
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        "# Made by tests/lab/lab bmc up\n"
        + json.dumps(
            {
                "drover_power_driver": "redfish",
                "drover_power_address": f"{ADDRESS}:{port}",
                "drover_power_user": BMC_USER,
                "drover_power_password": BMC_PASSWORD,
                "drover_power_ca_path": os.fspath(layout.bmc_certificate),
                "drover_power_reboot_command": "kill -s RTMIN+5 1",
                "drover_power_shutdown_command": "kill -s RTMIN+4 1",
            },
            indent=2,
        )
        + "\n",
        encoding="utf-8",
    )
    file.chmod(0o600)


def end_with_the_switch(watch: socket.socket) -> None:
    """End with the switch: it sends nothing without a request, and closes the connection at its
    end."""
    watch.recv(1)
    os._exit(0)


def main() -> None:
    layout = Layout(sys.argv[1])
    lock = open(layout.bmc_lock, "a+", encoding="utf-8")  # held until the end of the process
    fcntl.flock(lock, fcntl.LOCK_EX)
    watch = control.connect(layout)
    make_certificate(layout)
    passwords = layout.run / "bmc.htpasswd"
    passwords.write_text(
        f"{BMC_USER}:{bcrypt.hashpw(BMC_PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n",
        encoding="utf-8",
    )
    sushy.app.configure(extra_config={"SUSHY_EMULATOR_AUTH_FILE": os.fspath(passwords)})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(layout.bmc_certificate, layout.keys / "bmc")
    powers: dict[int, Power] = {}
    # The application needs this at every request.
    systems = RedfishSystems(powers)
    type(sushy.app).systems = property(lambda _app: systems)
    for host in layout.hosts():
        port, listener = claim_port(host)
        powers[port] = Power(layout, host)
        server = make_server(
            ADDRESS, port, sushy.app, threaded=True, ssl_context=context, fd=listener.detach()
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        IpmiBmc(powers[port], port)
        write_host_vars(layout, host, port)
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    threading.Thread(target=end_with_the_switch, args=[watch], daemon=True).start()
    IpmiBmc.listen()


if __name__ == "__main__":
    main()

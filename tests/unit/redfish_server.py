# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A management controller with Redfish over TLS that behaves as some real ones do.

It has the refusals of a real one: a wrong login (401), an unknown path (404), a reset type that it
does not have (400).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import email.utils
import http.server
import json
import socket
import ssl
import subprocess
import threading
import time

USER, PASSWORD = "drover", "bmc-secret"
ALL = ("On", "ForceOff", "GracefulShutdown", "ForceRestart")
SYSTEMS = "/redfish/v1/Systems"


@dataclasses.dataclass
class Ways:
    """Its behaviour. The numbers count requests (POST), except busy_looks."""

    allowed: tuple = ALL
    #: Reset types in an ActionInfo; None for none.
    described: tuple | None = None
    #: Values: inline, none, or empty.
    announced: str = "inline"
    systems: tuple = ("1",)
    #: Number of busy answers, and their header; date uses its own clock, which is a day late.
    busy: int = 0
    busy_looks: int = 0
    busy_status: int = 503
    retry_after: str = "1"
    #: Do it, and close the connection without an answer.
    drops: bool = False
    #: Do it, but answer so many seconds later, or do nothing and never answer.
    answers_after: float = 0
    #: Do it so many seconds after the answer.
    acts_after: float = 0
    #: Answer with success, and do nothing.
    lies: bool = False
    #: Status of each answer except for the service root, with a message.
    refuses: int = 0
    message: tuple = (
        "Base.1.18.0.PasswordChangeRequired",
        "The password provided for this account must be changed before access is granted.",
    )
    #: {path: (status, where)}.
    redirects: dict = dataclasses.field(default_factory=dict)
    #: {path: bytes or object} of the replaced answers.
    answers: dict = dataclasses.field(default_factory=dict)
    #: Methods with an answer that comes byte by byte, and never ends.
    drips: tuple = ()
    #: Number of busy answers for the list of reset types.
    busy_info: int = 0
    #: The answer to a request for the list of systems.
    systems_answer: object = None
    #: UUID of the system, as the controller writes it.
    uuid: object = None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_words):
        pass

    def reply(self, status, content=None, **headers):
        body = (
            b""
            if content is None
            else content
            if isinstance(content, bytes)
            else json.dumps(content).encode()
        )
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate(time.time() - 86400, usegmt=True)

    def problem(self, status, key, message, **headers):
        extended = [
            {
                "@odata.type": "#Message.v1_1_2.Message",
                "MessageId": key,
                "Message": message,
                "Severity": "Critical",
            }
        ]
        general = "A general error has occurred. See ExtendedInfo for more information."
        self.reply(
            status,
            {
                "error": {
                    "code": "Base.1.18.0.GeneralError",
                    "message": general,
                    "@Message.ExtendedInfo": extended,
                }
            },
            **headers,
        )

    def drip(self):
        """Answer very slowly, without a long pause and without an end."""
        with contextlib.suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not self.server.ended.wait(0.2):
                self.wfile.write(b" ")
        self.close_connection = True

    def is_stopped(self):
        """Send the answers that do not depend on the resource; return True if the request is
        answered."""
        ways = self.server.ways
        path = self.path.rstrip("/")
        if path in ways.redirects:
            status, where = ways.redirects[path]
            self.reply(status, Location=where)
        elif path == "/redfish/v1":
            return False
        elif (
            self.headers.get("Authorization")
            != "Basic " + base64.b64encode(f"{USER}:{self.server.password}".encode()).decode()
        ):
            self.problem(
                401,
                "Base.1.18.0.NoValidSession",
                "There is no valid session established with the implementation.",
            )
        elif ways.refuses:
            self.problem(ways.refuses, *ways.message)
        else:
            return False
        return True

    def is_busy(self, which):
        ways = self.server.ways
        count = getattr(ways, which)
        if count <= 0:
            return False
        setattr(ways, which, count - 1)
        until = ways.retry_after
        headers = (
            {
                "Retry_After": (
                    email.utils.formatdate(time.time() - 86400 + 1, usegmt=True)
                    if until == "date"
                    else until
                )
            }
            if until
            else {}
        )
        self.problem(
            ways.busy_status,
            "Base.1.18.0.ServiceTemporarilyUnavailable",
            "The service is temporarily unavailable.",
            **headers,
        )
        return True

    def do_GET(self):
        server, ways, path = self.server, self.server.ways, self.path.rstrip("/")
        server.seen.append(("GET", path))
        if self.is_stopped() or self.is_busy("busy_looks"):
            return
        if path in ways.answers:
            self.reply(200, ways.answers[path])
        elif "GET" in ways.drips:
            self.drip()
        elif path == "/redfish/v1":
            self.reply(
                200,
                {
                    "@odata.id": "/redfish/v1/",
                    "RedfishVersion": "1.18.0",
                    "Systems": {"@odata.id": SYSTEMS},
                },
            )
        elif path == SYSTEMS:
            members = [{"@odata.id": f"{SYSTEMS}/{each}"} for each in ways.systems]
            self.reply(
                200,
                (
                    {"Members": members, "Members@odata.count": len(members)}
                    if ways.systems_answer is None
                    else ways.systems_answer
                ),
            )
        elif path.rpartition("/")[0] == SYSTEMS and path.rpartition("/")[2] in ways.systems:
            action = {"target": f"{path}/Actions/ComputerSystem.Reset"}
            if ways.announced != "none":
                action["ResetType@Redfish.AllowableValues"] = (
                    list(ways.allowed) if ways.announced == "inline" else []
                )
            if ways.described is not None:
                action["@Redfish.ActionInfo"] = f"{path}/ResetActionInfo"
            identity = {} if ways.uuid is None else {"UUID": ways.uuid}
            self.reply(
                200,
                {
                    "@odata.id": path,
                    **identity,
                    "PowerState": server.state,
                    "Actions": {"#ComputerSystem.Reset": action},
                },
            )
        elif path.endswith("/ResetActionInfo") and ways.described is not None:
            if self.is_busy("busy_info"):
                return
            self.reply(
                200,
                {
                    "Parameters": [
                        {
                            "Name": "ResetType",
                            "Required": True,
                            "AllowableValues": list(ways.described),
                        }
                    ]
                },
            )
        else:
            self.problem(
                404,
                "Base.1.18.0.ResourceMissingAtURI",
                f"The resource at the URI '{self.path}' was not found.",
            )

    def do_POST(self):
        server, ways = self.server, self.server.ways
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.seen.append(("POST", self.path))
        if self.is_stopped() or self.is_busy("busy"):
            return
        if not self.path.endswith("/Actions/ComputerSystem.Reset"):
            self.problem(
                405,
                "Base.1.18.0.ActionNotSupported",
                "The action is not supported by the resource.",
            )
            return
        kind = json.loads(body)["ResetType"]
        if kind not in (ways.described or ways.allowed):
            said = (
                f"The value '{kind}' for the parameter ResetType is not in the list of acceptable"
                " values."
            )
            self.problem(400, "Base.1.18.0.ActionParameterValueNotInList", said)
            return
        server.done.append(kind)
        if not ways.lies:
            (
                threading.Timer(ways.acts_after, server.act, [kind]).start()
                if ways.acts_after
                else server.act(kind)
            )
        if ways.drops:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if "POST" in ways.drips:
            self.drip()
            return
        if ways.answers_after and server.ended.wait(ways.answers_after):
            return
        with contextlib.suppress(OSError):
            self.reply(204)


class RedfishServer(http.server.ThreadingHTTPServer):
    """state: On or Off. seen: (method, path) of all requests. done: the resets that it carried
    out.
    """

    daemon_threads = True

    def __init__(self, folder, address="127.0.0.1", **ways):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), Handler)
        self.ways, self.state, self.password, self.seen, self.done, self.ended = (
            Ways(**ways),
            "On",
            PASSWORD,
            [],
            [],
            threading.Event(),
        )
        self.certificate = folder / "bmc.crt"
        if not self.certificate.exists():
            make_certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, folder / "bmc.key")
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        host, self.port = self.server_address[:2]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def act(self, kind):
        self.state = {
            "On": "On",
            "ForceOn": "On",
            "ForceOff": "Off",
            "GracefulShutdown": "Off",
        }.get(kind, self.state)

    def close(self):
        self.ended.set()
        self.shutdown()
        self.server_close()


def make_certificate(folder):
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
        ]
        + ["-subj", "/CN=a BMC", "-addext", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost"]
        + ["-keyout", folder / "bmc.key", "-out", folder / "bmc.crt"],
        check=True,
        capture_output=True,
    )

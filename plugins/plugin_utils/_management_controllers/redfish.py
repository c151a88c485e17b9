# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power by Redfish (DSP0266).

The modules of community.general replace a reset type that a controller does not have by another
one: GracefulShutdown by ForceOff. They do not separate a lost answer from a refusal, and an error
from an empty list. So this client has its own requests.
"""

from __future__ import annotations

import base64
import email.message
import email.utils
import errno
import http.client
import json
import os
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Mapping
from typing import IO, Any, NoReturn

from . import identity
from .address import Address
from .answers import (
    DELAY,
    ControllerBusy,
    ControllerRefused,
    PowerReport,
    UncertainRequest,
    Unreached,
)

PORT = 443
#: Requests, and the reset types that do exactly this. PushPowerButton is not among them: its effect
#: depends on the state.
_RESET_TYPES = {"on": ("On", "ForceOn"), "off": ("ForceOff",), "shutdown": ("GracefulShutdown",)}
_STATES = {"On": "on", "Off": "off"}
_RESET = "#ComputerSystem.Reset"
_ALLOWED = "ResetType@Redfish.AllowableValues"
_EXTENDED = "@Message.ExtendedInfo"
_REDIRECTS = (301, 302, 307, 308)
#: HTTP codes after which the request may be sent again: the controller, or a gateway before it, is
#: busy.
_BUSY = (429, 502, 503, 504)
#: Errors of a connection that was not established: nothing was sent.
_UNSENT = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)
_MOST = 4 * 1024 * 1024
_PAGES = 50
_IN_URLS = "%:/?#[]@!$&'()*+,;=~-._"
#: The number of further readings of a list of reset types while the controller is busy.
_TRIES = 3


class _AsIs(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirect: Python's own handler follows a POST with a GET, which is
    another request, and sends the password to any address.
    """

    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
    ) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _InTime(ssl.SSLSocket):
    """A connection with a timeout for the whole answer: with Python's own timeout, a slow stream of
    bytes could hold a run for ever.
    """

    _until: float | None = None

    def recv_into(self, *given: Any, **named: Any) -> int:
        limit = self.gettimeout()
        if self._until is None and limit is not None:
            self._until = time.monotonic() + limit
        if self._until is not None:
            remaining = self._until - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("the whole answer")
            self.settimeout(remaining)
        return super().recv_into(*given, **named)


class Redfish:
    """The way to one system of a controller."""

    def __init__(
        self,
        address: Address,
        user: str,
        password: str,
        why_not: Callable[[Collection[str]], str | None],
        *,
        resource_id: str = "",
        ca_path: str = "",
        validate_certs: bool = True,
        timeout: float = 20,
    ) -> None:
        """:param why_not: returns why the machine with these uuids is not the intended one, or
            None.
        :param timeout: the limit for one answer, in seconds.
        """
        self._base, self._user, self._password, self._why_not = (
            f"https://{address.netloc}",
            user,
            password,
            why_not,
        )
        self._resource_id, self._timeout = resource_id, timeout
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {
            "Accept": "application/json",
            "OData-Version": "4.0",
            "Authorization": f"Basic {token}",
        }
        context = _context(ca_path, validate_certs)
        context.sslsocket_class = _InTime
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _AsIs
        )

    def look(self) -> PowerReport:
        system = self._system()
        power_state, state = system.get("PowerState"), _state(system)
        problem = (
            ""
            if state != "unknown"
            else f"its power state is {self._clean_text(power_state) if power_state else 'not reported'}"
        )
        return PowerReport(state, problem, self._can(system))

    def send(self, request: str) -> None:
        try:
            target, body = self._prepared(request)
        except UncertainRequest as problem:
            raise Unreached(f"{problem}; nothing was sent") from None
        self._send_request("POST", target, body)

    def close(self) -> None:
        """Do nothing: there is no session."""

    def _prepared(self, request: str) -> tuple[str, dict[str, str]]:
        """Return the path and the body of a request. The reported state may be old, so it does not
        matter.
        """
        system = self._system()
        action = _action(system)
        target = action.get("target")
        if not isinstance(target, str) or not target:
            raise ControllerRefused(
                "it has no action that switches the power (#ComputerSystem.Reset); nothing was sent"
            )
        allowed = self._allowed(action)
        possible = [each for each in _RESET_TYPES[request] if not allowed or each in allowed]
        if not possible:
            raise ControllerRefused(
                f"it cannot do {' or '.join(_RESET_TYPES[request])}, only"
                f" {', '.join(sorted(allowed))}; nothing was sent"
            )
        return target, {"ResetType": possible[0]}

    def _can(self, system: Mapping[str, object]) -> list[str] | None:
        """Return the requests that the controller supports; None if it does not report them."""
        allowed = self._allowed(_action(system))
        return (
            [request for request, types in _RESET_TYPES.items() if allowed & set(types)]
            if allowed
            else None
        )

    def _allowed(self, action: Mapping[str, object]) -> set[str]:
        """Return the reset types that are in each list of the controller; empty if it has none."""
        lists = [action.get(_ALLOWED)]
        described = action.get("@Redfish.ActionInfo")
        if isinstance(described, str):
            try:
                parameters = self._soon(described).get("Parameters")
            except (ControllerRefused, UncertainRequest, ControllerBusy):
                # A request is never replaced by another one, so the controller itself refuses
                # unsupported requests.
                parameters = None
            for each in parameters if isinstance(parameters, list) else ():
                if isinstance(each, dict) and each.get("Name") == "ResetType":
                    lists.append(each.get("AllowableValues"))
        sets = [
            {value for value in each if isinstance(value, str)}
            for each in lists
            if isinstance(each, list) and each
        ]
        return set.intersection(*sets) or {"nothing"} if sets else set()

    def _soon(self, path: str) -> dict[str, object]:
        """Read an optional answer. A busy controller gets a few more tries, with a short pause
        before each.
        """
        for _try in range(_TRIES):
            try:
                return self._get(path)
            except ControllerBusy as busy:
                time.sleep(min(busy.seconds, DELAY))
        return self._get(path)

    def _system(self) -> dict[str, object]:
        """Read the system, and compare its machine; each reading and each request begins here."""
        system = self._any_system()
        why_not = self._why_not(identity.of_text(system.get("UUID")))
        if why_not:
            raise ControllerRefused(why_not)
        return system

    def _any_system(self) -> dict[str, object]:
        members, error_words = self._members()
        names = ", ".join(members) or "none"
        if self._resource_id:
            if self._resource_id not in members:
                raise ControllerRefused(
                    f"it has no system {self._resource_id} (drover_power_resource_id); it has:"
                    f" {self._clean_text(names)}"
                )
            return self._member(members[self._resource_id], members.values())
        if len(members) != 1:
            raise ControllerRefused(
                f"it has {len(members)} systems ({self._clean_text(names)}): set"
                " drover_power_resource_id to the id of the host"
                if members
                else (
                    "its list of systems is"
                    f" empty{error_words or ': see on its own page that it manages a machine'}"
                )
            )
        return self._member(next(iter(members.values())), members.values())

    def _member(self, path: str, members: Collection[str]) -> dict[str, object]:
        """Read a system that is in the list.

        :raises ControllerRefused: the answer belongs to another system, or has no state.
        """
        system = self._get(path)
        system_path = path.rstrip("/")
        for link in (system.get("@odata.id"), _action(system).get("target")):
            for other in (each.rstrip("/") for each in members if isinstance(link, str)):
                if (
                    other != system_path
                    and f"{link}/".startswith(f"{other}/")
                    and not f"{link}/".startswith(f"{system_path}/")
                ):
                    raise ControllerRefused(
                        f"its answer to {self._clean_text(path)} is that of another system: it names"
                        f" {self._clean_text(link)}; nothing was sent"
                    )
        if "PowerState" not in system:
            words = self._words(system, ": it says ")
            if words:
                raise ControllerRefused(
                    f"its answer to {self._clean_text(path)} has no power state{words}"
                )
        return system

    def _members(self) -> tuple[dict[str, str], str]:
        """Return the path of each system by its id, and the words of an error in the list, a
        clause; empty without one.
        """
        paths: dict[str, str] = {}
        root = self._get("/redfish/v1/")
        path = _link(root.get("Systems"))
        if path is None:
            raise ControllerRefused(
                "its service root has no list of systems"
                f" (Systems){self._words(root, ': it says ')}"
            )
        for _page in range(_PAGES):
            collection = self._get(path)
            members = collection.get("Members")
            if not isinstance(members, list):
                raise ControllerRefused(
                    f"{self._clean_text(path)} is no list of"
                    f" systems{self._words(collection, ': it says ')}"
                )
            for each in members:
                link = _link(each)
                if link is None:
                    raise ControllerRefused(f"an entry of {self._clean_text(path)} is no link")
                paths[urllib.parse.unquote(link.rstrip("/").rpartition("/")[2])] = link
            path = collection.get("Members@odata.nextLink")
            if not isinstance(path, str):
                return paths, self._words(collection, ": it says ")
        raise ControllerRefused("its list of systems has no end")

    def _get(self, path: str) -> dict[str, Any]:
        answer = self._send_request("GET", path)
        if not isinstance(answer, dict):
            raise ControllerRefused(
                f"its answer to {self._clean_text(path)} is no object of Redfish"
            )
        return answer

    def _send_request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer, read as JSON; None if it is empty or not JSON."""
        for _redirect in range(5):
            request = urllib.request.Request(
                self._url(path), method=method, headers=dict(self._headers)
            )
            if body is not None:
                request.data = json.dumps(body).encode()
                request.add_header("Content-Type", "application/json")
            try:
                with self._opener.open(request, timeout=self._timeout) as response:
                    return _read_json(response)
            except urllib.error.HTTPError as answer:
                with answer:
                    target = answer.headers.get("Location")
                    if answer.code not in _REDIRECTS or not target:
                        self._raise(method, path, answer)
                path = self._url(_join_address(path, target))
            except urllib.error.URLError as problem:
                # Python wraps errors that occur before the whole request is sent.
                self._unanswered(
                    method,
                    problem.reason if isinstance(problem.reason, Exception) else problem,
                    is_sent=False,
                )
            except (OSError, http.client.HTTPException) as problem:
                self._unanswered(method, problem)
        raise ControllerRefused(
            f"it redirects {self._clean_text(path)} again and again; nothing was done"
        )

    def _url(self, path: str) -> str:
        base = urllib.parse.urlsplit(self._base)
        try:
            url = urllib.parse.urljoin(f"{self._base}/", path)
            parts = urllib.parse.urlsplit(url)
            elsewhere = (
                parts.scheme != "https"
                or parts.hostname != base.hostname
                or (parts.port or PORT) != base.port
            )
        except ValueError:
            url, elsewhere = path, True
        if elsewhere:
            raise ControllerRefused(
                f"it leads to {self._clean_text(url)}, and the password is not sent to another address"
                " than drover_power_address; nothing was done"
            )
        # A link is a URL already; characters that are not allowed in a URL would end the request.
        return urllib.parse.quote(url, safe=_IN_URLS)

    def _unanswered(self, method: str, problem: Exception, is_sent: bool = True) -> NoReturn:
        """Raise the exception for a missing answer, by the type of the error."""
        if isinstance(problem, ssl.SSLCertVerificationError):
            raise ControllerRefused(
                f"its certificate is not trusted ({problem.verify_message}): set"
                " drover_power_ca_path to the CA that signed it"
            ) from None
        if isinstance(problem, ssl.SSLError) and not is_sent:
            raise Unreached(
                f"it makes no TLS connection ({problem.reason or type(problem).__name__})"
            ) from None
        if isinstance(problem, socket.gaierror):
            raise ControllerRefused(
                "its name is not known here: correct drover_power_address"
            ) from None
        if isinstance(problem, OSError) and problem.errno in _UNSENT:
            raise Unreached(f"it takes no connection ({os.strerror(problem.errno)})") from None
        words = (
            f"no answer within {self._timeout:.0f} s"
            if isinstance(problem, TimeoutError)
            else f"no whole answer ({_name(problem)})"
        )
        raise UncertainRequest(f"{words} to {method}") from None

    def _raise(self, method: str, path: str, answer: urllib.error.HTTPError) -> NoReturn:
        """Raise the exception for a status: a request with 4xx was not executed, with 5xx it may
        have been.
        """
        try:
            body = _read_json(answer)
        except (OSError, http.client.HTTPException):
            body = None
        words = self._words(body if isinstance(body, dict) else {}, ": ")
        sentence = (
            f"HTTP {answer.code} {http.client.responses.get(answer.code, '')}".rstrip()
            + f" for {method} {self._clean_text(path)}{words}"
        )
        if answer.code in _BUSY:
            raise ControllerBusy(f"it is busy, {sentence}", _retry_after(answer.headers))
        if answer.code >= 500 and answer.code != 501:
            raise UncertainRequest(f"{sentence}")
        if answer.code == 303:
            raise UncertainRequest(sentence)
        if "PasswordChangeRequired" in _message_ids(body):
            sentence += (
                f". Change the password of {self._user} on the controller, and then"
                " drover_power_password"
            )
        elif answer.code == 401:
            sentence += ". See that drover_power_user and drover_power_password are right"
        elif answer.code == 403:
            sentence += f". See that {self._user} may do this on the controller"
        raise ControllerRefused(sentence)

    def _words(self, body: Mapping[str, Any], before: str) -> str:
        """Return the controller's own words."""
        words = [
            str(each.get("Message") or each.get("MessageId") or "") for each in _messages(body)
        ]
        error = body.get("error")
        if not any(words) and isinstance(error, dict):
            words = [str(error.get("message") or error.get("code") or "")]
        text = " ".join(dict.fromkeys(each.strip() for each in words if each.strip()))
        return f"{before}{self._clean_text(text)}" if text else ""

    def _clean_text(self, value: Any) -> str:
        """Return text from outside on one line, short, and without the password."""
        text = " ".join(str(value).split())
        text = "".join(char if char.isprintable() else "?" for char in text)
        text = text.replace(self._password, "********") if self._password else text
        return (text if len(text) <= 400 else f"{text[:400]}...").rstrip(".")


def _context(ca_path: str, validate_certs: bool) -> ssl.SSLContext:
    try:
        is_folder = os.path.isdir(ca_path)
        context = ssl.create_default_context(
            cafile=None if is_folder else ca_path or None, capath=ca_path if is_folder else None
        )
    except (OSError, ssl.SSLError) as problem:
        raise ControllerRefused(
            f"drover_power_ca_path {ca_path} cannot be read as certificates ({_name(problem)})"
        ) from None
    if not validate_certs:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _read_json(response: Any) -> Any:
    text = response.read(_MOST)
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        return None


def _join_address(path: str, target: str) -> str:
    try:
        return urllib.parse.urljoin(path, target)
    except ValueError:
        return target


def _link(value: Any) -> str | None:
    found = value.get("@odata.id") if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


def _state(system: Mapping[str, object]) -> str:
    said = system.get("PowerState")
    return _STATES.get(said, "unknown") if isinstance(said, str) else "unknown"


def _action(system: Mapping[str, object]) -> dict[str, object]:
    actions = system.get("Actions")
    action = actions.get(_RESET) if isinstance(actions, dict) else None
    return action if isinstance(action, dict) else {}


def _messages(body: Any) -> list[dict[str, object]]:
    error = body.get("error") if isinstance(body, dict) else None
    entries = []
    for holder in (error, body):
        messages = holder.get(_EXTENDED) if isinstance(holder, dict) else None
        entries += (
            [each for each in messages if isinstance(each, dict)]
            if isinstance(messages, list)
            else []
        )
    return entries


def _message_ids(body: Any) -> set[str]:
    """Return the keys of the messages, without their registry and its version."""
    error = body.get("error") if isinstance(body, dict) else None
    codes = [error.get("code")] if isinstance(error, dict) else []
    return {
        str(each or "").rpartition(".")[2]
        for each in [*codes, *(each.get("MessageId") for each in _messages(body))]
    }


def _retry_after(headers: email.message.Message) -> float:
    """Return the seconds until the controller wants the next request. A date is compared with the
    controller's own clock, which is often wrong.
    """
    text = (headers.get("Retry-After") or "").strip()
    if text.isdecimal():
        return float(text)
    until = _time(text)
    if until is None:
        return DELAY
    now = _time(headers.get("Date") or "")
    return until - (time.time() if now is None else now)


def _time(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _name(problem: BaseException) -> str:
    """Name an error by its number if it has one: its text depends on a language or a library."""
    number = None if isinstance(problem, ssl.SSLError) else getattr(problem, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else type(problem).__name__

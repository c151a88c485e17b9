# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power by IPMI 2.0, with pyghmi."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from typing import Any

from . import identity
from .address import Address
from .answers import ControllerBusy, ControllerRefused, PowerReport, UncertainRequest, Unreached

PORT = 623
_CHASSIS, _GET_STATUS, _CONTROL = 0x00, 0x01, 0x02
_APP, _GET_SYSTEM_GUID = 0x06, 0x37
#: Chassis Control: power down at once, power up, soft shutdown by ACPI. None of them replaces
#: another.
_CONTROLS = {"off": 0x00, "on": 0x01, "shutdown": 0x05}
#: Completion codes of a request that was not executed and that the controller wants again: busy,
#: out of space, being updated, being started.
_BUSY = (0xC0, 0xC4, 0xD1, 0xD2)
#: Completion codes that do not show if the request was executed: time ran out, no answer of the
#: responsible part, duplicate packet, unspecified.
_OPEN = (0xC3, 0xCE, 0xCF, 0xFF)
#: pyghmi's own code for a missing answer; the completion codes have one byte.
_NO_CODE = 0xFFFF
_LOGINS = 3


class Ipmi:
    """The way to one controller. A session begins with the first call and ends with close()."""

    def __init__(
        self,
        address: Address,
        user: str,
        password: str,
        why_not: Callable[[Collection[str]], str | None],
    ) -> None:
        """:param why_not: returns why the machine with these uuids is not the intended one, or
        None.
        """
        self._address, self._user, self._password, self._why_not = address, user, password, why_not
        self._session: Any = None
        self._logins = 0

    def look(self) -> PowerReport:
        data = bytes(self._send_command(_GET_STATUS).get("data") or b"")
        if not data:
            return PowerReport("unknown", "its answer has no power state")
        return PowerReport("on" if data[0] & 1 else "off")

    def send(self, request: str) -> None:
        self._send_command(_CONTROL, [_CONTROLS[request]])

    def close(self) -> None:
        """End the session: a controller has few of them."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.ipmi_session.logout()
            except Exception:
                # pyghmi raises many types, and the controller itself ends a session without a
                # client.
                pass

    def _send_command(self, number: int, data: list[int] | None = None) -> dict[str, Any]:
        answer = self._raw(self._open_session(), _CHASSIS, number, data or [])
        code = answer.get("code", _NO_CODE)
        if code == 0:
            return dict(answer)
        words = self._hide_password(answer.get("error") or "no reason was given")
        if code in _BUSY:
            raise ControllerBusy(f"it is busy, completion code 0x{code:02x}: {words}")
        if code in _OPEN or code > 0xFF:
            self.close()
            raise UncertainRequest(
                f"no answer: {words}" if code > 0xFF else f"completion code 0x{code:02x}: {words}"
            )
        raise ControllerRefused(f"completion code 0x{code:02x}: {words}")

    def _raw(self, session: Any, function: int, number: int, data: list[int]) -> dict[str, Any]:
        try:
            return dict(session.raw_command(netfn=function, command=number, data=data))
        except Exception as problem:
            self.close()
            raise UncertainRequest(f"its answer was lost: {self._hide_password(problem)}") from None

    def _see_whose_it_is(self) -> None:
        """Compare the uuid of the machine before any other request of a session.

        :raises ControllerRefused: it is another machine.
        :raises Unreached: the answer was lost.
        """
        try:
            answer = self._raw(self._session, _APP, _GET_SYSTEM_GUID, [])
        except UncertainRequest as problem:
            raise Unreached(f"{problem}; nothing was sent") from None
        code = answer.get("code", _NO_CODE)
        if code in _BUSY:
            self.close()
            raise ControllerBusy(f"it is busy, completion code 0x{code:02x}")
        if code > 0xFF:
            self.close()
            raise Unreached("no answer to the question which machine it is of; nothing was sent")
        # Any other code means that it does not have this command.
        why_not = self._why_not(
            identity.of_bytes(bytes(answer.get("data") or b"")) if code == 0 else ()
        )
        if why_not:
            self.close()
            raise ControllerRefused(why_not)

    def _open_session(self) -> Any:
        """Return a session with the intended machine; a failed login has sent no request."""
        if self._session is not None:
            return self._session
        if self._logins >= _LOGINS:
            raise ControllerRefused("no session after several logins")
        try:
            from pyghmi.ipmi import command  # type: ignore[import-untyped]  # it has none
        except ImportError:
            raise ControllerRefused(
                "The power driver ipmi needs pyghmi in the Python that runs Ansible, and it is not"
                " there. Install it: pip install pyghmi"
            ) from None
        try:
            # The user is passed as bytes: pyghmi reuses an old session for a user that is a text.
            self._session = command.Command(
                bmc=self._address.host,
                userid=self._user.encode(),
                password=self._password.encode(),
                port=self._address.port,
            )
            # Without an answer pyghmi sends a packet four times, and then would log in again and
            # repeat that for a minute.
            self._session.ipmi_session.logontries = 0
        except socket.gaierror:
            raise ControllerRefused(
                "its name is not known here: correct drover_power_address"
            ) from None
        except Exception as problem:
            # The controller may be starting again, or all its sessions may be in use. Many logins
            # with a wrong password lock the user.
            self._logins += 1
            kind = Unreached if self._logins < _LOGINS else ControllerRefused
            raise kind(
                f"no session: {self._hide_password(problem)}. See that it can be reached, and that its user"
                " and password are right"
            ) from None
        self._see_whose_it_is()
        return self._session

    def _hide_password(self, problem: object) -> str:
        text = " ".join(str(problem).split()) or type(problem).__name__
        return (text.replace(self._password, "********") if self._password else text).rstrip(".")

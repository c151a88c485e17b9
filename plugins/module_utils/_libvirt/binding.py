# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The access to libvirt: guarded import, connections, and the text of errors.

Private to the collection. All functions below raise :class:`LibvirtProblem` with one sentence for
an operator; :func:`connect` turns it into the module's failure.

Every call to libvirt has a time limit. libvirt itself has no limit: if storage hangs, libvirtd
hangs too, accepts connections and does not answer.
"""

from __future__ import annotations

import errno
import functools
import re
import socket
import sys
import threading
import time
import traceback
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.respawn import (
    has_respawned,
    probe_interpreters_for_module,
    respawn_module,
)

from .._files.limits import CallTimeout, within
from .._files.problem import Problem
from . import machine, missing_drivers
from .calls import LimitedObject, Line

try:
    import libvirt
except ImportError:
    libvirt = None
    LIBVIRT_IMPORT_ERROR: str | None = traceback.format_exc()
else:
    LIBVIRT_IMPORT_ERROR = None

#: The time limit of a new connection in seconds. With a dead host behind SSH it would take two
#: minutes.
CONNECT_TIMEOUT = 30

#: The greatest time in seconds until sshd rejects a connection.
TURNED_AWAY = 10

#: The interpreters with a package python3-libvirt in distributions.
SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python", "/usr/bin/python3.9")

#: The reason why a new value may not count yet: a destination is reached by the value in the store.
_RECORDED = (
    " Was drover_migration_uri changed? It counts once the playbook drover.compute.discover has"
    " recorded it."
)

is_local = machine.is_local

_EVENT_LOOP = {"started": False}

#: The last error of libvirt in this thread.
_LAST = threading.local()


class LibvirtProblem(Problem):
    """A failure of libvirt. The text names the remedy for the operator."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        #: libvirt's error code (VIR_ERR_*); None for an error from other code.
        self.code = code


class LibvirtSilent(*((LibvirtProblem, libvirt.libvirtError) if libvirt else (LibvirtProblem,))):  # type: ignore[misc]  # without libvirt too
    """The error for a libvirt that did not answer in time. Nothing more is sent over its
    connection.

    The class is also a libvirtError, so code for a broken connection handles this error too.
    """

    def __init__(self, message: str) -> None:
        # Do not call libvirtError.__init__(): it uses the text of libvirt's last error.
        Exception.__init__(self, message)  # pylint: disable=non-parent-init-called,super-init-not-called
        self.code = self.err = None


def host_name() -> str:
    """Return the name of this machine."""
    return socket.gethostname()


def missing_binding_message() -> str:
    """Return the message for a hypervisor without libvirt's Python binding."""
    return (
        f"The Python binding of libvirt is missing on {host_name()} (for {sys.executable}): install"
        " the package python3-libvirt there (it has this name on Debian, Ubuntu, RHEL and Fedora),"
        " or point ansible_python_interpreter at a Python that has it, mostly /usr/bin/python3."
    )


def require_binding(module: AnsibleModule) -> None:
    """Check for libvirt's binding. If it is missing, try the Python of the system.

    Ansible may run modules with a Python of a virtual environment, and distributions have no
    binding for that Python. Then the module runs again under the Python of the system, and the
    function does not return.
    """
    if libvirt is not None:
        return
    if not has_respawned():
        interpreter = probe_interpreters_for_module(list(SYSTEM_PYTHONS), "libvirt")
        if interpreter:
            respawn_module(interpreter)
    module.fail_json(msg=missing_binding_message(), exception=LIBVIRT_IMPORT_ERROR)


def canonical_uuid(text: str) -> str:
    """Return a uuid in libvirt's spelling, from any spelling.

    :raises ValueError: the text is not a uuid.
    """
    return str(uuid.UUID(text))


def domain_uuid(module: AnsibleModule, text: str, done: str) -> str:
    """Return the uuid of a domain in libvirt's spelling. Fail the module if the text is not a uuid.

    :param done: the action that was not done, such as started.
    """
    uuid_text = ""
    try:
        uuid_text = canonical_uuid(text)
    except ValueError:
        module.fail_json(msg=f"{text!r} is not the uuid of a domain: nothing was {done}.")
    return uuid_text


def silence() -> None:
    """Stop libvirt from printing each error to stderr. Errors arrive as exceptions."""
    if libvirt is not None:
        libvirt.registerErrorHandler(_swallow, None)


def _swallow(context: Any, error: Any) -> None:
    """Remember an error and print nothing, see :func:`silence`."""
    _LAST.error = error


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of libvirt with exceptions that always have libvirt's error.

    The binding reads the error late, when it makes its exception. If Python frees an object of
    libvirt in between, this clears the error.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        _LAST.error = None
        try:
            return function(*args, **kwargs)
        except libvirt.libvirtError as exc:
            # If the error was cleared during the read, the exception has no code.
            if not (exc.err and exc.err[0]) and _LAST.error is not None:
                exc.err, exc.args = _LAST.error, (_LAST.error[2],)
            raise

    return call


def is_system(conn: Any) -> bool:
    """Return True if a connection is to the system daemon of libvirt, with its folders below
    /var/lib/libvirt.
    """
    try:
        return urllib.parse.urlsplit(conn.getURI()).path == "/system"
    except (ValueError, libvirt.libvirtError):
        return False


def quiet_uri(uri: str) -> str:
    """Return ``uri`` with SSH's questions switched off. Then a missing key is an error and not a
    hang.
    """
    parts = urllib.parse.urlsplit(uri)
    if "+ssh" not in parts.scheme or "no_tty=" in parts.query:
        return uri
    query = parts.query + ("&" if parts.query else "") + "no_tty=1"
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path, query, parts.fragment))


def uri_host(uri: str) -> str:
    """Return the host in ``uri``, or the name of this machine."""
    try:
        return urllib.parse.urlsplit(uri).hostname or host_name()
    except ValueError:
        return host_name()


def start_event_loop() -> None:
    """Run libvirt's event loop in a daemon thread. Keep-alive messages need it.

    Call this function only after a fork: threads do not survive a fork.
    """
    if _EVENT_LOOP["started"]:
        return
    libvirt.virEventRegisterDefaultImpl()
    _EVENT_LOOP["started"] = True
    threading.Thread(target=_run_events, name="libvirt-events", daemon=True).start()


def _run_events() -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError:
            return


def text_of(error: object) -> str:
    """Return the text of a libvirt error on one line, without libvirt's general prefixes."""
    text = " ".join(str(error).split())
    for prefix in ("internal error: ", "operation failed: "):
        if text.startswith(prefix):
            text = text[len(prefix) :]
    return text.rstrip(".")


def code_of(error: object) -> int | None:
    """Return libvirt's error code of an exception; None without one."""
    getter = getattr(error, "get_error_code", None)
    return getter() if getter else None


def is_unsupported(error: object) -> bool:
    """Return True if the driver does not support a call, or does not support its flags."""
    return code_of(error) in (
        libvirt.VIR_ERR_NO_SUPPORT,
        libvirt.VIR_ERR_INVALID_ARG,
        libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
    )


def domain_of(error: object) -> int | None:
    """Return the part of libvirt that reported an error (VIR_FROM_*); None without one."""
    getter = getattr(error, "get_error_domain", None)
    return getter() if getter else None


def number_of(error: object) -> int | None:
    """Return the error number of the system (errno) in an error of libvirt; None without one."""
    return error.get_int1() if code_of(error) == libvirt.VIR_ERR_SYSTEM_ERROR else None  # type: ignore[attr-defined]  # it is libvirt's


def is_pool_busy(error: object) -> bool:
    """Return True if an error of a storage pool may be temporary: another process starts, stops or
    refreshes the pool, or makes a volume in it.

    libvirt has no special code for this, and its texts are in the language of its host. Errors of
    programs such as qemu-img have another domain.
    """
    codes = (
        libvirt.VIR_ERR_OPERATION_FAILED,
        libvirt.VIR_ERR_OPERATION_INVALID,
        libvirt.VIR_ERR_INTERNAL_ERROR,
    )
    is_gone = code_of(error) == libvirt.VIR_ERR_NO_STORAGE_POOL
    return is_gone or (code_of(error) in codes and domain_of(error) == libvirt.VIR_FROM_STORAGE)


def opened_again(uri: str, opening: Callable[[], Any]) -> Any:
    """Open a connection. Try up to three times over SSH: sshd rejects some of many new connections
    (MaxStartups).

    :raises LibvirtProblem: the connection cannot be made.
    """
    for pause in (1, 2):
        begun = time.monotonic()
        try:
            return opening()
        except LibvirtProblem as exc:
            # If sshd rejects a connection, it ends at once.
            turned_away = (
                "+ssh" in uri
                and exc.code == libvirt.VIR_ERR_SYSTEM_ERROR
                and time.monotonic() - begun < TURNED_AWAY
            )
            if not turned_away:
                raise
        time.sleep(pause)
    return opening()


def open_connection(
    uri: str, keepalive: bool = False, seconds: float | None = None
) -> LimitedObject:
    """Open ``uri`` and return the connection with a time limit on all its calls
    (:class:`LimitedObject`).

    :param keepalive: True to let calls fail about 25 seconds after the peer became silent. This
        requires
        :func:`start_event_loop`.
    :param seconds: the time limit to open the connection; None for CONNECT_TIMEOUT.
    :raises LibvirtProblem: the connection cannot be opened.
    """
    if libvirt is None:
        raise LibvirtProblem(missing_binding_message())
    silence()
    seconds = seconds or CONNECT_TIMEOUT
    try:
        _port = urllib.parse.urlsplit(uri).port
    except ValueError as exc:
        raise LibvirtProblem(
            f"{uri!r} is not a libvirt URI ({exc}); it looks like qemu:///system, with an IPv6"
            " address like qemu+ssh://root@[fd00::20]/system."
        ) from exc
    try:
        conn = within(seconds, lambda: libvirt.open(uri if is_local(uri) else quiet_uri(uri)))
    except libvirt.libvirtError as exc:
        raise LibvirtProblem(_connect_message(uri, exc), code_of(exc)) from exc
    except CallTimeout:
        raise LibvirtProblem(_late_message(uri, seconds)) from None
    if keepalive and _EVENT_LOOP["started"]:
        try:
            conn.setKeepAlive(5, 5)
        except libvirt.libvirtError:
            # The driver needs no connection (test:///), or the daemon is old: there is nothing to
            # keep alive.
            pass
    explain = functools.partial(missing_drivers.explain, local=is_local(uri))
    return LimitedObject(
        conn, Line(uri_host(uri), LibvirtSilent, _classes(), _kept, is_pool_busy, conn, explain)
    )


def _classes() -> tuple[type, ...]:
    """Return the classes of all objects that libvirt returns."""
    return tuple(
        each
        for name, each in vars(libvirt).items()
        if isinstance(each, type) and name.startswith("vir")
    )


def _late_message(uri: str, seconds: float) -> str:
    if is_local(uri):
        return (
            f"libvirt on {host_name()} ({uri}) takes connections, but did not answer within"
            f" {seconds} s: look whether storage hangs there, and restart libvirtd (its guests run"
            " on)."
        )
    return (
        f"libvirt at {uri} did not answer within {seconds} s, asked from {host_name()}: "
        f"check that {uri_host(uri)} is up and reachable from here."
    )


def _connect_message(uri: str, error: Exception) -> str:
    text, where = text_of(error), host_name()
    code, number = code_of(error), number_of(error)
    if (
        number in (errno.ECONNREFUSED, errno.ENOENT, errno.EHOSTUNREACH, errno.ENETUNREACH)
        # The login by SSH succeeded: libvirt's program there misses the socket of its daemon.
        or re.search("virt-ssh-helper: .*-sock", text)
    ):
        if is_local(uri):
            return (
                f"libvirt is not running on {where} (URI {uri}): {text}. Start it there (systemctl"
                " start libvirtd, or virtqemud.socket where the daemons are split), or correct the"
                " URI."
            )
        return (
            f"libvirt at {uri} does not answer {where}: {text}. Start libvirtd on {uri_host(uri)},"
            " or correct the URI."
        )
    if code in (
        libvirt.VIR_ERR_NO_CONNECT,
        libvirt.VIR_ERR_INVALID_ARG,
        libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
    ) or (domain_of(error) == libvirt.VIR_FROM_URI):
        return (
            f"{uri!r} is not a libvirt URI that {where} can use ({text}); a hypervisor's own is"
            " qemu:///system."
        )
    if number in (errno.EACCES, errno.EPERM) or code in (
        libvirt.VIR_ERR_AUTH_FAILED,
        libvirt.VIR_ERR_AUTH_CANCELLED,
        libvirt.VIR_ERR_AUTH_UNAVAILABLE,
        libvirt.VIR_ERR_ACCESS_DENIED,
    ):
        return (
            f"libvirt at {uri} refused {where}: {text}. Run with become: true, or add the user to"
            " group libvirt."
        )
    if "+ssh" in uri:
        return (
            f"No SSH connection from {where} to libvirt at {uri}: {text}. Check with: virsh -c"
            f" '{uri}' uri. If its SSH refuses, give the SSH key of {where} access.{_RECORDED}"
        )
    return f"Cannot connect to libvirt at {uri} from {where}: {text}."


def connect(module: AnsibleModule, uri: str) -> LimitedObject:
    """Return a connection to ``uri``. Fail the module if it cannot be opened."""
    require_binding(module)
    try:
        return open_connection(uri)
    except LibvirtProblem as exc:
        module.fail_json(msg=str(exc))
        raise


def close(conn: Any) -> None:
    """Close a connection that may be None or already broken."""
    if conn is None:
        return
    try:
        conn.close()
    except libvirt.libvirtError:
        pass

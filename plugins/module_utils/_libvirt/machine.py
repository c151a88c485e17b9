# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identity of a machine, and its comparison with the identity of a host in the store.

Private to the collection. An address may lead to another machine, for example after a change of
DHCP, with a mistyped ansible_host, or if a task runs on the controller. The controller gives each
module the machine of the host in the store. The module compares it with its own machine before it
acts.
"""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict

#: The configuration files of libvirt, which may have a uuid of the host. libvirt prefers this uuid
#: to the uuid of the firmware.
SETTINGS = ("/etc/libvirt/libvirtd.conf", "/etc/libvirt/virtqemud.conf")
#: The uuid of the firmware; only root can read it.
FIRMWARE = "/sys/class/dmi/id/product_uuid"
MACHINE_ID = ("/etc/machine-id", "/var/lib/dbus/machine-id")

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SETTING = re.compile(r"""^\s*host_uuid\s*=\s*["']([^"']+)["']""", re.MULTILINE)

#: The environment variable with the Expected of the caller, as JSON.
EXPECTED = "DROVER_EXPECTED_MACHINE"
#: The results of judge().
SAME, OTHER, UNKNOWN = "same", "other", "unknown"


class Machine(TypedDict):
    """The machine that a module runs on.

    uuids: the uuids in the settings of libvirt, or else the uuid of the firmware. libvirt's
    host_uuid comes from there; without one libvirt generates a uuid. firmware: the uuid of the
    firmware, or None. machine_id: the machine id of the operating system, or None. read: True if
    the firmware could be read; then a missing uuid does not exist. verdict: the result of judge();
    None if no machine was expected.
    """

    uuids: list[str]
    firmware: str | None
    machine_id: str | None
    read: bool
    verdict: str | None


class ExpectedMachine(TypedDict):
    """The machine that the store has for a host.

    host: the name of the host. host_uuids: the uuids of the libvirts of the host. system_uuids,
    firmware_uuids, machine_ids: the values of the operating system that reported them. Unknown
    values are empty lists.
    """

    host: str
    host_uuids: list[str]
    system_uuids: list[str]
    firmware_uuids: list[str]
    machine_ids: list[str]


def is_local(uri: str) -> bool:
    """Return True if the hypervisor behind a URI is on the machine that opens it.

    The rule of libvirt: a URI without a host part always means this machine.
    """
    try:
        return not urllib.parse.urlsplit(uri).netloc
    except ValueError:
        return False


def given() -> str | None:
    """Return the Expected of this module's caller, as JSON; None if the caller expects no
    machine.
    """
    return os.environ.get(EXPECTED)


def here() -> Machine:
    """Return the identity of this machine, from small files."""
    uuids = [found for found in map(_setting, SETTINGS) if found]
    firmware = _text(FIRMWARE)
    of_firmware = plain_uuid(firmware or "")
    if not uuids and of_firmware:
        uuids = [of_firmware]
    ids = [_text(path) for path in MACHINE_ID]
    found_id = next((each for each in ids if each), None)
    return {
        "uuids": list(dict.fromkeys(uuids)),
        "firmware": of_firmware,
        "machine_id": found_id,
        "read": firmware is not None or not os.path.exists(FIRMWARE),
        "verdict": None,
    }


def judge(
    expected: ExpectedMachine, machine: Machine, of_libvirt: Callable[[], str | None] = lambda: None
) -> str:
    """Compare a machine with the expected machine. Return SAME, OTHER or UNKNOWN.

    :param of_libvirt: a function that returns the host_uuid of the caller's libvirt, or None. It is
        called only if the files do not decide. Reasons: a module for a host with a URI runs on
        another machine, and the settings may have changed since the start of libvirt.
    """
    expected_uuids = {*expected["host_uuids"], *expected["system_uuids"]}
    if expected_uuids.intersection(machine["uuids"]):
        return SAME
    libvirt_uuid = of_libvirt() if expected_uuids else None
    if libvirt_uuid is not None and libvirt_uuid in expected["host_uuids"]:
        return SAME
    if (expected_uuids and machine["uuids"]) or (expected["system_uuids"] and machine["read"]):
        return OTHER
    # A machine without a uuid has another host_uuid after each start of libvirt.
    if expected["machine_ids"] and machine["machine_id"]:
        return SAME if machine["machine_id"] in expected["machine_ids"] else OTHER
    return OTHER if libvirt_uuid is not None and not machine["read"] else UNKNOWN


def wrong_libvirt(expected: ExpectedMachine, uri: str, found: str | None) -> str | None:
    """Return the reason why the libvirt behind a URI does not belong to a host; None if it may.

    The libvirt is on another machine, so the machine of the module proves nothing.

    :param found: the host_uuid of the libvirt; None without an answer.
    """
    if found is None or not expected["host_uuids"] or found in expected["host_uuids"]:
        return None
    return (
        f"{uri}, a libvirt of {expected['host']}, is on another machine"
        f" ({described([found], None)}). The store has {described(expected['host_uuids'], None)} of"
        f" {expected['host']}. Nothing was done there. Correct drover_uris of {expected['host']} in"
        " the inventory. If this machine has replaced the old one, or its host_uuid was changed:"
        f" {replace_command(expected['host'])}"
    )


def described(host_uuids: Iterable[str | None], machine_id: str | None) -> str:
    """Return a part of a sentence that names a machine."""
    named = [f"host_uuid {each}" for each in dict.fromkeys(host_uuids) if each]
    return (
        ", ".join([*named, *([f"machine id {machine_id}"] if machine_id else [])])
        or "neither host_uuid nor machine id"
    )


def refusal(expected: ExpectedMachine, machine: Machine, name: str) -> str:
    """Return the sentence of a machine that refuses a task for another machine.

    :param name: the host name of the machine, or an empty text.
    """
    ids = [*expected["machine_ids"], None][0]
    return (
        f"this is not {expected['host']}, but another machine{name and f', {name}'}"
        f" ({described(machine['uuids'], machine['machine_id'])}). The store has"
        f" {described([*expected['host_uuids'], *expected['system_uuids']], ids)} of"
        f" {expected['host']}. Nothing was done there. Correct the address of {expected['host']} in"
        " the inventory (ansible_host, ansible_connection), or its DNS. If this machine has"
        f" replaced the old one, or its host_uuid was changed: {replace_command(expected['host'])}"
    )


def replace_command(host: str) -> str:
    """Return the command that records the replacement of the machine of a host."""
    return f"ansible-playbook drover.compute.host_replace -e drover_host={host}"


def read_expected(given: Mapping[str, object]) -> ExpectedMachine:
    """Return an Expected from data of another process.

    :raises ValueError: the data are not an Expected.
    """
    lists = {
        key: given.get(key, [])
        for key in ("host_uuids", "system_uuids", "firmware_uuids", "machine_ids")
    }
    host = given.get("host")
    if not isinstance(host, str) or not all(isinstance(each, list) for each in lists.values()):
        raise ValueError("it names no machine")
    texts = {
        key: [str(each).lower() for each in value]
        for key, value in lists.items()
        if isinstance(value, list)
    }
    return {
        "host": host,
        "host_uuids": texts["host_uuids"],
        "system_uuids": texts["system_uuids"],
        "firmware_uuids": texts["firmware_uuids"],
        "machine_ids": texts["machine_ids"],
    }


def read_machine(given: object) -> Machine | None:
    """Return the Machine in the report of a module; None if the report has none."""
    if not isinstance(given, dict) or not isinstance(given.get("uuids"), list):
        return None
    machine_id, verdict = given.get("machine_id"), given.get("verdict")
    return {
        "uuids": [str(each).lower() for each in given["uuids"]],
        "firmware": plain_uuid(str(given.get("firmware") or "")),
        "machine_id": machine_id if isinstance(machine_id, str) else None,
        "read": bool(given.get("read")),
        "verdict": verdict if isinstance(verdict, str) else None,
    }


def _setting(path: str) -> str | None:
    found = _SETTING.search(_text(path) or "")
    return plain_uuid(found.group(1)) if found else None


def plain_uuid(text: str) -> str | None:
    """Return a uuid in libvirt's spelling. Return None for other texts, and for a uuid of one
    repeated digit, because libvirt does not accept such a uuid.
    """
    plain = text.strip().lower()
    return plain if _UUID.fullmatch(plain) and len(set(plain) - {"-"}) > 1 else None


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536).strip()
    except OSError:
        return None

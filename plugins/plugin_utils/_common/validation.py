# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of whole numbers, uuids, names of hosts and keys: one rule and one sentence for each,
wherever people or hosts give them.
"""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
import re
import urllib.parse
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from .errors import DroverError, PlanError, natural, some

#: The most that a column of whole numbers in the database holds.
MOST = 2**31 - 1

_DIGITS = re.compile(r"[+-]?[0-9]{1,20}")
_LONGEST = 100
#: So much of an unknown key is shown.
LONGEST_KEY = 40
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")

#: Makes the exception that belongs to a sentence.
Refusal = Callable[[str], Exception]


def is_whole(value: Any, least: int | None = 0, most: int | None = MOST) -> bool:
    """Return True if a value is a whole number in a range; an end that is None is open. True and
    False are not whole numbers.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and (least is None or value >= least) and (most is None or value <= most)


def check_whole(
    where: str,
    value: object,
    least: int | None = 0,
    most: int | None = MOST,
    refuse: Refusal = DroverError,
) -> None:
    """Refuse a value that is not a whole number in a range.

    :param where: the beginning of the sentence, such as ``instance web1: vcpus``.
    """
    if not is_whole(value, least, most):
        ends = (
            f" from {least} to {most}"
            if most is not None
            else f" of at least {least}"
            if least is not None
            else ""
        )
        raise refuse(f"{where} must be a whole number{ends}, not {shown(value)}.")


def read_whole(
    where: str,
    value: Any,
    least: int | None = 0,
    most: int | None = MOST,
    refuse: Refusal = DroverError,
) -> int:
    """Return a whole number; as check_whole(), but digits in a text count, as templates and the
    command line give them.
    """
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    check_whole(where, value, least, most, refuse)
    return int(value)


def is_uuid(value: object) -> bool:
    """Return True if a value is a uuid in lower case, with its hyphens: in another spelling it
    would be another instance.
    """
    return isinstance(value, str) and canonical_uuid(value) == value


def canonical_uuid(value: Any) -> str | None:
    """Return a uuid in the spelling of libvirt and the store; None for a value that is not a uuid
    in any spelling.
    """
    try:
        return str(uuid.UUID(value.strip()))
    except (ValueError, AttributeError, TypeError):
        return None


def check_uuid(where: str, value: object) -> None:
    """Refuse a value that is not a uuid in lower case."""
    if not is_uuid(value):
        raise DroverError(f"{where}: {shown(value)} is no uuid in lower case.")


def read_uuid(where: str, value: object, refuse: Refusal = DroverError) -> str:
    """Return a uuid in lower case that may be given in any spelling."""
    uuid_text = canonical_uuid(value)
    if uuid_text is None:
        raise refuse(
            f"{where} must be a uuid such as 1b4e28ba-2fa1-11d2-883f-0016d3cca427, not"
            f" {shown(value)}."
        )
    return uuid_text


def check_keys(
    where: str,
    given: Iterable[object],
    known: Iterable[str],
    word: str = "key",
    refuse: Refusal = DroverError,
) -> None:
    """Refuse unknown keys: name each one that is near a known key, with that key, and the first of
    the others.

    The rest is counted, and a long one is cut: a file that does not belong to this collection may
    hold secrets.

    :param word: the word for such a key, such as option or hint.
    """
    known = list(known)
    unknown = sorted(str(key) for key in given if key not in known)
    if unknown:
        near = {key: did_you_mean(key, known) for key in unknown}
        others = [key for key in unknown if not near[key]][1:]
        named = [
            f"{key if len(key) <= LONGEST_KEY else f'{key[:LONGEST_KEY]}...'}{near[key]}"
            for key in unknown
            if key not in others
        ]
        more = f" and {len(others)} more" if others else ""
        raise refuse(
            f"{where}: unknown {word} {', '.join(named)}{more}. Known: {', '.join(known)}."
        )


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return a question in brackets with the known name that is nearest to another one; empty when
    none is near.

    :param prefix: the prefix of all names; it makes no name nearer.
    """
    by_lower = {each.lower().removeprefix(prefix): each for each in known}
    near = difflib.get_close_matches(name.lower().removeprefix(prefix), sorted(by_lower), 1)
    return f" (did you mean {by_lower[near[0]]}?)" if near else ""


def host_names(given: Iterable[object]) -> list[str]:
    """Return the names of hosts in their natural order, each once; a text may have several, with
    commas between them.

    :raises PlanError: there is none.
    """
    names = {part.strip() for each in given for part in str(each).split(",")} - {""}
    if not names:
        raise PlanError(
            "Which host? Name at least one, such as kvm1, or several as kvm1,kvm2. Nothing was"
            " done."
        )
    return sorted(names, key=natural)


def which_name(name: str, known: Iterable[str]) -> str:
    """Return did_you_mean() for the name of a host, an instance or the like: kmv1 and kvm01 are
    slips for kvm1, kvm9 is not.
    """
    numbers = _numbers(name)
    return did_you_mean(name, [each for each in known if _numbers(each) == numbers])


def _numbers(name: str) -> list[int]:
    return [int(each) for each in re.findall("[0-9]+", name)]


def unknown_host(host: str, known: Iterable[str], refuse: Refusal = PlanError) -> Exception:
    """Return the error for a host that is not in the store, or has no compute node there.

    :param known: the names of the others.
    """
    names = sorted(set(known), key=natural)
    if not names:
        return refuse(
            f"Host {host} is not in the store, which is empty. Run the playbook"
            " drover.compute.discover first."
        )
    # A list in JSON arrives in Python's spelling.
    several = [each for each in re.split(r"[\s,:;\[\]'\"]+", host) if each]
    if len(several) > 1 and set(several) & set(names):
        return refuse(
            f"{host} names {len(several)} hosts, and one host is wanted here. Run it once for each"
            " host; nothing was done."
        )
    return refuse(
        f"Host {host} is not in the store{which_name(host, names)}. Known hosts: {some(names, 10)}."
        " Run drover.compute.discover if it is new."
    )


def shown(value: object) -> str:
    """Return a value for a sentence, however long it is."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def is_host_name(text: object) -> bool:
    """Return True if a text is a name or an IPv4 address that can stand in a URI unchanged."""
    return isinstance(text, str) and _HOST_NAME.fullmatch(text) is not None


def why_no_uri(uri: str) -> str | None:
    """Return the reason why a text is not a URI, as a clause; None if it may be one."""
    try:
        parts = urllib.parse.urlsplit(uri)
        _port = parts.port
    except ValueError:
        return (
            "its host or its port cannot be read, and an IPv6 address needs brackets, such as"
            " qemu+ssh://root@[fd00::20]/system"
        )
    return None if parts.scheme else "it has no scheme, such as qemu+ssh://"


def why_no_address(text: str) -> str | None:
    """Return the reason why a text is not a name or IP address, with an optional port, as a clause;
    None if it may be one.
    """
    if re.search(r"[/@?#\\\s]", text) or not text:
        return "it has a scheme, or more than a host and a port" if text else "it is empty"
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(text)
        return None
    try:
        parts = urllib.parse.urlsplit(f"//{text}")
        return None if parts.hostname and parts.port != 0 else "it has no host, or no port"
    except ValueError:
        return "its brackets or its port are wrong"


def default_migration_uri(host: str) -> str | None:
    """Return the URI at which other hypervisors reach the libvirt of a host: ssh needs no further
    set-up.

    The URI has the operator's name of the host. The host's own name may be another one, or part of
    a URI.

    :returns: the URI, or None if the name is not a host name and no address.
    """
    if not is_host_name(host):
        try:
            host = f"[{ipaddress.IPv6Address(host)}]"
        except ValueError:
            return None
    return f"qemu+ssh://root@{host}/system" if "%" not in host else None

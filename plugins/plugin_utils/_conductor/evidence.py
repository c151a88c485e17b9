# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence on a host that does not answer, from other hypervisors and from the store."""

from __future__ import annotations

import contextlib
import time
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds

from .._common import storage_identity
from .._common.errors import DroverError, HostTimeout, Unreachable
from .._evacuation import fencing, host_answer
from .._store.database import clock
from .._store.engine import Connection
from .._store.hosts import power, services, storage_fences
from .._store.instances import evacuations
from .ports import Hand, Ports

#: The number of hypervisors that look, and of disks that they look at. Three show that not only one
#: link is broken; each look may last until its timeout.
WITNESSES = 3
DISKS = 32
#: Seconds that another hypervisor may take to look at the host.
PROBE = 60


class Witnesses(NamedTuple):
    """The hypervisors that look at a host, and the addresses and disks of that look.

    - disks: disks that nothing but the host should use.
    """

    peers: list[str]
    addresses: list[str]
    disks: list[str]


def collect(
    ports: Ports,
    host: str,
    others: Iterable[str],
    power_state: str,
    said: bool,
    answer: host_answer.HostAnswer | None = None,
) -> fencing.Evidence:
    """Look at a host from this controller and from other hypervisors (rules S2 and S3).

    :param others, power_state, said: see witnesses() and gather().
    :param answer: the answer of the host to this controller; None to find it out.
    """
    answer, variables = answer or ports.hosts.answer(host), ports.hosts.variables(host)
    with ports.store.read() as connection:
        witnessing = witnesses(connection, host, others, variables)
    question = {
        "addresses": witnessing.addresses,
        "port": int(variables.get("ansible_port") or 22),
        "disks": witnessing.disks,
    }
    answers = ports.hosts.at_once(
        {peer: lambda hand: _seen_by(hand, question) for peer in witnessing.peers}, PROBE
    )
    # A peer with a killed process gives no answer.
    seen = [
        {**({} if isinstance(said, DroverError) else said), "item": peer}
        for peer, said in answers.items()
    ]
    with ports.store.read() as connection:
        return gather(
            connection, host, answer, seen, power_state, said, uptime(ports.clock), inventory=others
        )


def _seen_by(hand: Hand, question: dict[str, Any]) -> dict[str, Any]:
    try:
        return hand.read("_host_probe", question)
    except Unreachable:
        return {"unreachable": True}
    except HostTimeout:
        return {}


def witnesses(
    connection: Connection, host: str, others: Iterable[str], variables: Mapping[str, Any]
) -> Witnesses:
    """Find hypervisors that can look at a host, see peers().

    :param others: the other hypervisors of the inventory.
    :param variables: the variables of the host in the inventory.
    :raises DroverError: the store does not know the host.
    """
    services.get(connection, host)
    # With a storage fence, the storage itself shows if the host is shut out. Until then the host
    # has its images in Ceph open, so they prove nothing.
    disks = _disks(connection, host, with_images=not variables.get("drover_storage_fence"))
    return Witnesses(
        peers(connection, host, others), _addresses(connection, host, variables), disks[:DISKS]
    )


def peers(connection: Connection, host: str, others: Iterable[str]) -> list[str]:
    """Return some of the other hypervisors, if possible hosts that were up at the last look."""
    others = sorted(set(others) - {host})
    up = sorted(services.up_hosts(connection, others, clock.now(connection)))
    return (up or others)[:WITNESSES]


def gather(
    connection: Connection,
    host: str,
    answer: host_answer.HostAnswer,
    seen: Sequence[Mapping[str, Any]],
    power_state: str,
    said: bool,
    started: float | None,
    soft_fenced: bool = False,
    inventory: Iterable[str] = (),
) -> fencing.Evidence:
    """Return the Evidence on a host.

    :param answer: the answer of the host to this controller.
    :param seen: for each hypervisor item (its name), and reached and storage of the module
        _host_probe; or unreachable.
    :param power_state: on, off, unknown or none, the answer of its power driver.
    :param said: True if a person says that the host is off.
    :param started: seconds since this controller started, or None.
    :param soft_fenced: True if its libvirt was restarted in this run and does not answer.
    :param inventory: the other hypervisors of the inventory; hosts that have left the fleet do not
        count.
    :raises DroverError: the store does not know the host.
    """
    service, now = services.get(connection, host), clock.now(connection)
    counted, down = power.looking_dead(connection, host, set(inventory))
    # A hypervisor that this controller does not reach looks dead too.
    lost = {str(each.get("item")) for each in seen if each.get("unreachable")}
    storages = {each.get("storage") for each in seen}
    fencings = [power.last_fencing(connection), storage_fences.last(connection, but=host)]
    fenced = max((each for each in fencings if each is not None), default=None)
    return fencing.Evidence(
        host=host,
        ssh=answer.means == host_answer.LOGIN,
        refused=answer.means == host_answer.REFUSED,
        refusal=answer.refusal,
        unclear=(answer.words or "nothing") if answer.means == host_answer.UNCLEAR else "",
        peers={str(each.get("item")): each.get("reached") for each in seen},
        storage=next((state for state in ("active", "silent") if state in storages), "unknown"),
        power=power_state,
        said=said,
        soft_fenced=soft_fenced,
        maintenance=service.maintenance,
        hosts=len(counted | lost),
        down=len(down | lost),
        unseen=None if service.last_seen_up is None else max(0, now - service.last_seen_up),
        started=started,
        fenced=None if fenced is None else max(0, now - fenced),
    )


def uptime(seconds: Any = time) -> float | None:
    """Return the seconds since this controller started; None if its clock cannot give them.

    :param seconds: the module time, or a clock, possibly without clock_gettime().
    """
    try:
        return seconds.clock_gettime(seconds.CLOCK_BOOTTIME)
    except (AttributeError, OSError):
        return None


def _addresses(connection: Connection, host: str, variables: Mapping[str, object]) -> list[str]:
    """Return the addresses of a host for other hypervisors, the address of migrations first.

    Use only addresses from the operator: the name that a host gives itself may belong to another
    host.
    """
    addresses: list[Any] = []
    for row in evacuations.addresses(connection, host):
        # An earlier version may have recorded a text that is not a URI.
        with contextlib.suppress(ValueError):
            addresses.append(urllib.parse.urlsplit(row["migration_uri"] or "").hostname)
        addresses.append(row["migration_address"])
    return list(
        dict.fromkeys(
            str(each) for each in [*addresses, variables.get("ansible_host"), host] if each
        )
    )


def _disks(connection: Connection, host: str, with_images: bool) -> list[str]:
    """Return the disks that only instances on this host may have in use.

    :param with_images: include images of Ceph, as rbd:SERVERS:/POOL/IMAGE.
    """
    instances = evacuations.instances(connection, host)
    elsewhere = set(evacuations.shown(connection, [each["uuid"] for each in instances], host))
    elsewhere |= {each["instance_uuid"] for each in evacuations.open_migrations(connection, host)}
    disks = [
        disk
        for each in instances
        if each["uuid"] not in elsewhere
        for disk in storage_identity.all_disks(each)
    ]
    return sorted(
        {
            place
            for disk in disks
            if (place := _place_of_disk(disk))
            and (with_images or not kinds.is_watched(place))
            and disk.get("device", "disk") == "disk"
            and not (disk.get("readonly") or disk.get("shareable"))
        }
    )


def _place_of_disk(disk: Mapping[str, Any]) -> str | None:
    """Return the place of a disk for other hosts; None if it is not known."""
    if kinds.of_disk(disk).is_image:
        return disk.get("source")
    origin = str(disk.get("origin") or "")
    return origin if kinds.is_watched(origin) else None

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions of a fleet that will cause failures: things that guests use and other hosts lack,
hosts that differ, clocks, space.

Data in, data out. Answers of hosts are checked like any other input: a host with an unreadable
answer is a finding.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.drover.compute.plugins.module_utils._libvirt import drivers
from ansible_collections.drover.compute.plugins.module_utils._libvirt.versions import dotted
from ansible_collections.drover.compute.plugins.module_utils._migration.options import (
    TIMEOUT_PER_GIB,
    time_limit,
)

from .._common.errors import DroverError
from .._migrations.options import MigrationOptions

ERROR, WARNING = "error", "warning"
#: The seconds that a clock may be ahead or behind: a larger difference makes certificates and times
#: in the store wrong.
CLOCK = 2.0
#: GiB below which the folder of the instances has too little space.
SPACE = 1.0
_LISTS = ("machines", "security", "networks", "pools", "pools_stopped", "secrets", "guests")
#: Lists that a host may leave out.
_MORE_LISTS = ("interfaces", "nwfilters", "missing_drivers")
#: The things that guests use: the key, its name, and the remedy for a host that lacks it.
_USED = (
    (
        "machines",
        "machine",
        "the machine type {}",
        (
            "Upgrade QEMU there, or keep these guests on hosts that have it (requested_destination"
            " in their definitions)"
        ),
    ),
    (
        "networks",
        "networks",
        "the network {}",
        "Define and start it there: virsh net-define, virsh net-start {0}, virsh net-autostart {0}",
    ),
    (
        "interfaces",
        "interfaces",
        "the bridge or interface {}",
        "Make it there, or correct the guests' networks",
    ),
    (
        "pools",
        "pools",
        "the storage pool {}",
        (
            "Define and start it there: virsh pool-define, virsh pool-start {0}, virsh"
            " pool-autostart {0}"
        ),
    ),
    (
        "secrets",
        "secrets",
        "the secret {}",
        "Define it there with the same uuid and value: virsh secret-define, virsh secret-set-value",
    ),
    ("nwfilters", "nwfilters", "the network filter {}", "Define it there: virsh nwfilter-define"),
)
#: The driver that a host needs to have any of these.
_DRIVER = {"networks": "network", "pools": "storage", "secrets": "secret", "nwfilters": "nwfilter"}


class HostFinding(NamedTuple):
    """One line of the table: a host, the severity, the finding, and the remedy."""

    host: str
    severity: str
    what: str
    remedy: str


#: The answer of a host, or the facts in its answer or in its record.
Host = Mapping[str, Any]
#: By their names.
Hosts = Mapping[str, Host]


def findings(answers: Hosts) -> list[HostFinding]:
    """Return the findings, errors first, then by host.

    :param answers: {host: the result of _host_check, with ``unreached``, sentences about other
        hosts that its SSH does not reach, ``lacking`` and ``names`` of its second look, and
        ``migration_address``}. Without a result, ``problem`` has the reason.
    """
    hosts, problems = {}, []
    for name, answer in answers.items():
        problem = answer.get("problem") or _unreadable(answer.get("host"))
        if problem:
            problems.append(
                HostFinding(
                    name,
                    ERROR,
                    f"it was not read: {problem.rstrip('.')}",
                    "Repair this, and run the check again",
                )
            )
        else:
            hosts[name] = answer["host"]
            problems += [
                *_clock(name, answer.get("clock_bounds")),
                *_findings_of_host(name, answer["host"]),
            ]
            problems += _missing_drivers(name, answer["host"].get("missing_drivers") or ())
            problems += _time_limits(name, answer["host"], answer.get("migration"))
        problems += [
            HostFinding(
                name, ERROR, sentence.rstrip("."), "Run the playbook drover.compute.migration_trust"
            )
            for sentence in answer.get("unreached") or ()
        ]
    problems += [
        *_lacking(hosts),
        *_secrets_unknown(hosts),
        *_cpus(hosts, answers),
        *_versions(hosts),
        *_security(hosts),
    ]
    problems += [*_same_machine(hosts), *_migration_addresses(hosts, answers)]
    return sorted(set(problems), key=lambda each: (each.severity != ERROR, each))


def recorded(hosts: Hosts) -> list[HostFinding]:
    """Return the findings that need no question to a host, from the records of all hosts in the
    store.

    :param hosts: {host: hypervisor_version, libvirt_version, host_uuid, hostname, addresses (None
        if they were not read), migration_address, missing_drivers, and further, pairs of a finding
        and a remedy}.
    """
    own_findings = [*_versions(hosts), *_same_machine(hosts)]
    for name, host in hosts.items():
        own_findings += [HostFinding(name, WARNING, *each) for each in host["further"]]
        own_findings += _missing_drivers(name, host["missing_drivers"])
        address = _address(host["migration_address"])
        if address is not None and host["addresses"] is not None:
            problems = _address_problems(
                {"addresses": [address], "silent": []}, host["addresses"], ERROR
            )
            own_findings += [
                HostFinding(name, severity, f"its drover_migration_address {what}", remedy)
                for severity, what, remedy in problems
            ]
    return sorted(set(own_findings), key=lambda each: (each.severity != ERROR, each))


def _address(value: Any) -> str | None:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        # A name is resolved by the other hosts.
        return None


def sentences(found: Sequence[HostFinding]) -> list[str]:
    """Return a sentence for each finding, with its hosts and its remedy."""
    return [
        f"{_some(names)}: {what}. {remedy}."
        for (dummy, what, remedy), names in _places(found).items()
    ]


def _places(found: Sequence[HostFinding]) -> dict[tuple[str, str, str], list[str]]:
    places: dict[tuple[str, str, str], list[str]] = {}
    for each in found:
        places.setdefault((each.severity, each.what, each.remedy), []).append(each.host)
    return places


def lines(hosts: int, found: Sequence[HostFinding]) -> list[str]:
    """Return the table for people: two lines for each finding, with its hosts."""
    if not found:
        return [f"{hosts} {'host' if hosts == 1 else 'hosts'} checked: nothing was found."]
    shown = []
    for (severity, what, remedy), names in _places(found).items():
        shown += [f"{severity:7}  {_some(names)}: {what}.", f"{'':7}  {'':2}{remedy}."]
    errors = sum(each.severity == ERROR for each in found)
    ending = (
        f"{hosts} {'host' if hosts == 1 else 'hosts'} checked: errors: {errors}, warnings:"
        f" {len(found) - errors}."
    )
    return [*shown, ending]


def _unreadable(host: Any) -> str | None:
    if not isinstance(host, Mapping):
        return "its answer has no facts"
    odd = [key for key in _LISTS if not isinstance(host.get(key), list)]
    odd += [
        key for key in _MORE_LISTS if host.get(key) is not None and not isinstance(host[key], list)
    ]
    odd += [
        key for key in ("pool_types", "missing_pool_types") if not _is_texts_by_name(host.get(key))
    ]
    if not odd:
        texts = [each for key in _LISTS[:-1] for each in host[key]] + [
            *(host.get("interfaces") or ()),
            *(host.get("nwfilters") or ()),
        ]
        odd = ["a name"] if not all(isinstance(each, str) for each in texts) else []
    if not odd and not all(_is_missing_driver(each) for each in host.get("missing_drivers") or ()):
        odd.append("missing_drivers")
    if not odd and not all(_is_guest(each) for each in host["guests"]):
        odd.append("guests")
    return f"its answer cannot be read ({', '.join(odd)})" if odd else None


def _is_guest(guest: Any) -> bool:
    return (
        isinstance(guest, Mapping)
        and isinstance(guest.get("name"), str)
        and all(_read_names(guest, key) is not None for dummy, key, *_dummy in _USED)
    )


def _read_names(guest: Mapping[str, object], key: str) -> list[str] | None:
    value = guest.get(key)
    names = [] if value is None else [value] if isinstance(value, str) else value
    return (
        names if isinstance(names, list) and all(isinstance(each, str) for each in names) else None
    )


def _is_missing_driver(each: Any) -> bool:
    return (
        isinstance(each, Mapping)
        and isinstance(each.get("driver"), str)
        and each["driver"] in drivers.DRIVERS
        and isinstance(each.get("package"), str)
        and isinstance(each.get("daemon"), (str, type(None)))
    )


def _is_texts_by_name(value: Any) -> bool:
    return value is None or (
        isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
    )


def _missing_drivers(name: str, missing: Iterable[Mapping[str, Any]]) -> Iterable[HostFinding]:
    for each in missing:
        yield HostFinding(name, WARNING, drivers.what(each["driver"]), drivers.remedy(each))


def _clock(name: str, bounds: Any) -> Iterable[HostFinding]:
    if not (
        isinstance(bounds, Sequence)
        and len(bounds) == 2
        and all(isinstance(each, (int, float)) for each in bounds)
    ):
        return
    least, most = bounds
    if least > CLOCK or most < -CLOCK:
        way, seconds = ("ahead of", least) if least > 0 else ("behind", -most)
        yield HostFinding(
            name,
            WARNING,
            f"its clock is at least {seconds:.0f} s {way} the controller's",
            "Let chrony or systemd-timesyncd set both clocks",
        )


def _findings_of_host(name: str, host: Host) -> Iterable[HostFinding]:
    if host.get("kvm") is False:
        yield HostFinding(
            name,
            WARNING,
            "it has no /dev/kvm, so that guests are emulated and slow",
            "Switch virtualisation on in its firmware and load kvm_intel or kvm_amd;"
            " drover_domain_type: qemu is for hosts without",
        )
    elif isinstance(host.get("why_no_kvm"), str):
        yield HostFinding(
            name,
            ERROR,
            f"no guest starts with KVM: {host['why_no_kvm'].rstrip('.')}",
            "Repair KVM (in a virtual machine: nested virtualisation), or set drover_domain_type:"
            " qemu, with which guests are emulated and slow",
        )
    free = host.get("free_gib")
    if isinstance(free, (int, float)) and free < SPACE:
        yield HostFinding(
            name,
            ERROR,
            f"the folder of its instances has {free:.1f} GiB left",
            "Free space there, or set drover_instances_path to another one",
        )
    pools = host.get("pools_free_gib")
    for pool, room in sorted(pools.items()) if isinstance(pools, Mapping) else ():
        if isinstance(room, (int, float)) and room < SPACE:
            yield HostFinding(
                name,
                WARNING,
                f"its storage pool {pool} has {room:.1f} GiB left",
                f"Free space there, or read it anew: virsh pool-refresh {shlex.quote(pool)}",
            )
    for pool in host.get("pools_stopped") or ():
        yield HostFinding(
            name,
            WARNING,
            f"its storage pool {pool} starts with the host, but is stopped",
            f"Start it: virsh pool-start {shlex.quote(pool)}",
        )


def _time_limits(name: str, host: Host, given: Any) -> Iterable[HostFinding]:
    """Yield options of migrations that contradict each other, and guests with memory that cannot be
    copied in the time of a migration.
    """
    try:
        if not isinstance(given or {}, Mapping):
            raise DroverError("drover_migration is no mapping")
        options = MigrationOptions(given or {}).general()
    except DroverError as exc:
        yield HostFinding(
            name,
            ERROR,
            f"no migration can begin: {str(exc).rstrip('.')}",
            "Correct drover_migration",
        )
        return
    bandwidth = options.get("bandwidth_mib")
    if bandwidth is None:
        return
    late = [
        each["name"]
        for each in host["guests"]
        if isinstance(each.get("memory_mib"), int)
        and each["memory_mib"] / bandwidth > time_limit(options, each["memory_mib"] / 1024, ())
    ]
    if late:
        yield HostFinding(
            name,
            WARNING,
            f"with bandwidth_mib {bandwidth} of drover_migration, a migration of {_some(late)} can"
            f" take longer than it may ({options.get('timeout_per_gib') or TIMEOUT_PER_GIB} s for"
            " each GiB)",
            "Allow more bandwidth_mib, or a longer timeout_per_gib",
        )


def _lacking(hosts: Hosts) -> Iterable[HostFinding]:
    """Yield the things that guests of some host use and another host does not have: they cannot
    move there.
    """
    for has, uses, what, remedy in _USED:
        users: dict[str, list[str]] = {}
        for host in hosts.values():
            for guest in host["guests"]:
                for name_used in _read_names(guest, uses) or ():
                    users.setdefault(name_used, []).append(guest["name"])
        for name_used, guests in sorted(users.items()):
            for name, host in hosts.items():
                if host.get(has) is not None and name_used not in host[has]:
                    yield HostFinding(
                        name,
                        WARNING,
                        f"it lacks {what.format(name_used)}, which {_some(guests)}"
                        f" {'uses' if len(set(guests)) == 1 else 'use'}: no move to here",
                        _advice(has, name_used, host, hosts)
                        or remedy.format(shlex.quote(str(name_used))),
                    )


def _advice(has: str, name: str, host: Host, hosts: Hosts) -> str | None:
    """Return the first remedy if a host lacks the driver of a missing thing; None if it has the
    driver.
    """
    for each in host.get("missing_drivers") or ():
        if each["driver"] == _DRIVER.get(has):
            return drivers.remedy(each)
    types = host.get("missing_pool_types") or {}
    kinds = [
        each["pool_types"][name]
        for each in hosts.values()
        if has == "pools" and name in (each.get("pool_types") or {})
    ]
    return next((drivers.pool_remedy((), types, kind) for kind in kinds if kind in types), None)


def _secrets_unknown(hosts: Hosts) -> Iterable[HostFinding]:
    """Yield the secrets that guests use, if a host does not report whether they have a value."""
    used = {
        each
        for host in hosts.values()
        for guest in host["guests"]
        for each in _read_names(guest, "secrets") or ()
    }
    for name, host in hosts.items():
        for secret in sorted(used.intersection(host.get("secrets_unknown") or ())):
            yield HostFinding(
                name,
                WARNING,
                f"it is not known if the secret {secret}, which guests use, has a value there:"
                " libvirt does not tell of private ones",
                "Set it once more if in doubt: virsh secret-set-value",
            )


def _some(guests: Iterable[str]) -> str:
    names = sorted(set(guests))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _cpus(hosts: Hosts, answers: Hosts) -> Iterable[HostFinding]:
    """Yield the hosts with a CPU that cannot run guests of other hosts."""
    for name in hosts:
        lacking = answers[name].get("lacking")
        if not isinstance(lacking, list) or not lacking:
            continue
        guests = [
            each["name"]
            for other, host in hosts.items()
            if other != name
            for each in host["guests"]
            if each.get("cpu") in lacking
        ]
        if guests:
            yield HostFinding(
                name,
                WARNING,
                f"its CPU lacks features that {_some(guests)}"
                f" {'uses' if len(set(guests)) == 1 else 'use'}: no live move to here",
                "Give these guests a CPU model that all hosts can run (cpu of the definition, or"
                " drover_cpu), and start them anew",
            )


def _same_machine(hosts: Hosts) -> Iterable[HostFinding]:
    """Yield the hosts that libvirt takes for one: it refuses a migration between them."""
    for key, what, remedy in (
        (
            "host_uuid",
            "host uuid",
            "Give each its own host_uuid in libvirtd.conf (virtqemud.conf), and restart the daemon",
        ),
        (
            "hostname",
            "host name",
            "Give each its own host name: hostnamectl set-hostname, and restart libvirt's daemon",
        ),
    ):
        users: dict[str, list[str]] = {}
        for name, host in hosts.items():
            if isinstance(host.get(key), str) and host[key]:
                users.setdefault(host[key], []).append(name)
        for value, names in users.items():
            if len(names) > 1:
                for name in names:
                    yield HostFinding(
                        name,
                        ERROR,
                        f"they have the same {what} {value}: libvirt refuses moves between them",
                        remedy,
                    )
    for name, host in hosts.items():
        other = host.get("hostname")
        if isinstance(other, str) and other != name and other in hosts:
            yield HostFinding(
                name,
                WARNING,
                f"its host name is {other}, which is another host of the inventory",
                "Correct its host name, or its ansible_host",
            )


def _migration_addresses(hosts: Hosts, answers: Hosts) -> Iterable[HostFinding]:
    """Yield the addresses for incoming migrations that are wrong for other hosts."""
    for name, host in hosts.items():
        declared = answers[name].get("migration_address")
        address = declared or host.get("hostname")
        if not isinstance(address, str) or not isinstance(host.get("addresses"), list):
            continue
        # Without the variable, migration_host in libvirt's qemu.conf may name another address.
        severity = ERROR if declared else WARNING
        what = (
            f"its drover_migration_address {address}"
            if declared
            else f"its host name {address}, to which guests are sent,"
        )
        seen: dict[tuple[str, str, str], list[str]] = {}
        for other in hosts:
            looked = (answers[other].get("names") or {}).get(address) if other != name else None
            for each in _address_problems(looked, host["addresses"], severity):
                seen.setdefault(each, []).append(other)
        for (severe, problem, remedy), others in seen.items():
            yield HostFinding(name, severe, f"{what} {problem} (seen from {_some(others)})", remedy)


def _address_problems(
    looked: Any, own: Sequence[Any], severity: str
) -> Iterable[tuple[str, str, str]]:
    if not isinstance(looked, Mapping) or not all(
        isinstance(looked.get(key), list) for key in ("addresses", "silent")
    ):
        return
    resolved = [str(each) for each in looked["addresses"]]
    strange = [each for each in resolved if each not in own]
    if not resolved:
        yield (
            severity,
            "cannot be resolved",
            (
                "Put it into DNS or /etc/hosts of all hosts, or set drover_migration_address to an"
                " address"
            ),
        )
    elif strange:
        yield (
            severity,
            f"is {', '.join(strange)}, which is no address of it",
            "Correct DNS, /etc/hosts, or drover_migration_address",
        )
    elif len(looked["silent"]) == len(resolved):
        yield (
            WARNING,
            "does not answer",
            (
                "Look at the route and the firewall between these hosts; where the firewall drops"
                " SSH and lets in migrations, all is well"
            ),
        )


def _versions(hosts: Hosts) -> Iterable[HostFinding]:
    """Yield the hosts with an older QEMU or libvirt than others: guests that were started with a
    newer one may not move there.
    """
    for key, what in (("hypervisor_version", "QEMU"), ("libvirt_version", "libvirt")):
        known = {name: host[key] for name, host in hosts.items() if isinstance(host.get(key), int)}
        newest = max(known.values(), default=0)
        for name, version in known.items():
            if version < newest:
                yield HostFinding(
                    name,
                    WARNING,
                    f"it has {what} {dotted(version)}, others have {dotted(newest)}: an instance"
                    " does not move from a newer to an older one",
                    f"Upgrade {what} there; drover.compute.rolling_maintenance does so host by"
                    " host",
                )


def _security(hosts: Hosts) -> Iterable[HostFinding]:
    """Yield the hosts with another security driver than most hosts."""
    drivers = {name: " and ".join(host["security"]) or "none" for name, host in hosts.items()}
    kinds = sorted(set(drivers.values()))
    if len(kinds) < 2:
        return
    usual = max(kinds, key=lambda kind: (list(drivers.values()).count(kind), kind))
    for name, driver in drivers.items():
        if driver != usual:
            yield HostFinding(
                name,
                WARNING,
                f"its security driver is {driver}, most hosts have {usual}: guests with a label of"
                " their own do not move between them",
                "Use the same driver on all hosts (security_driver in /etc/libvirt/qemu.conf)",
            )

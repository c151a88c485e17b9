# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of facts from hosts, and of data that people give in their place.

It comes before their use as URI, path, number or key.

The root user of a hypervisor controls its reports. An impossible fact of the host is a
DroverError, and nothing of the host is recorded. An impossible fact of a domain concerns only that
domain. A user who may name a guest must not hide a whole host by its name, and an existing guest
must not count as gone. So a bad name is mended if possible.

The result is a record of facts.py: node.describe() takes nothing else, and domain.describe() has
this check facts that had no check yet. The store gets facts only from them.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, cast, get_args

from ansible_collections.drover.compute.plugins.module_utils._libvirt.drivers import DRIVERS
from ansible_collections.drover.compute.plugins.module_utils._storage import kinds

from .._common import resource_classes
from .._common.errors import DroverError
from .._common.validation import MOST, check_uuid, check_whole, is_host_name, is_whole, shown
from .._records.hosts import Occupant
from .._records.node_fields import NODE_FIELDS, NUMBER, TEXT, NodeField
from .._records.statuses import PowerState
from . import hardware_facts
from .facts import CheckedDomain, CheckedReport, CpuFacts, HostFacts, KvmFacts, StorageFacts

# The largest number that JSON keeps everywhere.
LARGEST = 2**63 - 1
LONGEST_NAME, LONGEST_TEXT, LONGEST_XML = 255, 4096, 2**22
DEEPEST = 8
# The most files of one domain, without its disks; a domain with many snapshots has some hundred.
MOST_FILES = 10_000
#: The words of bindings of a guest to its host.
BINDING_WORDS = {
    "move": ("harmless", "looked_up", "off", "live", "never"),
    "evacuation": ("starts", "lost"),
    "only": ("", "running", "next_start"),
}
# The words of the module hypervisor_info.
STATES: tuple[PowerState, ...] = get_args(PowerState)
POOL_STATES = ("inactive", "building", "running", "degraded", "inaccessible", "unknown")

FILE_TYPES = tuple(
    each.name for each in kinds.DISKS if each.is_path or each.source is kinds.Source.VOLUME
)

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+ -]{0,63}")
_HARMLESS = re.compile(r"[ -~]*")
_CPUS = 2**16
# Facts with their own check.
_LOOSE = ("cpu", "supported_instances")


def reported(facts: Any, where: str) -> CheckedReport:
    """Check the report of a host; some domains may be left out or have other names.

    :param facts: the result of hypervisor_info.
    :raises DroverError: a fact of the host is impossible.
    """
    if not isinstance(facts, dict):
        raise DroverError(
            f"{where}: must be a mapping as hypervisor_info returns it, not {shown(facts)}."
        )
    name = facts.get("hypervisor_hostname")
    if not is_host_name(name):
        raise DroverError(
            f"{where}: hypervisor_hostname must be the name of a host (letters, digits, dots, - and"
            f" _), not {shown(name)}."
        )
    checked = host(facts, where)
    shown_domains = _list(facts, "domains", where)
    kept, sentences = domains(shown_domains, where)
    uuids = {each["uuid"] for each in kept}
    left_out = [
        each
        for each in shown_domains
        if not isinstance(each, dict) or str(each.get("uuid")) not in uuids
    ]
    untold = [_untold(each) for each in _list(facts, "untold_domains", where) + left_out]
    return CheckedReport(dataclasses.replace(checked, domains=kept), untold, sentences)


def _untold(domain: Any) -> Occupant:
    """Return an occupant for a domain that libvirt cannot describe."""
    facts = domain if isinstance(domain, dict) else {}
    name = str(facts.get("name") or "a domain without a description")
    return {
        "uuid": str(facts["uuid"]) if facts.get("uuid") else None,
        "name": " ".join(name.split())[:255],
        "state": "unknown",
        "host": None,
    }


def host(facts: Mapping[str, Any], where: str) -> HostFacts:
    """Check the facts of a host, except its domains, against the form of hypervisor_info.

    Data of people may have any name, and one machine with several hypervisors has several names.

    :param where: the owner of the facts, for the message.
    :raises DroverError: a fact has another form.
    """
    text(facts, "hypervisor_hostname", where, 2 * LONGEST_NAME)
    amount(facts, "libvirt_version", where)
    for entry in NODE_FIELDS:
        if entry.fact:
            _field(facts, entry, where)
    for resource in resource_classes.DISCOVERED.values():
        if resource.total:
            amount(*_last(facts, resource.total, where))
    for key in ("host_uuid", "system_uuid", "firmware_uuid"):
        if facts.get(key) is not None:
            check_uuid(f"{where}: {key}", facts[key])
    _word(facts, "machine_id", where)
    _word(facts, "boot_id", where)
    if facts.get("reboot_sign") is not None:
        text(facts, "reboot_sign", where, LONGEST_TEXT)
    if facts.get("uri") is not None:
        text(facts, "uri", where)
    missing_drivers(facts, where)
    cpu, storage = _mapping(facts, "cpu", where), _mapping(facts, "storage", where)
    _cpu(cpu, f"{where}: cpu")
    _storage(storage, f"{where}: storage")
    pools(facts.get("pools"), where)
    for triple in _list(facts, "supported_instances", where):
        if (
            not isinstance(triple, list)
            or len(triple) != 3
            or not all(_is_word(each) for each in triple)
        ):
            raise DroverError(
                f"{where}: supported_instances must hold lists of three words, not {shown(triple)}."
            )
    hardware = _mapping(facts, "guest_hardware", where)
    for key, words in hardware.items():
        if not isinstance(words, list) or not all(_is_word(each) for each in words):
            raise DroverError(
                f"{where}: guest_hardware must have lists of words, and {shown(key)} is"
                f" {shown(words)}."
            )
    cpu_model(facts.get("host_model"), f"{where}: host_model")
    lists = {
        key: _list(facts, key, where)
        for key in ("numa_cells", "networks", "pci_devices", "mdev_types", "mdev_devices")
    }
    for key, entries in lists.items():
        for entry in entries:
            if not isinstance(entry, dict):
                raise DroverError(
                    f"{where}: {key} must be a list of mappings, not of {shown(entry)}."
                )
            _check_nested_data(entry, f"{where}: {key}")
    hardware_facts.cells(lists["numa_cells"], where)
    hardware_facts.devices(facts, where)
    _files(facts, where)
    _addresses(facts, where)
    kvm = _mapping(facts, "kvm", where)
    _check_nested_data(kvm, f"{where}: kvm")
    if any(
        not isinstance(kvm.get(key), (bool, type(None))) for key in ("offered", "works")
    ) or not isinstance(kvm.get("message", ""), str):
        raise DroverError(f"{where}: kvm must say offered, works and message, not {shown(kvm)}.")
    _list(facts, "domains", where)
    return HostFacts(
        name=facts["hypervisor_hostname"],
        uri=facts.get("uri"),
        cpu=cast(CpuFacts, cpu),
        storage=cast(StorageFacts, storage),
        kvm=cast(KvmFacts, kvm),
        pools=facts.get("pools") or [],
        numa_cells=lists["numa_cells"],
        pci_devices=lists["pci_devices"],
        mdev_types=lists["mdev_types"],
        mdev_devices=lists["mdev_devices"],
        guest_hardware=hardware,
        missing_drivers=facts.get("missing_drivers") or [],
        missing_pool_types=facts.get("missing_pool_types") or {},
        domains=(),
        reported=facts,
    )


def of_people(facts: Mapping[str, object], where: str, place: str) -> HostFacts:
    """Check the facts of a host that people give. Nothing of them is mended or left out.

    :param where: the owner of the facts, for the message; ``place`` is the owner of the domains.
    :raises DroverError: a fact has another form.
    """
    domain_list = facts.get("domains") or []
    if not isinstance(domain_list, list):
        raise DroverError(f"{place}: domains must be a list, not {domain_list!r}.")
    seen: set[str] = set()
    kept = [
        domain(each, f"{place}: domain {number}", seen)
        for number, each in enumerate(domain_list, start=1)
    ]
    return dataclasses.replace(host(facts, where), domains=kept)


def domains(found: Iterable[Any], where: str) -> tuple[list[CheckedDomain], list[str]]:
    """Return the domains of a host that can be recorded, with names that can be kept.

    :param found: a list in the form of hypervisor_info.
    :returns: (list of domains, sentences about domains that were changed or left out).
    """
    kept: list[CheckedDomain] = []
    sentences: list[str] = []
    seen: set[str] = set()
    for number, facts in enumerate(found, start=1):
        try:
            facts = _with_name(facts, where, sentences)
            facts = _with_addresses(facts, where, sentences)
            kept.append(domain(facts, f"{where}: domain {number}", seen))
        except DroverError as problem:
            sentences.append(
                f"{problem} The domain was left out and is not known to be there: see to it on that"
                " host, and run drover.compute.discover again."
            )
    return kept, sentences


def domain(facts: Any, where: str, seen: set[str] | None = None) -> CheckedDomain:
    """Check the facts of one domain, from hypervisor_info or from people.

    :param seen: the uuids of the host's domains before it; its own uuid is added.
    :raises DroverError: a fact has another form.
    """
    if isinstance(facts, CheckedDomain) and seen is None:
        return facts
    if not isinstance(facts, dict) or not facts.get("uuid") or not facts.get("name"):
        raise DroverError(f"{where} needs a uuid and a name.")
    place = f"{where} ({shown(facts['name'])})"
    text(facts, "name", place)
    check_uuid(place, facts["uuid"])
    for entry in resource_classes.DISCOVERED.values():
        if entry.key:
            amount(facts, entry.key, place)
            amount(facts, resource_classes.RUNNING + entry.key, place)
    if facts.get("state") not in (None, "", *STATES):
        raise DroverError(
            f"{place}: state must be {', '.join(STATES)}, not {shown(facts['state'])}."
        )
    for key in ("persistent", "autostart", "managed_save", "snapshots"):
        if facts.get(key) is not None and not isinstance(facts[key], bool):
            raise DroverError(f"{place}: {key} must be true or false, not {shown(facts[key])}.")
    if facts.get("fixed_snapshots") is not None:
        for entry in _list(facts, "fixed_snapshots", place):
            if not isinstance(entry, str):
                raise DroverError(
                    f"{place}: fixed_snapshots must be a list of names, not of {shown(entry)}."
                )
            _clean(entry, f"{place}: fixed_snapshots", LONGEST_NAME)
    if facts.get("title") is not None:
        _clean(facts["title"], f"{place}: title", LONGEST_TEXT)
    if facts.get("xml") is not None:
        _clean(facts["xml"], f"{place}: xml", LONGEST_XML)
    for key, value in (_mapping(facts, "metadata", place)).items():
        _clean(key, f"{place}: metadata", LONGEST_NAME)
        if value is not None:
            _clean(value, f"{place}: metadata, {key}", LONGEST_TEXT * 16)
    _bindings(facts, place)
    for key in ("disks", "running_disks", "other_files", "interfaces", "hostdevs"):
        for number, entry in enumerate(_list(facts, key, place), start=1):
            if not isinstance(entry, dict):
                raise DroverError(
                    f"{place}: {key} must be a list of mappings, not of {shown(entry)}."
                )
            _check_nested_data(entry, f"{place}: {key}, item {number}")
            for size in ("capacity_bytes", "allocation_bytes"):
                amount(entry, size, f"{place}: {key}, item {number}", LARGEST)
            for word in ("target", "device", "type", "source", "format", "mac"):
                if entry.get(word) is not None:
                    _clean(entry[word], f"{place}: {key}, item {number}: {word}", LONGEST_TEXT)
            for layer in (
                (entry, *_layers(entry, f"{place}: {key}, item {number}"))
                if key in ("disks", "running_disks", "other_files")
                else ()
            ):
                _check_place(layer, f"{place}: {key}, item {number}")
    _other_files(_list(facts, "other_files", place), f"{place}: other_files")
    hardware_facts.of_domain(facts, place)
    if seen is not None:
        if facts["uuid"] in seen:
            raise DroverError(
                f"{place}: uuid {facts['uuid']} stands twice. Each domain has its own."
            )
        seen.add(facts["uuid"])
    return CheckedDomain(facts)


def pools(found: Any, where: str) -> None:
    """Check storage pools against the form of hypervisor_info.

    :raises DroverError: a pool has another form.
    """
    if found is not None and not (
        isinstance(found, list) and all(isinstance(pool, dict) for pool in found)
    ):
        raise DroverError(
            f"{where}: pools must be a list of mappings as hypervisor_info returns them, not"
            f" {shown(found)}."
        )
    for pool in found or []:
        text(pool, "name", f"{where}, pools")
        name = str(pool["name"])
        place = f"{where}, pools, {name if name.isprintable() else shown(name)}"
        for key in ("path", "real_path", "shared_id", "folder_id", "state"):
            if pool.get(key) is not None:
                text(pool, key, place, LONGEST_TEXT)
        if pool.get("state") not in (None, *POOL_STATES):
            raise DroverError(
                f"{place}: state must be {', '.join(POOL_STATES)}, not {shown(pool['state'])}."
            )
        if pool.get("uuid") is not None:
            check_uuid(place, pool["uuid"])
        for key in ("capacity_gb", "allocation_gb", "available_gb"):
            value = pool.get(key)
            if value is not None and not (is_number(value) and 0 <= value <= LARGEST):
                raise DroverError(
                    f"{place}: {key} must be a number of 0 or more, not {shown(value)}."
                )
        _check_nested_data(pool, place)


def missing_drivers(facts: Mapping[str, object], where: str) -> None:
    """Check the facts missing_drivers and missing_pool_types.

    :raises DroverError: they have another form than in hypervisor_info.
    """
    for entry in _list(facts, "missing_drivers", where):
        driver = entry if isinstance(entry, dict) else {}
        known = isinstance(driver.get("driver"), str) and driver["driver"] in DRIVERS
        if (
            not known
            or not _is_words(driver.get("package"))
            or not (driver.get("daemon") is None or _is_word(driver["daemon"]))
        ):
            raise DroverError(
                f"{where}: missing_drivers must hold mappings with driver, package and daemon, not"
                f" {shown(entry)}."
            )
    for kind, name in _mapping(facts, "missing_pool_types", where).items():
        if not _is_word(kind) or not _is_words(name):
            raise DroverError(
                f"{where}: missing_pool_types must have a package for each type, and {shown(kind)}"
                f" has {shown(name)}."
            )


def _is_words(value: Any) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= LONGEST_NAME
        and _HARMLESS.fullmatch(value) is not None
    )


def cpu_model(found: Any, where: str) -> None:
    """Check a CPU, if there is one, against the form of hypervisor_info and _cpu_baseline.

    :raises DroverError: it has another form.
    """
    if found is None:
        return
    if (
        not isinstance(found, dict)
        or not _is_word(found.get("model"))
        or found.get("type") not in (None, "kvm", "qemu")
    ):
        raise DroverError(
            f"{where} must be a mapping with the model of a CPU and a domain type, not"
            f" {shown(found)}."
        )
    for key in ("arch", "vendor"):
        _word(found, key, where)
    policies = _mapping(found, "policies", where)
    names = [*_list(found, "features", where), *policies]
    if not all(_is_word(each) for each in names) or not all(
        _is_word(each) for each in policies.values()
    ):
        raise DroverError(f"{where} must have names of CPU features.")


def amount(
    data: Mapping[str, object], name: str, where: str, most: int = MOST, least: int = 0
) -> None:
    """Check that a value is None or a whole number from ``least`` to ``most``."""
    value = data.get(name)
    if value is not None:
        check_whole(f"{where}: {name}", value, least, most)


def text(data: Mapping[str, object], name: str, where: str, longest: int = LONGEST_NAME) -> None:
    """Check that a value is a text of 1 to ``longest`` characters, without control characters."""
    value = data.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise DroverError(
            f"{where}: {name} must be a text of 1 to {longest} characters, not {shown(value)}."
        )
    _clean(value, f"{where}: {name}", longest)


def is_number(value: Any) -> bool:
    """Return True for a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _field(facts: Mapping[str, object], field: NodeField, where: str) -> None:
    data, name, place = _last(facts, field.fact, where)
    if field.types == NUMBER:
        amount(data, name, place, least=-MOST if field.signed else 0)
    elif field.types == TEXT:
        _word(data, name, place)
    elif data.get(name) is not None and not isinstance(data[name], field.types):
        raise DroverError(
            f"{place}: {name} must be a {'mapping' if dict in field.types else 'list'}, not"
            f" {shown(data[name])}."
        )
    elif name not in _LOOSE:
        _check_nested_data(data.get(name), f"{place}: {name}")


def _last(
    facts: Mapping[str, object], path: tuple[str, ...], where: str
) -> tuple[Mapping[str, Any], str, str]:
    """Follow a path of facts to its last mapping.

    Return the mapping, its key, and its place in words.
    """
    for key in path[:-1]:
        facts, where = _mapping(facts, key, where), f"{where}: {key}"
    return facts, path[-1], where


def _cpu(cpu: Mapping[str, object], where: str) -> None:
    for key in ("arch", "model", "vendor"):
        _word(cpu, key, where)
    # The store has a row for each CPU number.
    amount(cpu, "count", where, _CPUS)
    amount(cpu, "mhz", where)
    for key, value in (_mapping(cpu, "topology", where)).items():
        amount({key: value}, key, f"{where}, topology")
    if not all(
        isinstance(each, str) and _HARMLESS.fullmatch(each) and len(each) <= LONGEST_NAME
        for each in _list(cpu, "features", where)
    ):
        raise DroverError(f"{where}: features must be a list of names.")
    for cpu_number in _list(cpu, "online", where):
        if not is_whole(cpu_number, 0, _CPUS - 1):
            raise DroverError(
                f"{where}: online must be a list of numbers below {_CPUS}, not of"
                f" {shown(cpu_number)}."
            )


def _storage(storage: Mapping[str, object], where: str) -> None:
    amount(storage, "free_gb", where)
    for key in ("instances_path", "real_path", "shared_id", "folder_id"):
        if storage.get(key) is not None:
            text(storage, key, where, LONGEST_TEXT)


def _addresses(facts: Mapping[str, object], where: str) -> None:
    for address in _list(facts, "addresses", where):
        try:
            ipaddress.ip_address(address)
        except ValueError as exc:
            raise DroverError(
                f"{where}: addresses must be a list of IP addresses, not of {shown(address)}."
            ) from exc


def _files(facts: Mapping[str, object], where: str) -> None:
    """Check the facts that decide if two files are the same: mounts, block devices and images."""
    for key, needed in (("mounts", "path"), ("block_devices", "id"), ("images", "path")):
        for entry in _list(facts, key, where):
            if not isinstance(entry, dict):
                raise DroverError(
                    f"{where}: {key} must be a list of mappings, not of {shown(entry)}."
                )
            text(entry, needed, f"{where}: {key}", LONGEST_TEXT)
            _check_nested_data(entry, f"{where}: {key}")
            _check_place(entry, f"{where}: {key}")
            if not all(isinstance(name, str) for name in _list(entry, "names", f"{where}: {key}")):
                raise DroverError(
                    f"{where}: {key}: names must be a list of paths, not {shown(entry['names'])}."
                )


def _other_files(found: list[dict[str, object]], where: str) -> None:
    if len(found) > MOST_FILES:
        raise DroverError(f"{where} must hold at most {MOST_FILES} files, not {len(found)}.")
    for file in found:
        text(file, "source", where, LONGEST_TEXT)
        if file.get("type") not in FILE_TYPES or not isinstance(file.get("written"), bool):
            raise DroverError(
                f"{where}: an item must have a type ({', '.join(FILE_TYPES)}) and say if it is"
                f" written, not {shown(file)}."
            )


def _bindings(facts: Mapping[str, object], where: str) -> None:
    if facts.get("bindings") is None:
        return
    for number, binding in enumerate(_list(facts, "bindings", where), start=1):
        place = f"{where}: bindings, item {number}"
        if not isinstance(binding, dict) or not isinstance(binding.get("keep_running"), bool):
            raise DroverError(
                f"{where}: bindings must be a list of mappings as hypervisor_info returns them, not"
                f" of {shown(binding)}."
            )
        text(binding, "what", place, LONGEST_TEXT)
        for key, words in BINDING_WORDS.items():
            if binding.get(key) not in words:
                raise DroverError(
                    f"{place}: {key} must be one of {', '.join(words)}, not"
                    f" {shown(binding.get(key))}."
                )
        for key in ("way_out", "address"):
            if binding.get(key) is not None:
                _clean(binding[key], f"{place}: {key}", LONGEST_TEXT)


def _layers(disk: Mapping[str, object], where: str) -> list[dict[str, object]]:
    for name in _list(disk, "behind_on_network", where):
        text({"name": name}, "name", f"{where}: behind_on_network", LONGEST_TEXT)
    layers = _list(disk, "chain", where)
    for layer in layers:
        if not isinstance(layer, dict):
            raise DroverError(f"{where}: chain must be a list of mappings, not of {shown(layer)}.")
        text(layer, "path", f"{where}: chain", LONGEST_TEXT)
    return layers


def _check_place(each: Mapping[str, object], where: str) -> None:
    for key in ("path", "real_path", "shared_id", "digest"):
        if each.get(key) is not None:
            text(each, key, where, LONGEST_TEXT)


def _with_name(facts: Any, where: str, sentences: list[str]) -> Any:
    """Return a domain with a name that can be kept. A guest exists whatever its name is."""
    name = facts.get("name") if isinstance(facts, dict) else None
    if not isinstance(name, str):
        return facts
    mended = "".join("_" if _is_odd(letter) else letter for letter in name)[:LONGEST_NAME] or str(
        facts.get("uuid")
    )
    if mended == name:
        return facts
    sentences.append(
        f"{where}: the domain {shown(name)} ({shown(facts.get('uuid'))}) has a name that cannot be"
        f" kept; it is recorded as {mended}."
    )
    return {**facts, "name": mended}


def _with_addresses(facts: Any, where: str, sentences: list[str]) -> Any:
    """Return a domain without invalid addresses, because SSH might interpret them."""
    interfaces = facts.get("interfaces") if isinstance(facts, dict) else None
    if not isinstance(interfaces, list) or not any(
        isinstance(each, dict) and each.get("addresses") for each in interfaces
    ):
        return facts
    mended, bad = [], []
    for interface in interfaces:
        addresses = interface.get("addresses") if isinstance(interface, dict) else None
        if isinstance(addresses, list):
            good = [address for address in addresses if is_address(address)]
            bad += [address for address in addresses if address not in good]
            interface = {**interface, "addresses": good}
        mended.append(interface)
    if bad:
        sentences.append(
            f"{where}: domain {shown(facts.get('name'))}: {', '.join(map(shown, bad))} is no IP"
            " address, and was left out."
        )
    return {**facts, "interfaces": mended}


def is_address(value: Any) -> bool:
    """Return True for a text with an IP address."""
    try:
        return isinstance(value, str) and ipaddress.ip_address(value) is not None
    except ValueError:
        return False


def _mapping(data: Mapping[str, object], name: str, where: str) -> dict[str, Any]:
    value = data.get(name)
    if value is not None and not isinstance(value, dict):
        raise DroverError(f"{where}: {name} must be a mapping, not {shown(value)}.")
    return value or {}


def _list(data: Mapping[str, object], name: str, where: str) -> list[Any]:
    value = data.get(name)
    if value is not None and not isinstance(value, list):
        raise DroverError(f"{where}: {name} must be a list, not {shown(value)}.")
    return value or []


def _word(data: Mapping[str, object], name: str, where: str) -> None:
    value = data.get(name)
    if value is not None and not _is_word(value):
        raise DroverError(
            f"{where}: {name} must be a word of at most 64 letters, digits and . _ + -, not"
            f" {shown(value)}."
        )


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _clean(value: Any, where: str, longest: int) -> None:
    if not isinstance(value, str) or len(value) > longest:
        raise DroverError(
            f"{where} must be a text of at most {longest} characters, not {shown(value)}."
        )
    # A fast check for the usual case; the check of each character is slow.
    if _HARMLESS.fullmatch(value):
        return
    if any(_is_odd(letter) for letter in value):
        raise DroverError(f"{where} holds a control character: {shown(value)}.")


def _is_odd(letter: str) -> bool:
    """Return True for half of a surrogate pair or a control character.

    PostgreSQL refuses some of them.
    """
    return letter not in "\t\n\r" and unicodedata.category(letter) in ("Cc", "Cs")


def _check_nested_data(value: Any, where: str, depth: int = 0) -> None:
    """Check that nested data can be kept by JSON and the database."""
    if depth > DEEPEST:
        raise DroverError(f"{where}: is nested deeper than {DEEPEST} levels.")
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _clean(value, where, LONGEST_TEXT)
    elif isinstance(value, (int, float)):
        if not is_number(value) or abs(value) > LARGEST:
            raise DroverError(f"{where}: {shown(value)} is no number that can be kept.")
    elif isinstance(value, dict):
        for key, part in value.items():
            _clean(key, where, LONGEST_NAME)
            if part is not None and not isinstance(part, bool):
                _check_nested_data(part, where, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _check_nested_data(part, where, depth + 1)
    else:
        raise DroverError(f"{where}: {shown(value)} is no plain data.")

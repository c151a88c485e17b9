# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The type of domain and the CPU of a guest, from a definition or from its host's variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .._common.errors import DroverError
from . import fields, hardware_fields

TYPES = ("kvm", "qemu")
PASSTHROUGH = "host-passthrough"
#: The keys of a definition that describe the hardware of the instance.
KEYS = ("domain_type", *hardware_fields.INSTANCE_FIELDS)
#: More need an IOMMU with extended interrupt mode, which the domains of this collection do not
#: have.
MOST_VCPUS = {"x86_64": 255, "i686": 255}


def checked_type(value: Any, where: str) -> str | None:
    """Return a type of domain, or None.

    :raises DroverError: there is no such type.
    """
    if value in (None, ""):
        return None
    if value not in TYPES:
        raise DroverError(f"{where}: domain_type must be {' or '.join(TYPES)}, not {value!r}.")
    return value


def checked_cpu(value: Any, where: str) -> dict[str, Any] | None:
    """Return a CPU as a dict of mode, model (None if the mode needs none) and features if there are
    any, or None.

    :raises DroverError: it is not a CPU.
    """
    if value in (None, "", {}):
        return None
    cpu: dict[str, Any] = fields.read(
        {"cpu": hardware_fields.INSTANCE_FIELDS["cpu"]}, {"cpu": value}, where
    )["cpu"]
    return cpu


def hardware(
    offered: str | None, given: Mapping[str, object], of_host: Mapping[str, object], where: str
) -> dict[str, Any]:
    """Return the hardware of a guest: its definition overrides its host's variables, and these
    override the offer of the host.

    :param offered: the best type of domain that the host offers.
    :param given, of_host: dicts with domain_type and cpu, as a definition and as the host's
        variables have them.
    :returns: a dict: domain_type, cpu (mode, model, features; None for QEMU's default).
    :raises DroverError: a value is invalid, or the host cannot provide it.
    """
    place = f"{where}, drover_domain_type and drover_cpu"
    kind = (
        checked_type(given.get("domain_type"), where)
        or checked_type(of_host.get("domain_type"), place)
        or offered
    )
    cpu = checked_cpu(given.get("cpu"), where) or checked_cpu(of_host.get("cpu"), place)
    if kind == "kvm" and offered not in (None, "kvm"):
        raise DroverError(
            f"{where}: its domain_type is kvm, which the host does not offer: only {offered}. Take"
            " that out, or choose another host."
        )
    if kind != "kvm" and cpu is not None and cpu["mode"] == PASSTHROUGH:
        raise DroverError(
            f"{where}: a CPU of mode {PASSTHROUGH} needs KVM, and its domain_type is {kind}. Take"
            " another mode, such as maximum."
        )
    if cpu is None and kind == "kvm":
        cpu = {"mode": "host-model", "model": None}
    return {"domain_type": kind, "cpu": cpu}


def lacking(
    given: Mapping[str, Any], vcpus: int, arch: str | None, kinds: Collection[str]
) -> list[str]:
    """Return the reasons why a host cannot build a guest, by its last discovery; an empty list if
    they are not known.

    :param given: a dict with domain_type and cpu, as a definition has them.
    :param arch, kinds: the architecture of the host, and the types of domain that it offers for it.
    """
    reasons = []
    if kinds and "kvm" not in kinds:
        for key, value in (
            ("domain_type", given.get("domain_type") == "kvm"),
            ("cpu", (given.get("cpu") or {}).get("mode") == PASSTHROUGH),
        ):
            if value:
                wish = (
                    "its domain_type is kvm"
                    if key == "domain_type"
                    else f"a CPU of mode {PASSTHROUGH} needs KVM"
                )
                reasons.append(
                    f"{wish}, and that host offers only {' and '.join(sorted(kinds))}: take {key}"
                    " out of its definition, or repair KVM there"
                )
    if vcpus > MOST_VCPUS.get(arch or "", vcpus):
        reasons.append(
            f"a guest of {arch} has at most {MOST_VCPUS[arch or '']} vCPUs, and it has {vcpus}:"
            " give it fewer"
        )
    return reasons

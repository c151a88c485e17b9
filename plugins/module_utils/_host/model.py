# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPU that a hypervisor can give its guests, and the nearest CPU that has only some of its
features.

Private to the collection. Source:
https://libvirt.org/html/libvirt-libvirt-host.html#virConnectBaselineHypervisorCPU.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from .._libvirt import binding
from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text, parse
from .capabilities import features_of, host_model_cpu

_NOT_TOLD = (
    "VIR_ERR_NO_SUPPORT",
    "VIR_ERR_CONFIG_UNSUPPORTED",
    "VIR_ERR_ARGUMENT_UNSUPPORTED",
    "VIR_ERR_INVALID_ARG",
)


def read(
    conn: Any, arch: str | None, supported_instances: Iterable[Sequence[str]]
) -> dict[str, object] | None:
    """Return the CPU of host-model for guests of this architecture.

    :param supported_instances: triples of architecture, domain type and operating system type.
    :returns: arch, type (kvm, or qemu without KVM), vendor (or None), model, features (all of them,
        also the model's); None if libvirt does not say.
    """
    kinds = {each[1] for each in supported_instances if each[0] == arch}
    kind = next((each for each in ("kvm", "qemu") if each in kinds), None)
    if kind is None:
        return None
    try:
        text = _host_model(conn, arch, kind)
        features = None if text is None else _features(conn, arch, kind, text)
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) in [getattr(libvirt, name) for name in _NOT_TOLD]:
            return None
        raise
    if text is None or not features:
        return None
    root = parse(text)
    return {
        "arch": arch,
        "type": kind,
        "vendor": child_text(root, "vendor"),
        "model": child_text(root, "model"),
        "features": features,
    }


def baseline(conn: Any, arch: str, kind: str, common: Collection[str]) -> dict[str, object] | None:
    """Return the nearest CPU of host-model that has no other feature than the common ones.

    Models and features of other hosts are not given to libvirt here: an old libvirt refuses unknown
    ones.

    :param common: names of the features that all hosts have.
    :returns: vendor, model, policies (of features in addition to or missing from the model's:
        {name: require or disable}), features (all of the CPU); None if libvirt has no host-model.
    :raises libvirt.libvirtError: libvirt finds no model.
    """
    text = _host_model(conn, arch, kind)
    if text is None:
        return None
    root = parse(text)
    lacking = [name for name in _features(conn, arch, kind, text) if name not in common]
    for each in [each for each in root.findall("feature") if each.get("name") in lacking]:
        root.remove(each)
    for name in lacking:
        ET.SubElement(root, "feature", policy="disable", name=name)
    cpu_text = conn.baselineHypervisorCPU(
        None,
        arch,
        None,
        kind,
        [ET.tostring(root, encoding="unicode")],
        libvirt.VIR_CONNECT_BASELINE_CPU_MIGRATABLE,
    )
    chosen = parse(cpu_text)
    return {
        "vendor": child_text(chosen, "vendor"),
        "model": child_text(chosen, "model"),
        "policies": {
            each.get("name"): each.get("policy", "require") for each in chosen.findall("feature")
        },
        "features": _features(conn, arch, kind, cpu_text),
    }


def _host_model(conn: Any, arch: str | None, kind: str) -> str | None:
    return host_model_cpu(conn.getDomainCapabilities(None, arch, None, kind, 0))


def _features(conn: Any, arch: str | None, kind: str, text: str) -> list[str]:
    """Return all features of a CPU that a migration can take along, with the features of its
    model.
    """
    flags = (
        libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
        | libvirt.VIR_CONNECT_BASELINE_CPU_MIGRATABLE
    )
    return features_of(conn.baselineHypervisorCPU(None, arch, None, kind, [text], flags))

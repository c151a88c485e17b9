# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a live move in libvirt's words, and whether both sides know these words.

Private to the collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._libvirt.binding import libvirt
from .._libvirt.versions import dotted
from .._ownership.move_record import Options

#: Option -> the first libvirt that has it (its release notes), and the name of its flag.
NEEDS = {
    "auto_converge": (1002003, "VIR_MIGRATE_AUTO_CONVERGE"),
    "compression": (1000003, "VIR_MIGRATE_COMPRESSED"),
    "post_copy": (1003003, "VIR_MIGRATE_POSTCOPY"),
    "tls": (3002000, "VIR_MIGRATE_TLS"),
    "parallel_connections": (5002000, "VIR_MIGRATE_PARALLEL"),
    "tunnelled": (0, "VIR_MIGRATE_TUNNELLED"),
}

#: libvirt has these later than the options that they belong to.
PARALLEL_COMPRESSION = 9004000
POST_COPY_BANDWIDTH = 5001000


def needs(options: Options) -> list[tuple[str, int, str]]:
    """Return the features of libvirt that the options need: a list of (words, first version, name
    of the flag).
    """
    features = []
    values: Mapping[str, object] = options
    for name, (version, flag) in NEEDS.items():
        if values.get(name):
            features.append((name, version, flag))
    if options.get("post_copy") and options.get("bandwidth_mib"):
        features.append(
            ("bandwidth_mib with post_copy", POST_COPY_BANDWIDTH, "VIR_MIGRATE_POSTCOPY")
        )
    if options.get("compression") in ("zlib", "zstd"):
        features.append(
            (
                f"compression {options['compression']}",
                PARALLEL_COMPRESSION,
                "VIR_MIGRATE_COMPRESSED",
            )
        )
    return features


def version_reasons(source: Any, destination: Any, options: Options, where: str) -> list[str]:
    """Return the reasons in libvirt's versions: options that one of them does not know yet."""
    reasons = []
    sides = (("the source", source.getLibVersion()), (where, destination.getLibVersion()))
    for words, version, flag in needs(options):
        old = [f"{side} has {dotted(found)}" for side, found in sides if found < version]
        if old:
            reasons.append(
                f"{words} needs libvirt {dotted(version)}, and {' and '.join(old)}: upgrade it, or"
                f" leave {words} out"
            )
        elif not hasattr(libvirt, flag):
            reasons.append(
                f"the Python binding of libvirt at the source does not know {words}: upgrade"
                f" python3-libvirt, or leave {words} out"
            )
    return reasons


def flags_and_parameters(options: Options, destination: Any) -> tuple[int, dict[object, object]]:
    """Return the flags and parameters of ``migrateToURI3`` that the options come to.

    :param destination: the connection to the destination; a TLS certificate must have its host
        name.
    """
    flags = 0
    parameters: dict[object, object] = {}
    for _name, _dummy, flag in needs(options):
        flags |= getattr(libvirt, flag)
    if options.get("bandwidth_mib"):
        parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = options["bandwidth_mib"]
        if options.get("post_copy"):
            # The limit must hold after the switch too; the pages that the guest waits for are sent
            # immediately anyway.
            parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY] = options["bandwidth_mib"]
    if options.get("parallel_connections"):
        parameters[libvirt.VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS] = options["parallel_connections"]
    if options.get("compression"):
        parameters[libvirt.VIR_MIGRATE_PARAM_COMPRESSION] = options["compression"]
    if options.get("tls"):
        parameters[libvirt.VIR_MIGRATE_PARAM_TLS_DESTINATION] = destination.getHostname()
    return flags, parameters

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that two hosts have the certificates for a migration over TLS.

Private to the collection. QEMU would report this itself, but only after all preparations, and
libvirt often reports only that a connection was closed.
"""

from __future__ import annotations

import os
import re
from typing import Any

from .._libvirt.binding import LibvirtProblem
from .._ownership.folder import Folder

#: libvirt's own defaults, used where qemu.conf names no other folder.
CONFIGURATION = "/etc/libvirt/qemu.conf"
FOLDER = "/etc/pki/qemu"


def certificate_reasons(
    destination: Any, where: str, configuration: str = CONFIGURATION
) -> list[str]:
    """Return the reasons in missing certificates; the destination is assumed to keep them in the
    folder of the same name.
    """
    folder = _folder(configuration)
    advice = (
        f"make them in {folder} (the destination's out to its host name; see"
        " migrate_tls_x509_cert_dir in qemu.conf), or leave tls out"
    )
    reasons = []
    for name in ("ca-cert.pem", "client-cert.pem", "client-key.pem"):
        if not os.path.exists(os.path.join(folder, name)):
            reasons.append(
                f"tls needs certificates, and the source has no {folder}/{name}: {advice}"
            )
            break
    for name in ("ca-cert.pem", "server-cert.pem", "server-key.pem"):
        try:
            certificate = Folder(destination, folder).stat(name)
        except LibvirtProblem:
            # A folder that cannot be read proves nothing.
            break
        if certificate is None:
            reasons.append(f"tls needs certificates, and {where} has no {folder}/{name}: {advice}")
            break
    return reasons


def _folder(configuration: str) -> str:
    """Return the folder that qemu.conf names, as libvirt picks it."""
    try:
        with open(configuration, encoding="utf-8", errors="replace") as handle:
            text = handle.read()
    except OSError:
        return FOLDER
    for option in ("migrate_tls_x509_cert_dir", "default_tls_x509_cert_dir"):
        found = re.search(rf'^\s*{option}\s*=\s*"([^"]+)"', text, re.MULTILINE)
        if found:
            return found.group(1)
    return FOLDER

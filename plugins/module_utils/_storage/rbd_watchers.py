# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check for clients on any host that have an image of Ceph open for writing.

Private to the collection. Source: Ceph's "rbd status". A client that opens an image for writing
watches the image. Ceph drops the watch of a dead client after 30 seconds. An exclusive lock proves
nothing: a new writer gets the lock from a living client.
"""

from __future__ import annotations

import json
import os
import posixpath
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from .._files import programs
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import child_text, parse
from . import kinds
from .rbd import secret_key
from .shared_storage import bracketed, pool_id

#: The time limit in seconds of the command for all images together. The caller has a limit for all
#: facts of the host.
PATIENCE = 20


def watched(conn: Any, images: Sequence[str]) -> list[str]:
    """Return the images that a client certainly has open for writing; the others may be open too.

    The key comes from a storage pool of this host. Without such a pool, or without the command
    ``rbd``, the result is empty.

    :param images: texts from shared_storage.disk_id(), ``rbd:SERVERS:/POOL/IMAGE``.
    """
    if not images or shutil.which("rbd") is None:
        return []
    pools, deadline, in_use = _pools(conn), time.monotonic() + PATIENCE, []
    for image in images:
        pool, left = pools.get(posixpath.dirname(image)), deadline - time.monotonic()
        if pool is not None and left > 0 and _is_watched(conn, pool, image, left):
            in_use.append(image)
    return sorted(in_use)


def _pools(conn: Any) -> dict[str, Element]:
    """Return the Ceph pools of this host: dict text from pool_id() -> <pool>."""
    by_text = {}
    try:
        for each in conn.listAllStoragePools(0):
            root = parse(each.XMLDesc(0))
            fence = kinds.of_pool(root).fence
            text = pool_id(root) if fence is kinds.Fence.CEPH else None
            if text is not None:
                by_text[text] = root
    except libvirt.libvirtError:
        return {}
    return by_text


def _is_watched(conn: Any, pool: Element, image: str, seconds: float) -> bool:
    servers = [
        f"{bracketed(each.get('name') or '')}:{each.get('port') or '6789'}"
        for each in pool.findall("source/host")
    ]
    auth, key = pool.find("source/auth"), None
    command = ["rbd", "--conf", "/dev/null", "--mon-host", ",".join(servers)]
    try:
        if auth is not None:
            # Ceph reads as many bytes as the size of the file says. The size of a pipe is 0, so use
            # a file in memory.
            key = os.memfd_create("key")
            os.write(key, secret_key(conn, auth) or b"")
            command += ["--id", auth.get("username") or "", "--keyfile", f"/dev/fd/{key}"]
        command += [
            "status",
            f"{child_text(pool, 'source/name')}/{posixpath.basename(image)}",
            "--format",
            "json",
        ]
        # Do not use run_command: it cannot pass an open descriptor with the key.
        # pylint: disable-next=ansible-bad-function
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=seconds,
            env=programs.environment(),
            pass_fds=[] if key is None else [key],
        )
        return bool(json.loads(done.stdout)["watchers"])
    except (OSError, subprocess.SubprocessError, LibvirtProblem, ValueError, KeyError, TypeError):
        return False
    finally:
        if key is not None:
            os.close(key)


def watched_here(images: Sequence[str]) -> list[str]:
    """Return the watched images of this machine's libvirt, or none if it does not answer."""
    if not images or binding.libvirt is None:
        return []
    try:
        conn = binding.open_connection("qemu:///system")
    except binding.LibvirtProblem:
        return []
    try:
        return watched(conn, images)
    finally:
        binding.close(conn)

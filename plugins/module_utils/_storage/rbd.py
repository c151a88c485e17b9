# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to images of Ceph with QEMU's programs, with the monitors and the secret of a storage pool
of libvirt.

Private to the collection. The key goes through a pipe, so that no other process of the host sees
it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from .._files import qemu_img
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import child_text, parse

#: Prefix of the name of an image that exists only for clones.
IMAGE = "drover-image-"

#: Seconds that qemu-img may take to look at an image, and to fill one.
LOOKING, FILLING = 60, 600


def is_empty(conn: Any, pool: Any, image: str) -> bool:
    """Return True if nothing was ever written to an image.

    :param pool: libvirt's handle of the pool.
    :raises LibvirtProblem: the image cannot be read.
    """
    extents = json.loads(
        _with_qemu_img(conn, pool, image, ["map", "--output=json"], ["--image-opts"], LOOKING)
        or "[]"
    )
    return not any(each["data"] for each in extents)


def fill(
    conn: Any, pool: Any, image: str, file: str, file_format: str, held: Sequence[int] = ()
) -> None:
    """Copy the content of an image file into an image of at least the same size.

    :param held: descriptors that qemu-img keeps open until it ends, even if this process ends
        earlier.
    :raises LibvirtProblem: the copy fails.
    """
    # Use no cache: a cache of the client would hide an error of the last writes.
    command = ["convert", "-n", "-t", "none", "-f", file_format, file]
    _with_qemu_img(conn, pool, image, command, ["--target-image-opts"], FILLING, held)


def has_content(
    conn: Any, pool: Any, image: str, snapshot: str, file: str, file_format: str
) -> bool:
    """Return True if a snapshot of an image has the content of an image file. If one of them
    is longer, its rest must be empty.

    :raises LibvirtProblem: the image or the file cannot be read.
    """
    text = f"driver={file_format},file.driver=file,file.filename={_escaped(file)}"
    command = ["compare", "-q", "--image-opts", text]
    return (
        _with_qemu_img(conn, pool, image, command, [], FILLING, snapshot=snapshot, may_differ=True)
        is not None
    )


def snapshots(conn: Any, pool: Any, image: str) -> list[str]:
    """Return the names of the snapshots of an image.

    :raises LibvirtProblem: the snapshots cannot be read.
    """
    info = json.loads(
        _with_qemu_img(conn, pool, image, ["info", "--output=json"], ["--image-opts"], LOOKING)
        or "{}"
    )
    return [each["name"] for each in info.get("snapshots", ())]


def make_snapshot(conn: Any, pool: Any, image: str, name: str) -> None:
    """Make a snapshot of an image.

    :raises LibvirtProblem: the snapshot cannot be made.
    """
    _with_qemu_img(conn, pool, image, ["snapshot", "-c", name], ["--image-opts"], LOOKING)


def _with_qemu_img(
    conn: Any,
    pool: Any,
    image: str,
    before: Sequence[str],
    options: Sequence[str],
    seconds: int,
    held: Sequence[int] = (),
    snapshot: str | None = None,
    may_differ: bool = False,
) -> str | None:
    """Run qemu-img with an image as its last operand.

    :param may_differ: True if the program reports by its exit status 1 that contents differ; the
        function then returns None.
    """
    root = parse(pool.XMLDesc(0))
    words = {
        "driver": "raw",
        "file.driver": "rbd",
        "file.pool": child_text(root, "source/name") or "",
        "file.image": image,
    }
    for number, server in enumerate(root.findall("source/host")):
        # A pool has an IPv6 address in brackets, and QEMU adds the brackets itself.
        words[f"file.server.{number}.host"] = (server.get("name") or "").strip("[]")
        words[f"file.server.{number}.port"] = server.get("port") or "6789"
    auth = root.find("source/auth")
    key = secret_key(conn, auth) if auth is not None else None
    if auth is not None and key is not None:
        words.update(
            {
                "file.user": auth.get("username") or "",
                "file.key-secret": "key",
                "file.auth-client-required.0": "cephx",
            }
        )
    if snapshot is not None:
        words["file.snapshot"] = snapshot
    target = ",".join(f"{name}={_escaped(value)}" for name, value in words.items())
    reader, writer = os.pipe()
    try:
        os.write(writer, key or b"")
        os.close(writer)
        secret = (
            ["--object", f"secret,id=key,format=base64,file=/dev/fd/{reader}"]
            if key is not None
            else []
        )
        done = qemu_img.run(
            [before[0], *secret, *before[1:], *options, target], seconds, [reader, *held]
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LibvirtProblem(
            f"The image {image} of Ceph cannot be read or written on {host_name()}: {exc}."
        ) from exc
    finally:
        os.close(reader)
    if may_differ and done.returncode == 1:
        return None
    if done.returncode:
        why = (done.stderr.strip() or f"exit status {done.returncode}").rpartition("\n")[2]
        raise LibvirtProblem(
            f"The image {image} of Ceph cannot be read or written on {host_name()}: {why}. QEMU's"
            " programs need its RBD driver there (on Debian the package qemu-block-extra)."
        )
    return done.stdout


def _escaped(value: str) -> str:
    return value.replace(",", ",,")


def secret_key(conn: Any, auth: Any) -> bytes | None:
    """Return the key of a client of Ceph in base64, from libvirt's secret; None if the element
    names no secret.

    :param auth: the <auth> element of a storage pool.
    :raises LibvirtProblem: the secret cannot be read.
    """
    secret = auth.find("secret")
    if secret is None:
        return None
    try:
        if secret.get("uuid"):
            secret_object = conn.secretLookupByUUIDString(secret.get("uuid"))
        else:
            secret_object = conn.secretLookupByUsage(
                libvirt.VIR_SECRET_USAGE_TYPE_CEPH, secret.get("usage")
            )
        return base64.b64encode(secret_object.value())
    except libvirt.libvirtError as exc:
        raise LibvirtProblem(
            f"The secret of a storage pool cannot be read on {host_name()}: {binding.text_of(exc)}."
        ) from exc

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that exist already and that an instance only uses: their keys, the rules between the keys,
and their values in the domain.

Such a disk is never made, never copied into and never removed. Only the uuid or the usage of a
secret is known here, never its value.
"""

from __future__ import annotations

import re

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.module_utils._storage.sources import is_here

from .._common import validation
from .._common.errors import DroverError
from .definition import DefinedDisk, DiskSource
from .fields import LIST, LONGEST_PATH, MAPPING, TEXT, WHOLE, Field, Table, absolute

#: The largest number of a user or a group; the next higher number means no user or no group.
_LAST_ID = 2**32 - 2
PROTOCOLS = tuple(each.name for each in kinds.PROTOCOLS if each.names)
FORMATS = ("raw", "qcow2")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
#: The keys for a new disk and its content cannot be combined with an existing disk.
_NOT_WITH = ("image", "image_format", "path", "traits")

SOURCE: Table = {
    "protocol": Field(
        TEXT,
        "The disk is on the network, and QEMU reaches it by this protocol. Give this or `path`.",
        "rbd",
        choices=PROTOCOLS,
    ),
    "name": Field(
        TEXT,
        "Its name on the network: `POOL/IMAGE` for rbd, `TARGET/UNIT` for iscsi, `VOLUME/FILE` for"
        " gluster, `/EXPORT/FILE` for nfs, the name of the export for nbd.",
        "vms/db-data",
        longest=LONGEST_PATH,
    ),
    "hosts": Field(
        LIST,
        "Its servers.",
        [{"name": "mon1.example.com", "port": 6789}],
        fields={
            "name": Field(
                TEXT, "The name or address of a server.", "mon1.example.com", required=True
            ),
            "port": Field(
                WHOLE,
                "Its port [the default port of the protocol]. For nfs there is no other.",
                6789,
                least=1,
                most=65535,
            ),
        },
    ),
    "identity": Field(
        MAPPING,
        "As whom QEMU opens a file by nfs [the user and the group that QEMU runs as].",
        {"user": 64055, "group": 64055},
        fields={
            "user": Field(WHOLE, "The number of the user.", 64055, least=0, most=_LAST_ID),
            "group": Field(WHOLE, "The number of the group.", 64055, least=0, most=_LAST_ID),
        },
    ),
    "auth": Field(
        MAPPING,
        "The login of QEMU, for rbd and iscsi.",
        {"username": "libvirt", "secret": "5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01"},
        fields={
            "username": Field(TEXT, "The user.", "libvirt", required=True),
            "secret": Field(
                TEXT,
                "The uuid or the usage of a secret of libvirt, never its value. Each host that the"
                " instance may be on must have it.",
                "5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01",
                required=True,
            ),
        },
    ),
    "path": Field(
        TEXT,
        "A file, or a block device below `/dev`, that each of its hosts has.",
        "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4",
        check=absolute,
        longest=LONGEST_PATH,
    ),
    "format": Field(TEXT, "The format of the data there [`raw`].", "qcow2", choices=FORMATS),
}


def check(disk: DefinedDisk, place: str) -> None:
    """Check the rules between the keys of a disk that may have a source.

    :raises DroverError: the first thing that is wrong.
    """
    source = disk.get("source")
    if source is None:
        return
    extra = next((key for key in _NOT_WITH if disk.get(key)), None)
    if extra:
        raise DroverError(
            f"{place}: source is a disk that exists, so {extra} does not go with it. Take one of"
            " them out."
        )
    if bool(source.get("protocol")) == bool(source.get("path")):
        raise DroverError(
            f"{place}, source: give protocol for a disk on the network, or path for a file or a"
            " block device; one of them."
        )
    if source.get("path"):
        surplus = next(
            (key for key in ("name", "hosts", "auth", "identity") if source.get(key)), None
        )
        if surplus:
            raise DroverError(
                f"{place}, source: {surplus} goes with protocol only. Take it out, or take path"
                " out."
            )
        if not disk.get("size_gb"):
            raise DroverError(
                f"{place}: size_gb is missing. What is at the path of a source counts on its host"
                " as other disks do: give the size that it has."
            )
        return
    _check_network(source, place)
    if bool(disk.get("size_gb")) != bool(disk.get("pool")):
        surplus, other = ("pool", "size_gb") if disk.get("pool") else ("size_gb", "pool")
        raise DroverError(
            f"{place}: a disk on the network counts on its pool, or not at all, so {surplus} goes"
            f" with {other}. Give both, or take {surplus} out."
        )


def _check_network(source: DiskSource, place: str) -> None:
    protocol, name = kinds.protocol(source["protocol"]), source.get("name")
    pattern = protocol.names
    if not (name and pattern and pattern.fullmatch(name) and name.isprintable()):
        raise DroverError(
            f"{place}, source: the name for {protocol.name} must be {protocol.example}, not"
            f" {validation.shown(name)}."
        )
    if not source.get("hosts"):
        raise DroverError(
            f"{place}, source: hosts is missing. For example: hosts: [{{name:"
            " server1.example.com}]."
        )
    local_name = next((host["name"] for host in source["hosts"] if is_here(host["name"])), None)
    if local_name is not None:
        raise DroverError(
            f"{place}, source: {local_name} is another server on each host, so the instance could"
            " not move. Give the name that all hosts know."
        )
    if source.get("auth") and protocol.secret is None:
        raise DroverError(f"{place}, source: {protocol.name} has no auth. Take it out.")
    if not protocol.is_file:
        if source.get("identity"):
            raise DroverError(f"{place}, source: {protocol.name} has no identity. Take it out.")
    elif len(source["hosts"]) > 1:
        raise DroverError(
            f"{place}, source: QEMU takes one server for nfs, and hosts has {len(source['hosts'])}."
            " Keep one."
        )
    elif source["hosts"][0].get("port"):
        raise DroverError(f"{place}, source: QEMU asks an NFS server for its port. Take port out.")


def text_of(disk: DefinedDisk) -> str:
    """Return the source of this disk as in the facts of a domain: a path, or protocol:name."""
    source = disk["source"]
    return str(source.get("path") or f"{source['protocol']}:{source['name']}")


def for_domain(disk: DefinedDisk) -> dict[str, object]:
    """Return the content of the domain XML for an existing disk.

    :returns: a dict: type (of libvirt), and file, dev, or protocol, name, hosts, auth (None, or
        username, type, uuid or usage) and identity; and format.
    """
    source = disk["source"]
    content: dict[str, object] = {"format": source.get("format") or FORMATS[0]}
    if source.get("path"):
        kind = ("block", "dev") if source["path"].startswith("/dev/") else ("file", "file")
        return {**content, "type": kind[0], kind[1]: source["path"]}
    auth = source.get("auth")
    if auth:
        key = "uuid" if _UUID.fullmatch(auth["secret"]) else "usage"
        auth = {
            "username": auth["username"],
            "type": kinds.protocol(source["protocol"]).secret,
            key: auth["secret"],
        }
    return {
        **content,
        "type": "network",
        "protocol": source["protocol"],
        "name": source["name"],
        "hosts": [dict(host) for host in source["hosts"]],
        "auth": auth,
        "identity": dict(source.get("identity") or {}),
    }

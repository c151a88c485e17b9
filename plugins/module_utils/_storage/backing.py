# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backing files of an image from its own header. A domain's XML may leave out some of them.

Private to the collection. Sources: QEMU's docs/interop/qcow2.txt and qed_spec.txt, VMware's
"Virtual Disk Format 1.1", and QEMU's path_has_protocol() for the names of backing files.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import struct
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from .._files import access
from .._libvirt.binding import libvirt
from .._libvirt.xml import child_text, parse
from . import kinds

#: QEMU refuses longer names in qcow2 and qed.
LONGEST_NAME = 1023

#: The greatest number of images that chain() follows. QEMU itself stops much earlier.
DEEPEST = 200

_DATA_FILE = 0x44415441
_PATH_PROTOCOLS = ("file", "host_device", "host_cdrom")
_EXTENT = re.compile(r'^\s*(?:RW|RDONLY|NOACCESS)\s+\d+\s+\w+\s+"([^"]+)"', re.MULTILINE)
_PARENT = re.compile(r'^\s*parentFileNameHint\s*=\s*"([^"]+)"', re.MULTILINE)


@dataclass
class Reference:
    """The possible meanings of one name in a header."""

    #: The possible files of this host, the most likely first.
    paths: list[str] = field(default_factory=list)
    #: The sources of the image on the network: names of servers, ``unix`` for a socket of this
    #: host.
    servers: list[str] = field(default_factory=list)
    #: The images of Ceph in the name, as ``rbd:POOL/IMAGE`` or ``rbd:POOL/NAMESPACE/IMAGE``.
    rbd: list[str] = field(default_factory=list)
    #: The text of a name that this module does not understand; None for other names.
    words: str | None = None


@dataclass
class Chain:
    """The files and servers that an image needs besides itself."""

    #: The paths of images and data files behind it, nearest first.
    files: list[str] = field(default_factory=list)
    #: The servers, and the images of Ceph in ``rbd``, of the whole chain; see Reference.
    servers: list[str] = field(default_factory=list)
    rbd: list[str] = field(default_factory=list)
    #: The reasons why the chain may be longer, sentences without a full stop.
    troubles: list[str] = field(default_factory=list)


#: The references of each image, or the exception of the failed read.
Known = dict[str, Any]


def chain(
    path: str,
    image_format: str | None = None,
    known: Known | None = None,
    ask: Callable[[str], list[Reference] | None] | None = None,
) -> Chain:
    """Return the Chain of an image.

    :param image_format: the format in which the domain uses the image; a ``raw`` image has no
        backing file, even if its first bytes look like a header.
    :param known: the references of headers already read, filled by learn().
    :param ask: a function (path) -> list of Reference or None, for an image that this process must
        not read.
    """
    known = {} if known is None else known
    image_chain = Chain()
    if image_format == "raw":
        return image_chain
    seen, queue = {path}, [path]
    while queue:
        image = queue.pop(0)
        learn([image], known, deep=False)
        if isinstance(known[image], PermissionError) and ask is not None:
            asked = ask(image)
            known[image] = known[image] if asked is None else asked
        if isinstance(known[image], Exception):
            image_chain.troubles.append(f"{image} cannot be read ({reason_of(known[image])})")
            continue
        for reference in known[image]:
            image_chain.servers += reference.servers
            image_chain.rbd += reference.rbd
            if reference.words is not None:
                image_chain.troubles.append(
                    f"what {image} is backed by is not understood ({reference.words})"
                )
            elif reference.paths and reference.paths[0] not in seen:
                seen.add(reference.paths[0])
                image_chain.files.append(reference.paths[0])
                queue.append(reference.paths[0])
        if len(seen) > DEEPEST:
            image_chain.troubles.append(f"its chain of images has no end ({image})")
            break
    return image_chain


def learn(images: Iterable[str], known: Known, deep: bool = True) -> None:
    """Read the headers of images, and of all their backing files, with few calls.

    :param known: a dict that gets, for each image, a list of Reference, or the exception of the
        failed read.
    :param deep: False to leave out the backing files.
    """
    images = list(dict.fromkeys(image for image in images if image not in known))
    while images:
        for image, (good, answer) in zip(
            images, access.call_each(references_of, [(image,) for image in images])
        ):
            if not good and not isinstance(answer, (OSError, access.Unresponsive)):
                raise answer
            known[image] = answer
        behind = [
            reference.paths[0]
            for image in images
            if deep and isinstance(known[image], list)
            for reference in known[image]
            if reference.paths
        ]
        images = list(dict.fromkeys(image for image in behind if image not in known))


def by_libvirt(conn: Any, path: str) -> list[Reference] | None:
    """Return the references of an image as libvirt read them at its last look at the pool; None if
    libvirt does not know the file.

    libvirt may read files that a user in the group libvirt must not read.
    """
    try:
        root = parse(conn.storageVolLookupByPath(path).XMLDesc(0))
    except libvirt.libvirtError:
        return None
    behind = child_text(root, "backingStore/path")
    return [reference_of(behind, path)] if behind else []


def reason_of(error: Exception) -> str:
    """Return the reason of a failed look at a file, in a few words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def references_of(path: str) -> list[Reference]:
    """Return the references in the header of an image; [] for an image without backing
    file, and for a file that is not an image.

    :raises OSError: the file cannot be read, or its header is damaged.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as handle:
        kind = os.fstat(handle.fileno()).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISBLK(kind)):
            return []
        names = _names_in(handle, handle.read(4096))
    return [reference_of(name, path) for name in names]


def _damaged() -> OSError:
    return OSError(errno.EINVAL, "its header is damaged")


def _names_in(handle: BinaryIO, head: bytes) -> list[str]:
    if head[:4] == b"QFI\xfb":
        return _qcow2_names(handle, head)
    if head[:4] == b"QED\0":
        return _qed_names(handle, head)
    if head[:4] == b"KDMV":
        start, length = struct.unpack_from("<QQ", head.ljust(64, b"\0"), 28)
        return _vmdk_names(_at(handle, start * 512, min(length * 512, 1 << 16)) if start else b"")
    if head.lstrip().startswith(b"# Disk DescriptorFile"):
        return _vmdk_names(_at(handle, 0, 1 << 16))
    return []


def _at(handle: BinaryIO, offset: int, length: int) -> bytes:
    handle.seek(offset)
    return handle.read(length)


def _name_at(handle: BinaryIO, offset: int, length: int) -> list[str]:
    """Return the name at an offset of a header; [] if the offset or the length is 0."""
    if not offset or not length:
        return []
    if length > LONGEST_NAME or offset >= 1 << 62:
        raise _damaged()
    name_bytes = _at(handle, offset, length)
    if len(name_bytes) < length:
        raise _damaged()
    return [os.fsdecode(name_bytes)]


def _qcow2_names(handle: BinaryIO, head: bytes) -> list[str]:
    if len(head) < 20:
        return []
    version, offset, length = struct.unpack_from(">IQI", head, 4)
    names = _name_at(handle, offset, length)
    if version < 3 or len(head) < 104:
        return names
    features, position = (
        struct.unpack_from(">Q", head, 72)[0],
        struct.unpack_from(">I", head, 100)[0],
    )
    if not features & 4:
        return names
    # The image has an external data file with the clusters of the guest.
    for _dummy in range(64):
        kind, size = struct.unpack(">II", _at(handle, position, 8).ljust(8, b"\0"))
        if kind == 0:
            break
        if kind == _DATA_FILE:
            return names + _name_at(handle, position + 8, size)
        position += 8 + (size + 7) // 8 * 8
    # The header has no name of the data file. QEMU then opens the image only with a data file from
    # its arguments.
    raise _damaged()


def _qed_names(handle: BinaryIO, head: bytes) -> list[str]:
    if len(head) < 64:
        return []
    features = struct.unpack_from("<Q", head, 16)[0]
    offset, length = struct.unpack_from("<II", head, 56)
    return _name_at(handle, offset, length) if features & 1 else []


def _vmdk_names(descriptor: bytes) -> list[str]:
    text = descriptor.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    return _PARENT.findall(text) + _EXTENT.findall(text)


def reference_of(name: str, path: str) -> Reference:
    """Return the possible meanings of a name in the header of the image ``path``."""
    if name.startswith("json:"):
        return _of_json(name, path)
    protocol = re.match(r"^([^:/]*):", name)
    if protocol is None:
        return Reference(_possible_paths(name, path))
    if protocol.group(1) in _PATH_PROTOCOLS:
        return Reference(_possible_paths(name[protocol.end() :], path))
    return _of_server(name)


def _possible_paths(name: str, path: str) -> list[str]:
    """Return the possible paths of a name in the header of an image.

    A relative name belongs to the folder of the path that QEMU opened, even if this path is a link.
    """
    candidates, folders = [], [os.path.dirname(path)]
    if not os.path.isabs(name):
        folders.append(os.path.dirname(os.path.realpath(path)))
    for folder in folders:
        joined = os.path.join(folder, name)
        # If a part of the path is a link, then ".." is not the folder before it in the text.
        joined = joined if ".." in joined.split("/") else os.path.normpath(joined)
        if joined not in candidates:
            candidates.append(joined)
    return candidates


def _of_server(name: str) -> Reference:
    if "://" in name:
        try:
            parts = urllib.parse.urlsplit(name)
            return Reference(
                servers=["unix" if "+unix" in parts.scheme else parts.hostname or "localhost"]
            )
        except ValueError:
            return Reference(words=name)
    fields = name.split(":")
    if fields[0] == kinds.NBD.name:
        in_brackets = re.match(r"nbd:(\[[^\[\]]*\])", name)
        return Reference(
            servers=[in_brackets.group(1) if in_brackets else fields[1] or "localhost"]
        )
    if fields[0] == kinds.RBD.name:
        monitors = re.findall(r":mon_host=((?:\\.|[^:])*)", name)
        servers = [
            re.sub(r"\\?:\d+$", "", each)
            for found in monitors
            for each in re.split(r"\\?;|,", found)
        ]
        image = re.match(r"rbd:((?:\\.|[^:@\\])+)", name)
        if image is None or "/" not in image.group(1):
            return Reference(servers=servers, words=name)
        return Reference(servers=servers, rbd=["rbd:" + re.sub(r"\\(.)", r"\1", image.group(1))])
    return Reference(words=name)


def _of_json(name: str, path: str) -> Reference:
    try:
        document = json.loads(name[5:])
    except ValueError:
        return Reference(words=name)
    named = Reference()
    if not isinstance(document, dict) or not _collect(document, path, named):
        # Omit the escapes of JSON, so that a search for a name finds it in the text.
        return Reference(words=json.dumps(document, ensure_ascii=False))
    named.paths = list(dict.fromkeys(named.paths))
    return named


def _collect(found: Mapping[str, object], path: str, named: Reference) -> bool:
    """Collect the names in QEMU's description of a block device. Return True if all of the
    description is understood.
    """
    understood = True
    for key, value in found.items():
        word = key.rpartition(".")[2]
        if isinstance(value, dict):
            understood &= _collect(value, path, named)
        elif isinstance(value, list):
            # Several servers, or the children of a quorum.
            understood &= all(
                isinstance(each, dict) and _collect(each, path, named) for each in value
            )
        elif word == "filename" and isinstance(value, str):
            inner = reference_of(value, path)
            named.paths += inner.paths
            named.servers += inner.servers
            named.rbd += inner.rbd
            understood &= inner.words is None
        elif word == "url" and isinstance(value, str):
            named.servers += _of_server(value).servers
        elif word in ("host", "portal"):
            named.servers.append(str(value).rpartition(":")[0] if word == "portal" else str(value))
        elif word in ("path", "socket") and _is_socket(found, key):
            named.servers.append("unix")
        elif word == "image":
            above = key[: -len(word)]
            parts = [found.get(above + "pool"), found.get(above + "namespace"), value]
            understood &= isinstance(value, str) and isinstance(parts[0], str)
            named.rbd.append("rbd:" + "/".join(str(part) for part in parts if part))
        elif word in ("file", "backing", "data-file") and value is not None:
            # The value is the name of a node. The header of a file cannot refer to a node.
            understood = False
    return understood


def _is_socket(found: Mapping[str, object], key: str) -> bool:
    above, dummy, word = key.rpartition(".")
    above += "." if above else ""
    return (
        word == "socket"
        or found.get(f"{above}type") == "unix"
        or found.get(f"{above}driver") == kinds.NBD.name
    )

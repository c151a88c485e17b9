# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All files and folders of a host that the XML of a domain names, for any purpose.

Private to the collection. A hypervisor uses this module to find the users of a file. Discovery
records the same data for the other hosts. Source: https://libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element

from .._libvirt.xml import parse
from .definition import is_written
from .facts import DomainDisk, OtherFile

#: The kinds of a path in a domain's XML: any path, a disk that certainly has no backing file, or an
#: image that may have backing files.
OTHER, PLAIN, IMAGE = 0, 1, 2

#: The elements with files that a domain reads at its start and never writes to.
_READ = ("kernel", "initrd", "dtb", "table", "emulator", "binary", "bootloader", "init")

#: The elements with texts of people and other programs, or with names that are not files of the
#: host.
_PROSE = ("metadata", "title", "description", "resource")

#: An absolute path in an argument for QEMU, such as ``file=/srv/x.raw,format=raw`` or JSON.
_ARGUED = re.compile(r"""(?<![\w./-])/[^,"']+""")

#: The longest path that the kernel opens.
LONGEST = 4095


class Mentions:
    """The files, folders and volumes of a host in the XML of libvirt.

    :ivar paths: dict absolute path -> OTHER, PLAIN or IMAGE.
    :ivar volumes: dict (pool, volume) -> PLAIN or IMAGE.
    :ivar folders: folders that the domain gets with their whole content.
    :ivar words: arguments for QEMU itself; libvirt does not interpret these.
    :ivar meant: the paths of this host. Paths that occur only in texts for people, in the guest or
        on a server are missing.
    :ivar written: the paths and the (pool, volume) that the running domain, or its next start, may
        write to.
    """

    def __init__(self) -> None:
        self.paths: dict[str, int] = {}
        self.volumes: dict[tuple[str, str], int] = {}
        self.folders: set[str] = set()
        self.words: list[str] = []
        self.written: set[Any] = set()
        self.meant: set[str] = set()

    def add(self, text: str) -> None:
        """Add a document: the XML of a domain, or of a snapshot with its domain."""
        root, written = parse(text), set(self.written)
        self._walk(root, OTHER, True, True)
        if root.tag == "domainsnapshot":
            # The XML in a snapshot names the files that the guest wrote to before the snapshot.
            self.written = written

    def _walk(self, element: Element, kind: int, writes: bool, meant: bool) -> None:
        """Add an element and all its children.

        :param kind, writes, meant: the values of the element around it: OTHER, PLAIN or IMAGE; True
            if the domain may write there; True if the names are names of this host.
        """
        tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        if tag in ("disk", "mirror", "backingStore", "dataStore"):
            kind = (
                IMAGE
                if element.get("device", "disk") in ("disk", "lun") and not _is_raw(element)
                else PLAIN
            )
        # The folder of a target is in the guest, and a source with a protocol is on a server.
        elsewhere = (tag == "target" and element.get("dir")) or element.get("protocol")
        meant = meant and tag not in _PROSE and not elsewhere
        writes = meant and _writes(element, tag, writes)
        if tag in ("arg", "env"):
            self.words.extend(element.attrib.values())
            for value in element.attrib.values():
                for path in map(str.strip, _ARGUED.findall(value)):
                    self._add_path(path, OTHER, True, meant)
        pool, volume, folder = element.get("pool"), element.get("volume"), element.get("dir", "")
        if pool and volume:
            self.volumes[pool, volume] = max(self.volumes.get((pool, volume), PLAIN), kind)
            self.written.update([(pool, volume)] if writes else [])
        if tag == "source" and folder.startswith("/"):
            self.folders.add(folder)
        # A name may end with a blank, but blanks around a text may also belong to the layout of the
        # XML: try both.
        text = element.text or ""
        for value in dict.fromkeys([*element.attrib.values(), text, text.strip()]):
            if value.startswith("/"):
                self._add_path(value, kind, writes and value != element.get("template"), meant)
        for child in element:
            self._walk(child, kind, writes, meant)

    def _add_path(self, path: str, kind: int, writes: bool, meant: bool) -> None:
        self.paths[path] = max(self.paths.get(path, OTHER), kind)
        self.written.update([path] if writes else [])
        self.meant.update([path] if meant else [])

    def files(self) -> list[OtherFile]:
        """Return the files and folders, in the form of disks: list of dicts type (file, dir or
        volume), source, format, written.

        The format is raw if a file has no backing file, and None if it may have one. The list
        leaves out paths that no other host shares: programs and firmware of the operating system,
        and paths in texts for people.
        """
        files: list[OtherFile] = []
        for path in sorted(self.paths):
            written = path in self.written
            # A text "/" alone must not give all files of the host to the domain.
            if (
                path not in self.meant
                or (path == "/" and path not in self.folders)
                or len(path) > LONGEST
                or (path.startswith("/usr/") and not written)
            ):
                continue
            kind = "dir" if path in self.folders else "file"
            files.append(
                {
                    "type": kind,
                    "source": path,
                    "format": None if self.paths[path] == IMAGE else "raw",
                    "written": written,
                }
            )
        for pool, volume in sorted(self.volumes):
            image = None if self.volumes[pool, volume] == IMAGE else "raw"
            files.append(
                {
                    "type": "volume",
                    "source": f"{pool}/{volume}",
                    "format": image,
                    "written": (pool, volume) in self.written,
                }
            )
        return files


def other_files(texts: Iterable[str], disks: Iterable[DomainDisk]) -> list[OtherFile]:
    """Return the files of a domain without the disks of its definition, in the form of
    Mentions.files().

    :param texts: all XML of the domain from texts_of() in texts.
    :param disks: the disks of the definition.
    """
    mentions = Mentions()
    for text in texts:
        mentions.add(text)
    known = {(disk["source"], written) for disk in disks for written in (False, is_written(disk))}
    return [each for each in mentions.files() if (each["source"], each["written"]) not in known]


def _writes(element: Element, tag: str, writes: bool) -> bool:
    """Return True if a domain may write to the file of an element; in doubt return True.

    :param writes: the result for the element around it.
    """
    if tag == "disk":
        return element.get("device") != "cdrom" and element.find("readonly") is None
    if tag == "filesystem":
        return element.find("readonly") is None
    if tag == "loader":
        return element.get("readonly") != "yes" and element.get("type") != "rom"
    if tag == "mirror":
        return True
    return writes and tag != "backingStore" and tag not in _READ


def _is_raw(element: Element) -> bool:
    """Return True if a disk, or a layer of it, has the format raw in the XML. QEMU then looks for
    no backing file.
    """
    for name in ("driver", "format"):
        found = element.find(name)
        if found is not None and found.get("type"):
            return found.get("type") == "raw"
    return False

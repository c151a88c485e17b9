# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every file and folder of a host that the XML of a domain names, for any purpose.

Private to the collection. A hypervisor finds the users of a file here, and discovery records the
same for the other hosts. Source: https://libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from .._libvirt.xml import parse
from .definition import is_written

#: The kinds of a path in a domain's XML: anything, a disk that certainly has nothing behind it, or
#: an image that may have something behind it.
OTHER, PLAIN, IMAGE = 0, 1, 2

#: Files that a domain is started from and never writes to.
_READ = ("kernel", "initrd", "dtb", "table", "emulator", "binary", "bootloader", "init")

#: Elements into which people and other programs write text, and names that are no files of the
#: host.
_PROSE = ("metadata", "title", "description", "resource")

#: An absolute path in an argument for QEMU, such as ``file=/srv/x.raw,format=raw`` or JSON.
_ARGUED = re.compile(r"""(?<![\w./-])/[^,"']+""")

#: The kernel opens no longer path.
LONGEST = 4095


class Mentions:
    """Everything of a host that XML of libvirt names, for any purpose.

    :ivar paths: dict absolute path -> OTHER, PLAIN or IMAGE.
    :ivar volumes: dict (pool, volume) -> PLAIN or IMAGE.
    :ivar folders: folders that are given away with all that is in them.
    :ivar words: arguments for QEMU itself, which libvirt does not look into.
    :ivar meant: the paths that are of this host: not only in texts for people, in the guest or on a server.
    :ivar written: the paths and the (pool, volume) that a domain may write to, as it runs or would be started.
    """

    def __init__(self) -> None:
        self.paths: dict[str, int] = {}
        self.volumes: dict[tuple[str, str], int] = {}
        self.folders: set[str] = set()
        self.words: list[str] = []
        self.written: set[Any] = set()
        self.meant: set[str] = set()

    def add(self, text: str) -> None:
        """Read a document: of a domain, or of a snapshot, which has its domain in it."""
        root, written = parse(text), set(self.written)
        self._walk(root, OTHER, True, True)
        if root.tag == "domainsnapshot":
            # The domain of a snapshot names files that it wrote to before the snapshot.
            self.written = written

    def _walk(self, element: Element, kind: int, writes: bool, meant: bool) -> None:
        """Read an element and all elements in it.

        :param kind, writes, meant: the values of the element around it: OTHER, PLAIN or IMAGE; True
            if the domain may write to the things named there; True if it is a name of this host.
        """
        tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        if tag in ("disk", "mirror", "backingStore", "dataStore"):
            kind = IMAGE if element.get("device", "disk") in ("disk", "lun") and not _is_raw(element) else PLAIN
        # The folder of a target is in the guest, and a source with a protocol is on a server.
        elsewhere = (tag == "target" and element.get("dir")) or element.get("protocol")
        meant = meant and tag not in _PROSE and not elsewhere
        writes = meant and _writes(element, tag, writes)
        if tag in ("arg", "env"):
            self.words.extend(element.attrib.values())
            for value in element.attrib.values():
                for path in map(str.strip, _ARGUED.findall(value)):
                    self._take(path, OTHER, True, meant)
        pool, volume, folder = element.get("pool"), element.get("volume"), element.get("dir", "")
        if pool and volume:
            self.volumes[pool, volume] = max(self.volumes.get((pool, volume), PLAIN), kind)
            self.written.update([(pool, volume)] if writes else [])
        if tag == "source" and folder.startswith("/"):
            self.folders.add(folder)
        # A name may end with a blank. The blanks of a text may belong to the lines around it.
        text = element.text or ""
        for value in dict.fromkeys([*element.attrib.values(), text, text.strip()]):
            if value.startswith("/"):
                self._take(value, kind, writes and value != element.get("template"), meant)
        for child in element:
            self._walk(child, kind, writes, meant)

    def _take(self, path: str, kind: int, writes: bool, meant: bool) -> None:
        self.paths[path] = max(self.paths.get(path, OTHER), kind)
        self.written.update([path] if writes else [])
        self.meant.update([path] if meant else [])

    def files(self) -> list[dict[str, Any]]:
        """Return the files and folders, in the form of disks: list of dicts type (file, dir or
        volume), source, format and written.

        The format is raw where nothing can be behind a file, and None where something may be. Left out is what no host shares: programs
        and firmware of its system, and what only texts for people name.
        """
        found = []
        for path in sorted(self.paths):
            written = path in self.written
            # No text that happens to be this gives all files of a host away.
            if (
                path not in self.meant
                or (path == "/" and path not in self.folders)
                or len(path) > LONGEST
                or (path.startswith("/usr/") and not written)
            ):
                continue
            kind = "dir" if path in self.folders else "file"
            found.append({"type": kind, "source": path, "format": None if self.paths[path] == IMAGE else "raw", "written": written})
        for pool, volume in sorted(self.volumes):
            image = None if self.volumes[pool, volume] == IMAGE else "raw"
            found.append({"type": "volume", "source": f"{pool}/{volume}", "format": image, "written": (pool, volume) in self.written})
        return found


def other_files(texts: Iterable[str], disks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the files that a domain uses beside the disks of its definition, in the form of
    Mentions.files().

    :param texts: all its XML, as _needs.texts_of() has it.
    :param disks: the disks of its definition.
    """
    mentions = Mentions()
    for text in texts:
        mentions.add(text)
    known = {(disk["source"], written) for disk in disks for written in (False, is_written(disk))}
    return [each for each in mentions.files() if (each["source"], each["written"]) not in known]


def _writes(element: Element, tag: str, writes: bool) -> bool:
    """Return True if a domain may write to a thing that an element names; in doubt it may.

    :param writes: True if the domain may write to the element around it.
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
    """Return True if a disk, or one layer of it, is declared raw: then QEMU does not look for
    images behind it.
    """
    for name in ("driver", "format"):
        found = element.find(name)
        if found is not None and found.get("type"):
            return found.get("type") == "raw"
    return False

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domain XML to plain dictionaries.

Private to the collection. Source: https://libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import get_args
from xml.etree.ElementTree import Element

from .._libvirt.xml import child_text, integer, parse, pci_address, size_bytes
from .._storage import kinds
from .._storage.kinds import Source
from .._storage.shared_storage import disk_id
from . import labels
from .facts import DomainDisk, DomainFacts, HostdevFacts, InterfaceFacts, PowerState
from .numa import parse_numa

#: The namespace of the element with drover's data of an instance.
METADATA_NAMESPACE = "https://drover.compute/instance/1"

#: The metadata with the name of the variable that has the password of the graphical console.
PASSWORD_KEY = "graphics_password_variable"

#: The folder of the UEFI variables of libvirt's system daemon.
NVRAM_FOLDER = "/var/lib/libvirt/qemu/nvram"

#: The prefix of the alias of a source disk, see ATTACHED in _ownership.ownership. libvirt keeps the
#: alias with the domain.
SOURCE_ALIAS = "ua-drover-attached-source-"

#: The greatest length of a VNC password in bytes.
VNC_PASSWORD = 8

#: The modes of a guest's CPU.
CPU_MODES = ("custom", "host-model", "host-passthrough", "maximum")

#: The values of virDomainState: the place of a word is libvirt's number of the state.
STATES: tuple[PowerState, ...] = get_args(PowerState)


def state_name(number: int) -> PowerState:
    """Return the word for libvirt's number of a domain state."""
    return STATES[number] if 0 <= number < len(STATES) else "nostate"


def parse_domain(text: str) -> DomainFacts:
    """Return the content of domain XML. Values that only the hypervisor knows (state, sizes, flags)
    are missing.

    Returns ``uuid``, ``name``, ``title``, ``type``, ``vcpus`` (maximum), ``memory_mb``, ``disks``,
    ``interfaces``, ``hostdevs``, ``numa`` and ``metadata``. :raises ValueError: the text is no
    domain XML.
    """
    root = parse(text)
    if root.tag != "domain":
        raise ValueError(f"not domain XML: the outermost element is <{root.tag}>")
    return {
        "uuid": child_text(root, "uuid"),
        "name": root.findtext("name") or "",
        "title": child_text(root, "title"),
        "type": root.get("type"),
        "vcpus": integer(child_text(root, "vcpu", "1"), 1),
        "memory_mb": size_bytes(root.find("memory")) // 2**20,
        "disks": [parse_disk(disk) for disk in root.findall("devices/disk")],
        "interfaces": [parse_interface(nic) for nic in root.findall("devices/interface")],
        "hostdevs": parse_hostdevs(root),
        "numa": parse_numa(root),
        "metadata": parse_metadata(root),
    }


def parse_disk(element: Element) -> DomainDisk:
    """Return the facts of a ``<disk>``. The sizes are None, because only the hypervisor knows
    them.
    """
    target = element.find("target")
    driver = element.find("driver")
    disk: DomainDisk = {
        "target": target.get("dev", "") if target is not None else "",
        "device": element.get("device", "disk"),
        "bus": target.get("bus") if target is not None else None,
        "type": element.get("type", "file"),
        "source": source_of(element),
        "format": driver.get("type") if driver is not None else None,
        "cache": driver.get("cache") if driver is not None else None,
        "readonly": element.find("readonly") is not None,
        "shareable": element.find("shareable") is not None,
        "capacity_bytes": None,
        "allocation_bytes": None,
    }
    if kinds.of_disk(disk).source is Source.SERVER:
        disk["origin"] = disk_id(element.find("source"))
    return disk


def is_written(disk: Mapping[str, object]) -> bool:
    """Return True if a domain may write to a disk; this includes a floppy disk.

    :param disk: the result of parse_disk(), or a disk in the facts of a domain.
    """
    return disk.get("device", "disk") != "cdrom" and not disk.get("readonly")


def has_written_image(disk: DomainDisk) -> bool:
    """Return True if the guest writes to an image of the disk. Copies and snapshots include only
    such disks.

    Drives for media and empty drives have no such image.
    """
    return disk["device"] == "disk" and is_written(disk) and disk["source"] is not None


def is_source(element: Element) -> bool:
    """Return True if the alias of a disk says that its file existed before the instance.

    drover never removes such a file.
    """
    alias = element.find("alias")
    return alias is not None and (alias.get("name") or "").startswith(SOURCE_ALIAS)


def source_of(element: Element) -> str | None:
    """Return the name in a disk's ``<source>``: a path, ``pool/volume`` or ``protocol:name``; None
    if the drive is empty.

    A drive with a file, a device or a folder as source can be empty. A drive of an unknown type is
    never empty: the result is its type and the name in its source.
    """
    source = element.find("source")
    kind = kinds.disk(element.get("type", "file"))
    if kind.key is None:
        return _named_source(kind.name, source)
    if source is None:
        return None
    if kind.source is Source.VOLUME:
        return f"{source.get('pool')}/{source.get('volume')}"
    if kind.source is Source.SERVER:
        return f"{source.get('protocol')}:{source.get('name') or ''}"
    return source.get(kind.key)


def _named_source(kind: str, source: Element | None) -> str:
    if source is None:
        return kind
    names = [source.get(key) for key in ("path", "dev", "name", "socket")]
    address = source.find("address")
    if address is not None:
        names.append(f"{pci_address(address)}/{source.get('namespace')}")
    return ":".join([kind, *(each for each in names if each)])


def backing_files(element: Element) -> list[str]:
    """Return the paths of a disk's backing chain in the XML. Only the XML of a running domain has
    the chain.
    """
    paths = []
    layer = element.find("backingStore")
    while layer is not None:
        path = source_of(layer)
        if path and kinds.disk(layer.get("type", "file")).is_image:
            paths.append(path)
        layer = layer.find("backingStore")
    return paths


def parse_interface(element: Element) -> InterfaceFacts:
    """Return the facts of an ``<interface>``: MAC, type, its network or bridge or device, model and
    the host's device.
    """
    source = element.find("source")
    mac = element.find("mac")
    model = element.find("model")
    target = element.find("target")
    plugged = None
    if source is not None:
        for key in ("network", "bridge", "dev", "path", "portid", "address"):
            if source.get(key):
                plugged = source.get(key)
                break
    # If the network is a bridge, the XML of the running domain has the type bridge.
    of_network = source is not None and bool(source.get("network"))
    return {
        "mac": mac.get("address") if mac is not None else None,
        "type": "network" if of_network else element.get("type"),
        "source": plugged,
        "model": model.get("type") if model is not None else None,
        "target": target.get("dev") if target is not None else None,
    }


def parse_hostdevs(root: Element) -> list[HostdevFacts]:
    """Return all host devices of a domain: passed-through devices, network interfaces and vDPA
    devices.
    """
    hostdevs = [parse_hostdev(device) for device in root.findall("devices/hostdev")]
    for nic in root.findall("devices/interface"):
        source = nic.find("source")
        address = source.find("address") if source is not None else None
        if nic.get("type") == "vdpa":
            hostdevs.append(
                {"type": "vdpa", "address": source.get("dev") if source is not None else None}
            )
        elif address is not None and address.get("type", "pci") == "pci":
            # This is also the form if a network of libvirt chose the device.
            hostdevs.append({"type": "pci", "address": pci_address(address)})
        elif nic.get("type") == "hostdev":
            hostdevs.append({"type": "interface", "address": None})
    return hostdevs


def parse_hostdev(element: Element) -> HostdevFacts:
    """Return the facts of a ``<hostdev>``: its type and an address that names the host's device."""
    kind = element.get("type") or element.get("mode")
    address = element.find("source/address")
    if address is None:
        vendor, product = element.find("source/vendor"), element.find("source/product")
        if vendor is not None and product is not None:
            return {"type": kind, "address": f"{vendor.get('id')}:{product.get('id')}"}
        adapter = element.find("source/adapter")
        return {"type": kind, "address": adapter.get("name") if adapter is not None else None}
    if kind == "pci":
        return {"type": kind, "address": pci_address(address)}
    if kind == "mdev":
        return {"type": kind, "address": address.get("uuid")}
    return {
        "type": kind,
        "address": ":".join(address.attrib[key] for key in sorted(address.attrib)),
    }


def parse_metadata(root: Element) -> dict[str, str]:
    """Return the texts below ``<drover:instance>``. Ignore the metadata of other applications."""
    instance = root.find(f"metadata/{{{METADATA_NAMESPACE}}}instance")
    if instance is None:
        return {}
    prefix = f"{{{METADATA_NAMESPACE}}}"
    metadata = {
        child.tag[len(prefix) :]: (child.text or "").strip()
        for child in instance
        if isinstance(child.tag, str) and child.tag.startswith(prefix)
    }
    if labels.ELEMENT in metadata:
        metadata[labels.ELEMENT] = labels.text_of(instance.findall(prefix + labels.ELEMENT))
    return metadata


def without_passwords(text: str) -> str:
    """Return the XML without the passwords of graphical consoles, otherwise unchanged."""
    return re.sub(
        r"""(<graphics\b(?:[^>"']|"[^"]*"|'[^']*')*?)\s+passwd\s*=\s*(?:"[^"]*"|'[^']*')""",
        r"\1",
        text,
    )


def networks_of(text: str) -> dict[str, list[str]]:
    """Return the networks, bridges and devices that a domain's interfaces need on each host:
    ``{'network': [...], 'bridge': [...], 'dev': [...]}``.
    """
    needs: dict[str, list[str]] = {"network": [], "bridge": [], "dev": []}
    for nic in parse(text).findall("devices/interface"):
        interface = parse_interface(nic)
        kind = {"network": "network", "bridge": "bridge", "direct": "dev"}.get(
            interface["type"] or ""
        )
        if kind and interface["source"] and interface["source"] not in needs[kind]:
            needs[kind].append(interface["source"])
    return needs


def network_filters_of(text: str) -> list[str]:
    """Return the names of the network filters of a domain's interfaces, sorted."""
    return sorted(
        {each.get("filter") or "" for each in parse(text).findall("devices/interface/filterref")}
        - {""}
    )


def nvram_path(text: str, system: bool = False) -> str | None:
    """Return the path of the file with the UEFI variables of the domain; None without such a file.

    :param system: True for a domain of libvirt's system daemon with its known folder. libvirt
        before 9.2 chooses the firmware at each start, and the definition has no path: then the file
        has the name of the domain.
    """
    root = parse(text)
    nvram, os_element = root.find("os/nvram"), root.find("os")
    if nvram is not None:
        return (nvram.text or "").strip() or source_of(nvram)
    name = child_text(root, "name")
    if (
        system
        and name
        and os_element is not None
        and os_element.get("firmware") == "efi"
        and root.find("os/loader") is None
    ):
        return f"{NVRAM_FOLDER}/{name}_VARS.fd"
    return None


def console_logs(text: str) -> list[str]:
    """Return the log files of the consoles with the uuid of the domain in the file name."""
    root = parse(text)
    uuid = child_text(root, "uuid")
    paths = [log.get("file", "") for log in root.findall("devices/*/log")]
    return list(
        dict.fromkeys(
            path
            for path in paths
            if uuid and path.startswith("/") and uuid in path.rpartition("/")[2]
        )
    )


def files_of_start(text: str, system: bool = False) -> list[str]:
    """Return the files that libvirt makes at the first start of the domain: UEFI variables and
    console logs.
    """
    nvram = nvram_path(text, system)
    return [*([] if nvram is None else [nvram]), *console_logs(text)]


def with_password(text: str, password: str) -> str:
    """Return the XML with this password for each graphical console.

    :raises ValueError: the domain has no graphical console, or the password is empty or too long.
    """
    ET.register_namespace("drover", METADATA_NAMESPACE)
    root = parse(text)
    consoles = [
        each for each in root.findall("devices/graphics") if each.get("type") in ("vnc", "spice")
    ]
    if not consoles:
        raise ValueError("there is no graphical console (VNC or SPICE) that could have a password")
    if not password:
        raise ValueError("it is empty")
    for console in consoles:
        if console.get("type") == "vnc" and len(password.encode()) > VNC_PASSWORD:
            raise ValueError(
                f"the password of a VNC console has {VNC_PASSWORD} bytes at most, and this one is"
                " longer"
            )
        console.set("passwd", password)
    return ET.tostring(root, encoding="unicode")


def is_locked_out(text: str) -> bool:
    """Return True if the domain was built with a password for its graphical console and this XML
    has none.
    """
    root = parse(text)
    consoles = [
        each for each in root.findall("devices/graphics") if each.get("type") in ("vnc", "spice")
    ]
    return PASSWORD_KEY in parse_metadata(root) and any(
        not console.get("passwd") for console in consoles
    )


def boot_files(text: str) -> list[tuple[str, bool]]:
    """Return the boot files of a domain. Its disks are none of them.

    :returns: a list of (path, True for read-only firmware of the operating system).
    """
    root, files = parse(text), []
    for name in ("loader", "kernel", "initrd", "dtb", "shim", "acpi/table"):
        for element in root.findall(f"os/{name}"):
            path = (element.text or "").strip()
            unwritten = element.get("readonly") == "yes" or element.get("type") == "rom"
            if path.startswith("/"):
                files.append((path, name == "loader" and unwritten and path.startswith("/usr/")))
    # The firmware gives these files to the guest (fw_cfg).
    files += [
        (str(each.get("file")), False)
        for each in root.findall("sysinfo/entry")
        if (each.get("file") or "").startswith("/")
    ]
    return files

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of an instance, from its definition, the extra specs of its flavor and the
properties of its image (N9.5).

A key of the definition has priority over all else. Below it the rules of Nova decide between flavor
and image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from .._common import validation
from .._common.errors import DroverError, InvalidSpecs, either
from .._numa.cpu_topology import guest_cpu_topology
from . import disk_files
from . import hardware_fields as known
from .definition import DefinedDisk, DefinedDrive, DefinedNetwork, Definition

#: Nova's words for true and false, in any case.
_TRUE, _FALSE = ("1", "t", "true", "on", "y", "yes"), ("0", "f", "false", "off", "n", "no")
#: The names that VMware's images have for models of cards.
_OLD_MODELS = {
    "virtuale1000": "e1000",
    "virtuale1000e": "e1000e",
    "virtualpcnet32": "pcnet",
    "virtualvmxnet3": "vmxnet3",
}
_X86 = ("x86_64", "i686")
DISK_DEFAULTS = {"cache": "none", "io": None, "discard": "unmap", "serial": None}
_PREFIXES = {"virtio": "vd", "ide": "hd"}


class Feature(TypedDict):
    """A feature of the firmware."""

    name: str
    enabled: bool


class Firmware(TypedDict):
    """The UEFI firmware of a guest."""

    features: list[Feature]
    smm: bool


class Graphics(TypedDict):
    """The graphical console of a guest."""

    type: str
    listen: str
    password_variable: str | None


class Video(TypedDict):
    """The graphics card of a guest."""

    model: str
    vram_mb: int | None


class Hardware(TypedDict):
    """The hardware of an instance without its disks and networks, and the defaults of these."""

    #: None for libvirt's own.
    machine: str | None
    #: The chipset of a PC: q35 or pc; None for all other machines.
    chipset: str | None
    windows: bool
    #: None for BIOS.
    firmware: Firmware | None
    tpm: dict[str, str] | None
    graphics: Graphics | None
    video: Video | None
    serial_ports: int
    console_log: bool
    guest_agent: bool
    watchdog: dict[str, str] | None
    #: rate_bytes and rate_period, each may be None.
    rng: dict[str, int | None] | None
    boot: list[str]
    boot_menu: bool
    #: sockets, cores and threads; None for one core in each socket.
    cpu_topology: dict[str, int] | None
    #: The input devices that the definition or the image names.
    inputs: list[dict[str, str]]
    #: True for a tablet by default.
    pointer: bool
    cdroms: list[DefinedDrive]
    disk_bus: str
    cdrom_bus: str
    scsi_model: str
    iotune: dict[str, int]
    vif_model: str
    queues: int | None


class Sources(NamedTuple):
    """The sources of values.

    where: the beginning of each sentence. definition: as it was checked by the tables of
    hardware_fields. extra_specs, properties: of the flavor and of the image.
    """

    where: str
    definition: Definition
    extra_specs: Mapping[str, Any]
    properties: Mapping[str, Any]

    def of_flavor(self, name: str) -> str | None:
        """Return an extra spec as text, None if it is missing or empty."""
        return _text(self.extra_specs.get(name))

    def of_image(self, name: str) -> str | None:
        """Return an image property as text, None if it is missing or empty."""
        return _text(self.properties.get(name))

    def agreed(self, flavor_name: str, image_name: str) -> str | None:
        """Return the value that flavor and image give; they must not differ."""
        of_flavor, of_image = self.of_flavor(flavor_name), self.of_image(image_name)
        if of_flavor and of_image and of_flavor != of_image:
            raise DroverError(
                f"{self.where}: its flavor has {flavor_name} {of_flavor} and its image {image_name}"
                f" {of_image}. Make them the same, or take one out."
            )
        return of_flavor or of_image

    def chosen(self, name: str, value: str | None, choices: Sequence[str]) -> str | None:
        """Return a value that must be one of some."""
        if value is not None and value not in choices:
            raise DroverError(
                f"{self.where}: {name} must be {either(choices)}, not {validation.shown(value)}."
            )
        return value

    def switch(self, name: str, value: str | None) -> bool | None:
        """Return a truth value as Nova reads one."""
        if value is None:
            return None
        if value.lower() not in _TRUE + _FALSE:
            raise DroverError(
                f"{self.where}: {name} must be true or false, not {validation.shown(value)}."
            )
        return value.lower() in _TRUE

    def whole(
        self, name: str, value: str | None, least: int = 0, most: int = validation.MOST
    ) -> int | None:
        """Return a whole number."""
        return (
            None
            if value is None
            else validation.read_whole(f"{self.where}: {name}", value, least, most)
        )


def hardware(
    definition: Definition,
    extra_specs: Mapping[str, object] | None = None,
    properties: Mapping[str, object] | None = None,
    *,
    where: str,
    vcpus: int = 1,
    arch: str = "x86_64",
) -> Hardware:
    """Return the hardware of an instance, without its disks and networks.

    :param definition: its keys of hardware_fields.INSTANCE_FIELDS, checked.
    :param extra_specs, properties: the extra specs of its flavor and the properties of its image.
    :param where: the beginning of each sentence.
    :param arch: the architecture of its host.
    :raises DroverError: the sources contradict each other, or Nova or libvirt refuses it.
    """
    sources = Sources(where, definition, extra_specs or {}, properties or {})
    machine = (
        definition.get("machine")
        or sources.of_image("hw_machine_type")
        or ("q35" if arch == "x86_64" else None)
    )
    graphics = _graphics(sources)
    chipset, inputs = _chipset(machine, arch), _inputs(sources)
    return {
        "machine": machine,
        "chipset": chipset,
        "windows": _is_windows(sources),
        "firmware": _firmware(sources, machine, arch),
        "tpm": _tpm(sources),
        "graphics": graphics,
        "video": _video(sources, graphics),
        "serial_ports": _serial_ports(sources),
        "console_log": bool((definition.get("console") or {}).get("log")),
        "guest_agent": _first_value(
            definition.get("guest_agent"),
            sources.switch("hw_qemu_guest_agent", sources.of_image("hw_qemu_guest_agent")),
            False,
        ),
        "watchdog": _watchdog(sources),
        "rng": _rng(sources),
        "boot": definition.get("boot") or ["hd"],
        "boot_menu": _boot_menu(sources),
        "cpu_topology": _cpu_topology(sources, vcpus),
        "inputs": inputs,
        # A mouse moves the pointer of the guest away from the pointer of the viewer.
        "pointer": bool(graphics and chipset and not inputs),
        "cdroms": [each.copy() for each in definition.get("cdroms") or ()],
        "disk_bus": (
            sources.chosen("hw_disk_bus", sources.of_image("hw_disk_bus"), known.DISK_BUSES)
            or "virtio"
        ),
        "cdrom_bus": (
            sources.chosen("hw_cdrom_bus", sources.of_image("hw_cdrom_bus"), known.CDROM_BUSES)
            or _cdrom_bus(machine, arch)
        ),
        "scsi_model": (
            sources.chosen("hw_scsi_model", sources.of_image("hw_scsi_model"), known.SCSI_MODELS)
            or "virtio-scsi"
        ),
        "iotune": _quotas(sources),
        "vif_model": _vif_model(sources),
        "queues": _queues(sources, vcpus),
    }


def drives(
    found: Hardware,
    layout: Sequence[Mapping[str, object]],
    of_definition: Sequence[DefinedDisk],
    seed: str | None,
    where: str,
) -> dict[str, object]:
    """Return the disks and CD-ROM drives with all their values in the domain.

    :param found: the result of hardware().
    :param layout: the path and format of each disk, in order; other keys stay.
    :param of_definition: the keys of hardware_fields.DISK_FIELDS of each disk.
    :param seed: the path of the image for cloud-init, which is in the first CD-ROM drive.
    :returns: disks, cdroms (path None for an empty one), scsi_model (None if no drive is on that
        bus).
    """
    targets = _Targets()
    disks: list[dict[str, object]] = []
    cdroms: list[dict[str, object]] = []
    plain: list[DefinedDisk] = [{} for _dummy in layout]
    seeds: list[DefinedDrive] = [{"path": seed}] if seed else []
    for number, (place, disk_wanted) in enumerate(zip(layout, [*of_definition, *plain]), 1):
        bus = disk_wanted.get("bus") or found["disk_bus"]
        _refuse_ide(bus, found["machine"], f"{where}, disk {number}")
        disk = known.disk(
            {
                **DISK_DEFAULTS,
                **{key: disk_wanted.get(key) for key in DISK_DEFAULTS if disk_wanted.get(key)},
            },
            f"{where}, disk {number}",
        )
        disks.append(
            {
                **place,
                **disk,
                "bus": bus,
                "target": targets.following(bus),
                "iotune": disk_wanted.get("iotune") or found["iotune"],
            }
        )
    for number, drive in enumerate([*seeds, *found["cdroms"]], 1):
        bus = drive.get("bus") or found["cdrom_bus"]
        _refuse_ide(bus, found["machine"], f"{where}, CD-ROM drive {number}")
        cdroms.append({"path": drive.get("path"), "bus": bus, "target": targets.following(bus)})
    of_ide = sum(each["bus"] == "ide" for each in (*disks, *cdroms))
    if of_ide > known.MOST_IDE:
        raise DroverError(
            f"{where}: {of_ide} of its disks and CD-ROM drives, that of cloud_init among them, have"
            f" the bus ide, and a guest can have {known.MOST_IDE} there. Take bus: virtio or sata"
            " for the others."
        )
    has_scsi = any(each["bus"] == "scsi" for each in (*disks, *cdroms))
    return {
        "disks": disks,
        "cdroms": cdroms,
        "scsi_model": found["scsi_model"] if has_scsi else None,
    }


def networks(
    found: Hardware, of_definition: Sequence[DefinedNetwork], where: str
) -> list[DefinedNetwork]:
    """Return the interfaces with all their values in the domain.

    :param found: the result of hardware().
    :param of_definition: the bridge, network, or physical_network and vnic of each interface; and
        its keys of hardware_fields.NETWORK_FIELDS.
    """
    made: list[DefinedNetwork] = []
    for number, network in enumerate(of_definition, 1):
        # A device that is the guest's own has neither.
        is_emulated = network.get("vnic") in (None, "macvtap")
        model = (network.get("model") or found["vif_model"]) if is_emulated else None
        queues = network.get("queues") or (found["queues"] if model == "virtio" else None)
        interface: DefinedNetwork = {
            **network,
            "model": model,
            "queues": queues if queues != 1 else None,
        }
        known.network(
            {key: value for key, value in interface.items() if value is not None},
            f"{where}, network {number}",
        )
        port = network.get("openvswitch")
        made.append(
            {
                "vnic": None,
                **interface,
                "openvswitch": {} if port is True else port or None,
                "vlan": _tags(network.get("vlan")),
            }
        )
    return made


def refuse(
    definition: Definition,
    extra_specs: Mapping[str, object] | None,
    properties: Mapping[str, object] | None,
    where: str,
    vcpus: int = 1,
) -> None:
    """Refuse a definition with hardware that contradicts itself, before a host is chosen.

    :param definition: checked, with disks and networks.
    :raises DroverError: no host could build it.
    """
    chosen = hardware(definition, extra_specs, properties, where=where, vcpus=vcpus)
    drives(
        chosen,
        [{} for _disk in definition["disks"]],
        definition["disks"],
        disk_files.SEED if definition.get("cloud_init") else None,
        where,
    )
    networks(chosen, definition["networks"], where)


def _cpu_topology(given: Sources, vcpus: int) -> dict[str, int] | None:
    try:
        chosen = guest_cpu_topology(vcpus, given.extra_specs, given.properties)
    except InvalidSpecs as problem:
        raise DroverError(f"{given.where}: {problem}") from None
    return None if chosen == (vcpus, 1, 1) else chosen._asdict()


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _first_value(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


class _Targets:
    """The names of the devices of one domain."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def following(self, bus: str) -> str:
        """Return the next free name on a bus: sda to sdz, then sdaa."""
        prefix = _PREFIXES.get(bus, "sd")
        number = self._used[prefix] = self._used.get(prefix, -1) + 1
        return prefix + disk_files.letters(number)


def _is_pc(machine: str | None) -> bool:
    return machine is not None and (machine == "pc" or machine.startswith("pc-i440fx"))


def _is_q35(machine: str | None) -> bool:
    return machine is not None and "q35" in machine


def _chipset(machine: str | None, arch: str) -> str | None:
    if arch not in _X86:
        return None
    # libvirt takes pc where no machine is named.
    return "q35" if _is_q35(machine) else "pc" if machine is None or _is_pc(machine) else None


def _cdrom_bus(machine: str | None, arch: str) -> str:
    # As in Nova, q35 has no IDE, and other architectures have none, either.
    if arch not in _X86:
        return "scsi"
    return "ide" if _is_pc(machine) else "sata"


def _refuse_ide(bus: str, machine: str | None, where: str) -> None:
    if bus == "ide" and not _is_pc(machine):
        raise DroverError(
            f"{where}: the bus ide exists with the machine type pc only, and the machine is"
            f" {machine}. Take bus: sata, or machine: pc."
        )


def _is_windows(given: Sources) -> bool:
    # Other values of an image are those of its owner. As in Nova, capital letters do not count.
    kind = given.definition.get("os_type") or given.of_image("os_type") or ""
    return kind.lower() == known.WINDOWS


def _firmware(given: Sources, machine: str | None, arch: str) -> Firmware | None:
    own = given.definition.get("firmware")
    kind = own or given.chosen(
        "hw_firmware_type", given.of_image("hw_firmware_type"), (known.BIOS, known.UEFI)
    )
    policy = given.chosen(
        "os:secure_boot and os_secure_boot",
        given.agreed("os:secure_boot", "os_secure_boot"),
        ("required", "optional", "disabled"),
    )
    if own:
        # The definition's word is the last.
        policy = "required" if own == known.SECURE_BOOT else None
    if kind is None and arch == "aarch64":
        kind = known.UEFI
    if kind in (None, known.BIOS):
        if policy == "required":
            raise DroverError(
                f"{given.where}: os:secure_boot is required, and its firmware is bios. Set"
                " hw_firmware_type: uefi at the image, or firmware: uefi-secure-boot in the"
                " definition."
            )
        return None
    if policy == "required":
        if _is_pc(machine):
            raise DroverError(
                f"{given.where}: Secure Boot needs the machine type q35, and the machine is"
                f" {machine}. Take machine: q35."
            )
        # Without the keys nothing is verified.
        return {
            "features": [_feature("secure-boot", True), _feature("enrolled-keys", True)],
            "smm": arch in _X86,
        }
    if policy == "optional":
        # libvirt takes the firmware of the host, first the one with Secure Boot.
        return {"features": [], "smm": arch in _X86 and _is_q35(machine)}
    return {"features": [_feature("secure-boot", False)], "smm": False}


def _feature(name: str, enabled: bool) -> Feature:
    return {"name": name, "enabled": enabled}


def _tpm(given: Sources) -> dict[str, str] | None:
    own = given.definition.get("tpm")
    if own:
        return {"version": own["version"], "model": own.get("model") or "tpm-tis"}
    version = given.chosen(
        "hw:tpm_version", given.agreed("hw:tpm_version", "hw_tpm_version"), known.TPM_VERSIONS
    )
    if version is None:
        return None
    model = (
        given.chosen("hw:tpm_model", given.agreed("hw:tpm_model", "hw_tpm_model"), known.TPM_MODELS)
        or "tpm-tis"
    )
    if model == "tpm-crb" and version != "2.0":
        raise DroverError(
            f"{given.where}: hw:tpm_model tpm-crb exists with hw:tpm_version 2.0 only, not"
            f" {version}."
        )
    return {"version": version, "model": model}


def _graphics(given: Sources) -> Graphics | None:
    own = given.definition.get("graphics")
    if not own:
        return None
    return {
        "type": own["type"],
        "listen": own.get("listen") or "127.0.0.1",
        "password_variable": own.get("password_variable"),
    }


def _video(given: Sources, graphics: Graphics | None) -> Video | None:
    own = given.definition.get("video")
    if own:
        return {"model": own["model"], "vram_mb": own.get("vram_mb")}
    model = given.chosen("hw_video_model", given.of_image("hw_video_model"), known.VIDEO_MODELS)
    memory = given.whole("hw_video_ram", given.of_image("hw_video_ram")) or 0
    most = given.whole("hw_video:ram_max_mb", given.of_flavor("hw_video:ram_max_mb")) or 0
    if memory > most:
        raise DroverError(
            f"{given.where}: its image asks for {memory} MiB of video memory (hw_video_ram), and"
            f" its flavor allows {most} (hw_video:ram_max_mb). Raise the limit of the flavor, or"
            " lower hw_video_ram."
        )
    if model is None and graphics is None:
        return None
    return {"model": model or "virtio", "vram_mb": memory or None}


def _serial_ports(given: Sources) -> int:
    own = (given.definition.get("console") or {}).get("serial_ports")
    of_flavor = given.whole(
        "hw:serial_port_count", given.of_flavor("hw:serial_port_count"), 0, known.MOST_SERIAL_PORTS
    )
    of_image = given.whole(
        "hw_serial_port_count", given.of_image("hw_serial_port_count"), 0, known.MOST_SERIAL_PORTS
    )
    if of_flavor and of_image and of_image > of_flavor:
        raise DroverError(
            f"{given.where}: its image asks for {of_image} serial ports (hw_serial_port_count), and"
            f" its flavor allows {of_flavor} (hw:serial_port_count). Lower the number of the image,"
            " or raise that of the flavor."
        )
    return int(own or of_image or of_flavor or 1)


def _watchdog(given: Sources) -> dict[str, str] | None:
    own = given.definition.get("watchdog")
    if own:
        return {"model": own.get("model") or "i6300esb", "action": own["action"]}
    # Here the image has priority over the flavor.
    action = _first_value(
        given.of_image("hw_watchdog_action"), given.of_flavor("hw:watchdog_action"), "disabled"
    )
    given.chosen("hw:watchdog_action", action, ("none", "pause", "poweroff", "reset", "disabled"))
    return None if action == "disabled" else {"model": "i6300esb", "action": action}


def _rng(given: Sources) -> dict[str, int | None] | None:
    own = given.definition.get("rng")
    given.chosen("hw_rng_model", given.of_image("hw_rng_model"), ("virtio",))
    if own is False or (
        own is None and given.switch("hw_rng:allowed", given.of_flavor("hw_rng:allowed")) is False
    ):
        return None
    if isinstance(own, Mapping):
        rate, period = own.get("rate_bytes"), own.get("rate_period")
    else:
        rate = given.whole("hw_rng:rate_bytes", given.of_flavor("hw_rng:rate_bytes")) or None
        period = given.whole("hw_rng:rate_period", given.of_flavor("hw_rng:rate_period")) or None
    return {"rate_bytes": rate, "rate_period": (period or 1000) if rate else None}


def _boot_menu(given: Sources) -> bool:
    of_image = given.switch("hw_boot_menu", given.of_image("hw_boot_menu"))
    return bool(
        _first_value(
            given.definition.get("boot_menu"),
            of_image,
            given.switch("hw:boot_menu", given.of_flavor("hw:boot_menu")),
            False,
        )
    )


def _inputs(given: Sources) -> list[dict[str, str]]:
    bus = given.definition.get("input_bus") or given.chosen(
        "hw_input_bus", given.of_image("hw_input_bus"), known.INPUT_BUSES
    )
    pointer = given.chosen("hw_pointer_model", given.of_image("hw_pointer_model"), ("usbtablet",))
    if bus:
        return [{"type": "tablet", "bus": bus}, {"type": "keyboard", "bus": bus}]
    return [{"type": "tablet", "bus": "usb"}] if pointer else []


def _quotas(given: Sources) -> dict[str, int]:
    quotas = {
        key: given.whole(f"quota:disk_{key}", given.of_flavor(f"quota:disk_{key}"), most=2**63 - 1)
        for key in known.LIMITS
    }
    limits = {key: value for key, value in quotas.items() if value}
    check = known.DISK_FIELDS["iotune"].check
    if check is not None:
        check(limits, f"{given.where}: quota:disk of its flavor")
    return limits


def _vif_model(given: Sources) -> str:
    model = (given.of_image("hw_vif_model") or "virtio").lower()
    return (
        given.chosen("hw_vif_model", _OLD_MODELS.get(model, model), known.NETWORK_MODELS) or model
    )


def _queues(given: Sources, vcpus: int) -> int | None:
    names = ("hw:vif_multiqueue_enabled", "hw_vif_multiqueue_enabled")
    of_flavor, of_image = (
        given.switch(name, value)
        for name, value in zip(names, (given.of_flavor(names[0]), given.of_image(names[1])))
    )
    if vcpus < 2:
        return None
    if of_flavor is not None and of_image is not None and of_flavor != of_image:
        raise DroverError(
            f"{given.where}: {names[0]} of its flavor and {names[1]} of its image differ. Make them"
            " the same, or take one out."
        )
    return min(vcpus, known.MOST_QUEUES) if of_flavor or of_image else None


def _tags(vlan: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the VLANs of an interface: trunk (whether the guest sees tags) and tags, each id and
    native.
    """
    if not vlan:
        return None
    if "tag" in vlan:
        return {"trunk": False, "tags": [{"id": vlan["tag"], "native": False}]}
    return {
        "trunk": True,
        "tags": [{"id": each, "native": each == vlan.get("native")} for each in vlan["trunk"]],
    }

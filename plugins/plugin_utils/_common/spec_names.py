# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of extra specs and image properties: the names that have an effect here, and Nova's
others, which are refused.

The names come from Nova's validators of extra specs (nova/api/validation/extra_specs) and from its
ImageMetaProps. docs/hardware.md lists them. N stands for a number from 0 on. Names of other
namespaces are free.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .errors import DroverError
from .validation import did_you_mean

#: The names that mean the same with hw: at a flavor and with hw_ at an image.
_BOTH = (
    "boot_menu",
    "cpu_cores",
    "cpu_max_cores",
    "cpu_max_sockets",
    "cpu_max_threads",
    "cpu_policy",
    "cpu_sockets",
    "cpu_thread_policy",
    "cpu_threads",
    "maxphysaddr_bits",
    "mem_page_size",
    "numa_cpus.N",
    "numa_mem.N",
    "numa_nodes",
    "pci_numa_affinity_policy",
    "serial_port_count",
    "tpm_model",
    "tpm_version",
    "vif_multiqueue_enabled",
    "watchdog_action",
)
_LIMITS = (
    "read_bytes_sec",
    "read_iops_sec",
    "total_bytes_sec",
    "total_iops_sec",
    "write_bytes_sec",
    "write_iops_sec",
)
#: Extra specs that do something.
EXTRA_SPECS = (
    *(f"hw:{name}" for name in _BOTH),
    "hw:cpu_dedicated_mask",
    "hw:emulator_threads_policy",
    "hw_rng:allowed",
    "hw_rng:rate_bytes",
    "hw_rng:rate_period",
    "hw_video:ram_max_mb",
    "os:secure_boot",
    "pci_passthrough:alias",
    *(f"quota:disk_{name}" for name in _LIMITS),
)
#: Image properties that do something. Names without hw_ are free.
PROPERTIES = (
    *(f"hw_{name}" for name in _BOTH),
    "hw_architecture",
    "hw_cdrom_bus",
    "hw_disk_bus",
    "hw_firmware_type",
    "hw_input_bus",
    "hw_machine_type",
    "hw_pointer_model",
    "hw_qemu_guest_agent",
    "hw_rng_model",
    "hw_scsi_model",
    "hw_video_model",
    "hw_video_ram",
    "hw_vif_model",
    "hw_viommu_model",
    "hw_vm_mode",
)
_REFUSED_BOTH = (
    "cpu_realtime",
    "cpu_realtime_mask",
    "ephemeral_encryption",
    "ephemeral_encryption_format",
    "locked_memory",
    "maxphysaddr_mode",
    "mem_encryption",
    "mem_encryption_model",
    "pmem",
    "pmu",
    "redirected_usb_ports",
    "sound_model",
    "usb_model",
    "virtio_packed_ring",
)
#: Extra specs of Nova that drover does not do.
REFUSED_SPECS = (
    *(f"hw:{name}" for name in _REFUSED_BOTH),
    "hw:hide_hypervisor_id",
    "hw:tpm_secret_security",
    "hw:viommu_model",
    *(
        f"quota:cpu_{name}"
        for name in (
            "limit",
            "period",
            "quota",
            "reservation",
            "shares",
            "shares_level",
            "shares_share",
        )
    ),
    *(f"quota:disk_io_{name}" for name in ("limit", "reservation", "shares_level", "shares_share")),
    *(f"quota:memory_{name}" for name in ("limit", "reservation", "shares_level", "shares_share")),
    *(
        f"quota:vif_{way}_{name}"
        for way in ("inbound", "outbound")
        for name in ("average", "burst", "peak")
    ),
    *(f"quota:vif_{name}" for name in ("limit", "reservation", "shares_level", "shares_share")),
)
#: Image properties of Nova that drover does not do.
REFUSED_PROPERTIES = (
    *(f"hw_{name}" for name in _REFUSED_BOTH),
    "hw_auto_disk_config",
    "hw_device_id",
    "hw_disk_type",
    "hw_emulation_architecture",
    "hw_ephemeral_encryption_secret_uuid",
    "hw_firmware_stateless",
    "hw_floppy_bus",
    "hw_ipxe_boot",
    "hw_rescue_bus",
    "hw_rescue_device",
    "hw_time_hpet",
)
#: The prefixes of the names that must be known.
_OURS_OF_FLAVOR = ("hw:", "hw_", "os:", "pci_passthrough:", "quota:")
_OURS_OF_IMAGE = ("hw_", "hw:", "os:", "pci_passthrough:", "quota:")
#: Values that ask for nothing.
_OFF = ("", "0", "f", "false", "off", "n", "no", "none")


def refuse_unknown(
    extra_specs: Mapping[str, object], properties: Mapping[str, object], where: str
) -> None:
    """Refuse a name without an effect in a namespace of the collection.

    :param extra_specs: the extra specs of a flavor or an instance. properties: of an image. A value
        of None removes the key.
    :param where: the beginning of the error.
    :raises DroverError: naming it, and the nearest one that is known.
    """
    kinds = (
        ("extra spec", extra_specs, _OURS_OF_FLAVOR, EXTRA_SPECS, REFUSED_SPECS, ("hw_", "hw:")),
        (
            "image property",
            properties,
            _OURS_OF_IMAGE,
            PROPERTIES,
            REFUSED_PROPERTIES,
            ("hw:", "hw_"),
        ),
    )
    for kind, given, ours, known_names, refused, (wrong, right) in kinds:
        for key, value in given.items():
            general = re.sub(r"\.[0-9]+$", ".N", key)
            if value is None or not key.startswith(ours) or general in known_names:
                continue
            if general in refused:
                if str(value).strip(" ,").lower() in _OFF:
                    continue
                raise DroverError(
                    f"{where}: the {kind} {key} asks for what drover does not do. Take it out."
                )
            twin = right + general.removeprefix(wrong)
            is_twin = general.startswith(wrong) and twin in known_names
            near = (
                f" (did you mean {right}{key.removeprefix(wrong)}?)"
                if is_twin
                else did_you_mean(general, known_names).replace(".N", ".0")
            )
            raise DroverError(
                f"{where}: there is no {kind} {key}{near}. Correct it or take it out; the page on"
                " hardware lists those that there are."
            )


def refuse_unknown_of_request(request: Any, where: str) -> None:
    """Refuse unknown names of a request: its own names, and the names of a flavor or an image that
    the request defines in place.

    :param request: the request as users write it, perhaps of a wrong type.
    :raises DroverError: see refuse_unknown().
    """
    if not isinstance(request, Mapping):
        return
    parts = [
        request.get("extra_specs"),
        *(
            _part(request.get(key), name)
            for key, name in (("flavor", "extra_specs"), ("image", "properties"))
        ),
    ]
    own, of_flavor, properties = (
        {str(key): value for key, value in part.items()} if isinstance(part, Mapping) else {}
        for part in parts
    )
    refuse_unknown({**of_flavor, **own}, properties, where)


def _part(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None

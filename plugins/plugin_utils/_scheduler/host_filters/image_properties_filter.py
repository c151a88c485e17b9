# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of the image on the hypervisor."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..._common.arrays import BoolArray, np
from ..attributes import follow
from ..components import HostFilter, HostStates, RequestSpec
from ..extra_spec_operators import satisfied

ARCHITECTURES = {
    "i386": "i686",
    "i486": "i686",
    "i586": "i686",
    "x86_32": "i686",
    "em64t": "x86_64",
    "intel64": "x86_64",
    "amd64": "x86_64",
    "x64": "x86_64",
    "arm64": "aarch64",
}
HYPERVISORS = {"xapi": "xen", "powervm": "powervm"}
MODES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}


class ImagePropertiesFilter(HostFilter):
    """The hypervisor supports the architecture, type and mode of the image.

    Inputs: image properties hw_architecture, img_hv_type, hw_vm_mode, img_hv_requested_version and
    hw_maxphysaddr_bits; the host's supported_instances ([arch, type, mode]), hypervisor_version and
    cpu_info; option image_properties_default_architecture.
    Rule: if none of the first three is set, pass; else one supported entry has each of them that is
    set (anywhere in the triple), and the version predicates hold and the address bits suffice if
    both sides are known. A host that reports no supported_instances fails. Source: N2.3.
    """

    name = "ImagePropertiesFilter"
    run_filter_once_per_request = True
    options = {"image_properties_default_architecture": ""}

    def needs(self, spec: RequestSpec) -> Collection[str]:
        if not self._wanted_types(spec):
            return ()
        return ("supported_instances", "hypervisor_version", "cpu_info")

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        properties = self._wanted_types(spec)
        if not properties:
            return np.ones(states.size, dtype=bool)
        result = states.categorical("supported_instances").each(
            lambda entries: any(
                all(each in entry for each in properties) for entry in entries or ()
            )
        )
        version = spec.image_properties.get("img_hv_requested_version")
        if version:
            numbers, codes = np.unique(states.hypervisor_version, return_inverse=True)
            fine = np.array(
                [not each or satisfied(each, str(version)) for each in numbers.tolist()], dtype=bool
            )
            result &= fine[codes.reshape(-1)]
        bits = spec.image_properties.get("hw_maxphysaddr_bits")
        if bits:

            def enough(info: Any) -> bool:
                found = follow(info, ("maxphysaddr", "bits"))
                return not found or int(found) >= int(bits)

            result &= states.categorical("cpu_info").each(enough)
        return result

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        properties = self._wanted_types(spec)
        entries = states.categorical("supported_instances")[index]
        if not entries:
            return f"image: needs {'/'.join(properties)}, the host reports nothing that it supports"
        if any(all(each in entry for each in properties) for entry in entries):
            return "image: the hypervisor's version or address bits do not suffice"
        return (
            f"image: needs {'/'.join(properties)}, the host has"
            f" {', '.join('/'.join(entry) for entry in entries[:4])}"
        )

    def _wanted_types(self, spec: RequestSpec) -> list[str]:
        properties = spec.image_properties
        default = self.option["image_properties_default_architecture"] or None
        values = (
            (properties.get("hw_architecture") or default, ARCHITECTURES),
            (properties.get("img_hv_type"), HYPERVISORS),
            (properties.get("hw_vm_mode"), MODES),
        )
        return [known.get(str(each).lower(), str(each).lower()) for each, known in values if each]

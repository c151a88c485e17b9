# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extra specs and image properties, made into the constraints of a guest (N11.1, N11.2)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._common.errors import InvalidSpecs
from .cpu_sets import parse_cpu_set
from .guest import (
    ANY,
    CPU_POLICIES,
    DEDICATED,
    EMULATOR_POLICIES,
    ISOLATE,
    LARGE,
    MIXED,
    PREFER,
    REQUIRE,
    SHARED,
    SMALL,
    THREAD_POLICIES,
    GuestCell,
    GuestConstraints,
    GuestTopology,
)

HYPERTHREADING = "HW_CPU_HYPERTHREADING"
#: The maximum of cells that are sought in ``hw:numa_cpus.N``.
MOST_CELLS = 128
_TRUE = ("1", "t", "true", "on", "y", "yes")
_PAGE = re.compile(r"(\d*\.?\d+)([KMGT])?i?(b|bit|B)")
_AMOUNT = re.compile(r"resources(?:[1-9][0-9]*)?:(VCPU|PCPU)")
_TRAIT = re.compile(rf"trait(?:[1-9][0-9]*)?:{HYPERTHREADING}")
#: Extra specs and properties that drover does not support: name without prefix, and its meaning.
_UNSUPPORTED = (
    ("cpu_realtime", "real-time vCPUs"),
    ("locked_memory", "locked memory"),
    ("mem_encryption", "memory encryption"),
    ("pmem", "persistent memory"),
)


class Specs:
    """The extra specs of a flavor and the properties of an image, by the common part of the name
    after ``hw:`` or ``hw_``.
    """

    def __init__(self, extra_specs: Mapping[str, object], properties: Mapping[str, object]) -> None:
        self.extra_specs = extra_specs
        self.properties = properties

    def both(self, name: str) -> tuple[str, str]:
        """Return the flavor's and the image's text; empty if one has none."""
        return text_of(self.extra_specs.get(f"hw:{name}")), text_of(
            self.properties.get(f"hw_{name}")
        )

    def word(self, name: str, words: Sequence[str], code: str) -> tuple[str, str]:
        """Return the flavor's and the image's word for a policy.

        :raises InvalidSpecs: one is not in ``words``.
        """
        words_given = self.both(name)
        for value, key in zip(words_given, (f"extra spec hw:{name}", f"image property hw_{name}")):
            if value and value not in words:
                raise InvalidSpecs(
                    f"The {key} is {value!r}. It must be one of {', '.join(words)}.", code
                )
        return words_given

    def by_cell(self, name: str) -> list[str] | None:
        """Return the texts of NAME.0, NAME.1 and so on; None if there is no NAME.0.

        :raises InvalidSpecs: flavor and image both have them.
        """
        flavor = _numbered(self.extra_specs, f"hw:{name}")
        image = _numbered(self.properties, f"hw_{name}")
        if flavor is not None and image is not None:
            raise InvalidSpecs(
                f"The image has hw_{name}.0 and the flavor has hw:{name}.0. Only one of them may"
                " say it: take it out of the image.",
                "ImageNUMATopologyForbidden",
            )
        return flavor if flavor is not None else image


def text_of(value: Any) -> str:
    """Return the text of an extra spec or property; empty for a missing one."""
    return "" if value is None else str(value)


def required_by_image(properties: Mapping[str, object]) -> set[str]:
    """Return the traits that an image requires: ``trait:T`` is required, or T is in
    ``traits_required``, a list or text with commas.
    """
    listed = properties.get("traits_required")
    if isinstance(listed, str):
        listed = [part.strip() for part in listed.split(",")]
    traits = (
        {each for each in listed if isinstance(each, str)}
        if isinstance(listed, (list, tuple))
        else set()
    )
    return traits | {
        key.split(":", 1)[1]
        for key, value in properties.items()
        if key.startswith("trait:") and text_of(value) == "required"
    }


def _numbered(values: Mapping[str, object], name: str) -> list[str] | None:
    texts = []
    for number in range(MOST_CELLS):
        if f"{name}.{number}" not in values:
            break
        texts.append(text_of(values[f"{name}.{number}"]))
    return texts or None


def read_constraints(
    vcpus: int,
    memory_mb: int,
    extra_specs: Mapping[str, object],
    properties: Mapping[str, object] | None = None,
) -> GuestConstraints:
    """Read the requirements of a flavor and an image on CPUs, NUMA cells and pages.

    :param vcpus: the number of vCPUs of the flavor, at least 1.
    :param memory_mb: MiB of the flavor, at least 1.
    :raises InvalidSpecs: they are wrong, contradict each other, or need a feature that drover does
        not support.
    """
    specs = Specs(extra_specs, properties or {})
    _refuse_unsupported(specs)
    policy = _cpu_policy(specs)
    threads = _thread_policy(specs)
    dedicated = _dedicated_mask(specs, vcpus)
    emulator = (
        specs.word("emulator_threads_policy", EMULATOR_POLICIES, "InvalidEmulatorThreadsPolicy")[0]
        or None
    )
    needs = _placement_needs(policy, threads, emulator, vcpus, dedicated)
    policy = _policy_of_resources(specs, policy, emulator, vcpus)
    threads = _policy_of_trait(specs, threads)
    _check_together(policy, threads, emulator, dedicated)
    nodes = _node_count(specs)
    page_size = _page_size(specs)
    if policy == DEDICATED:
        dedicated = set(range(vcpus))
    if nodes is None and page_size is None and policy not in (DEDICATED, MIXED):
        return GuestConstraints(None, *needs)
    cells = _cells(specs, nodes or 1, vcpus, memory_mb, dedicated)
    return GuestConstraints(GuestTopology(cells, policy, threads, emulator, page_size), *needs)


def _refuse_unsupported(specs: Specs) -> None:
    for name, what in _UNSUPPORTED:
        flavor, image = specs.both(name)
        is_set = (
            bool(flavor.strip(" ,"))
            if name == "pmem"
            else flavor.strip().lower() in _TRUE or image.strip().lower() in _TRUE
        )
        if is_set:
            raise InvalidSpecs(
                f"hw:{name} or hw_{name} asks for {what}, which drover does not have. Take it out"
                " of the flavor and of the image.",
                "Unsupported",
            )


def _cpu_policy(specs: Specs) -> str | None:
    flavor, image = specs.word("cpu_policy", CPU_POLICIES, "InvalidCPUAllocationPolicy")
    if (flavor == MIXED and image == DEDICATED) or (
        flavor == SHARED and image in (MIXED, DEDICATED)
    ):
        raise InvalidSpecs(
            f"The image property hw_cpu_policy is {image}, but the flavor has hw:cpu_policy"
            f" {flavor}. An image may not change that: take the property away, or choose another"
            " flavor.",
            "ImageCPUPinningForbidden",
        )
    return flavor or image or None


def _thread_policy(specs: Specs) -> str | None:
    flavor, image = specs.word(
        "cpu_thread_policy", THREAD_POLICIES, "InvalidCPUThreadAllocationPolicy"
    )
    # A flavor that prefers threads hides the setting of the image, as in Nova.
    if flavor and flavor != PREFER and image and image != flavor:
        raise InvalidSpecs(
            f"The image property hw_cpu_thread_policy is {image}, but the flavor has"
            f" hw:cpu_thread_policy {flavor}. An image may not change that: take the property away,"
            " or choose another flavor.",
            "ImageCPUThreadPolicyForbidden",
        )
    return flavor or image or None


def _dedicated_mask(specs: Specs, vcpus: int) -> set[int]:
    """Return the pinned vCPUs of ``hw:cpu_dedicated_mask``; empty without it."""
    mask = specs.both("cpu_dedicated_mask")[0].strip()
    if not mask:
        return set()
    code = "InvalidMixedInstanceDedicatedMask"
    text = f"0-{vcpus - 1},{mask}" if mask.startswith("^") else mask
    every = set(range(vcpus))
    pinned = parse_cpu_set(
        text, "hw:cpu_dedicated_mask", lambda message: InvalidSpecs(message, code)
    )
    if not every - pinned:
        raise InvalidSpecs(
            f"hw:cpu_dedicated_mask {mask} pins each of the {vcpus} vCPUs. Leave one out, or write"
            " hw:cpu_policy=dedicated.",
            code,
        )
    if pinned - every:
        raise InvalidSpecs(
            f"hw:cpu_dedicated_mask {mask} names vCPU {max(pinned)}; the last one is {vcpus - 1}.",
            code,
        )
    return pinned


def _placement_needs(
    policy: str | None, threads: str | None, emulator: str | None, vcpus: int, dedicated: set[int]
) -> tuple[dict[str, int], frozenset[str], frozenset[str]]:
    """Return resources, required and forbidden traits that the policies imply (N11.2)."""
    extra = 1 if emulator == ISOLATE else 0
    resources = {}
    if policy == DEDICATED:
        resources = {"PCPU": vcpus + extra}
    elif policy == MIXED:
        resources = {"VCPU": vcpus - len(dedicated), "PCPU": len(dedicated) + extra}
    trait = frozenset({HYPERTHREADING})
    return (
        resources,
        trait if threads == REQUIRE else frozenset(),
        trait if threads == ISOLATE else frozenset(),
    )


def _policy_of_resources(
    specs: Specs, policy: str | None, emulator: str | None, vcpus: int
) -> str | None:
    """Return the CPU policy that ``resources:PCPU`` or ``resources:VCPU`` implies, or the explicit
    one.
    """
    amounts = {"VCPU": 0, "PCPU": 0}
    for key, value in specs.extra_specs.items():
        match = _AMOUNT.fullmatch(key)
        if match is not None and re.fullmatch(r"\s*[0-9]+\s*", text_of(value)):
            amounts[match[1]] += int(text_of(value))
    if policy and any(amounts.values()):
        raise InvalidSpecs(
            f"The CPU policy {policy} is set, and resources:VCPU or resources:PCPU too. Both say"
            " how many CPUs are pinned: keep one.",
            "InvalidRequest",
        )
    if all(amounts.values()):
        raise InvalidSpecs(
            "The flavor has resources:VCPU and resources:PCPU. Keep one of them.", "InvalidRequest"
        )
    if amounts["PCPU"]:
        needed = vcpus + (1 if emulator == ISOLATE else 0)
        if amounts["PCPU"] != needed:
            raise InvalidSpecs(
                f"resources:PCPU is {amounts['PCPU']}, but the flavor needs {needed}: one for each"
                f" of its {vcpus} vCPUs"
                + (", and one for hw:emulator_threads_policy=isolate." if needed > vcpus else "."),
                "InvalidRequest",
            )
        return DEDICATED
    return SHARED if amounts["VCPU"] else policy


def _policy_of_trait(specs: Specs, threads: str | None) -> str | None:
    """Return the thread policy that the trait of hyperthreading implies, or the explicit one."""
    policy = next(
        (text_of(value) for key, value in specs.extra_specs.items() if _TRAIT.fullmatch(key)), ""
    )
    if not policy and HYPERTHREADING in required_by_image(specs.properties):
        policy = "required"
    if threads and policy:
        raise InvalidSpecs(
            f"The thread policy {threads} is set, and trait:{HYPERTHREADING} too. Both say how"
            " threads are used: keep one.",
            "InvalidRequest",
        )
    return {"forbidden": ISOLATE, "required": REQUIRE}.get(policy, threads)


def _check_together(
    policy: str | None, threads: str | None, emulator: str | None, dedicated: set[int]
) -> None:
    """Refuse a policy for pinned vCPUs if there are none, and a mask without effect."""
    if policy in (SHARED, None):
        if threads:
            raise InvalidSpecs(
                f"The thread policy {threads} is for pinned vCPUs. Set hw:cpu_policy to dedicated"
                " or mixed, or take it out.",
                "CPUThreadPolicyConfigurationInvalid",
            )
        if emulator == ISOLATE:
            raise InvalidSpecs(
                "hw:emulator_threads_policy=isolate is for pinned vCPUs. Set hw:cpu_policy to"
                " dedicated or mixed, or take it out.",
                "BadRequirementEmulatorThreadsPolicy",
            )
    if policy != MIXED and dedicated:
        raise InvalidSpecs(
            "hw:cpu_dedicated_mask is for hw:cpu_policy=mixed alone. Set that, or take the mask"
            " out.",
            "RequiredMixedInstancePolicy",
        )
    if policy == MIXED and not dedicated:
        raise InvalidSpecs(
            "hw:cpu_policy=mixed does not say which vCPUs are pinned. Name them in"
            " hw:cpu_dedicated_mask, such as ^0.",
            "RequiredMixedOrRealtimeCPUMask",
        )


def _node_count(specs: Specs) -> int | None:
    flavor, image = specs.both("numa_nodes")
    if flavor and image:
        raise InvalidSpecs(
            "The image has hw_numa_nodes and the flavor has hw:numa_nodes. Only one of them may say"
            " it: take it out of the image.",
            "ImageNUMATopologyForbidden",
        )
    text = flavor or image
    if not text:
        return None
    if not re.fullmatch(r"[1-9][0-9]*", text):
        raise InvalidSpecs(
            f"The number of NUMA cells is {text!r}. It must be a whole number from 1 on.",
            "InvalidNUMANodesNumber",
        )
    return int(text)


def _page_size(specs: Specs) -> int | str | None:
    flavor, image = specs.both("mem_page_size")
    page_size = _read_page_size(flavor) if flavor else None
    if not image:
        return page_size
    if page_size not in (LARGE, ANY):
        raise InvalidSpecs(
            f"The image property hw_mem_page_size is {image}, but the flavor has"
            f" {f'hw:mem_page_size {flavor}' if flavor else 'none'}. An image may choose a size"
            " only if the flavor says large or any.",
            "MemoryPageSizeForbidden",
        )
    return _read_page_size(image)


def _read_page_size(text: str) -> int | str:
    """Return a page size in KiB, or small, large or any."""
    if text in (SMALL, LARGE, ANY):
        return text
    size: float = 0
    match = _PAGE.fullmatch(text)
    if text.isascii() and text.isdigit():
        size = int(text)
    elif match is not None:
        scale = 1024.0 ** " KMGT".index(match[2] or " ")
        size = math.ceil(float(match[1]) * scale / (1 if match[3] == "B" else 8)) / 1024
    if size < 1 or size != int(size):
        raise InvalidSpecs(
            f"{text!r} is no page size. Write small, large, any, a number of KiB such as 2048, or"
            " 2MB or 1GB.",
            "MemoryPageSizeInvalid",
        )
    return int(size)


def _cells(
    specs: Specs, nodes: int, vcpus: int, memory_mb: int, dedicated: set[int]
) -> tuple[GuestCell, ...]:
    cpus, memory = specs.by_cell("numa_cpus"), specs.by_cell("numa_mem")
    if cpus is None and memory is None:
        return _even_cells(nodes, vcpus, memory_mb, dedicated)
    if cpus is None or memory is None or len(cpus) != nodes or len(memory) != nodes:
        raise InvalidSpecs(
            f"The guest has {nodes} NUMA cells, but hw:numa_cpus.N has {len(cpus or ())} and"
            f" hw:numa_mem.N has {len(memory or ())}. Give both for each cell, from 0 on and"
            " without a gap, or neither.",
            "ImageNUMATopologyIncomplete",
        )
    return _listed_cells(cpus, memory, vcpus, memory_mb, dedicated)


def _even_cells(
    nodes: int, vcpus: int, memory_mb: int, dedicated: set[int]
) -> tuple[GuestCell, ...]:
    if vcpus % nodes or memory_mb % nodes:
        raise InvalidSpecs(
            f"{vcpus} vCPUs and {memory_mb} MiB cannot be divided evenly over {nodes} NUMA cells."
            " Say it with hw:numa_cpus.N and hw:numa_mem.N.",
            "ImageNUMATopologyAsymmetric",
        )
    size = vcpus // nodes
    return tuple(
        _cell(range(number * size, (number + 1) * size), dedicated, memory_mb // nodes)
        for number in range(nodes)
    )


def _listed_cells(
    cpus: Sequence[str], memory: Sequence[str], vcpus: int, memory_mb: int, dedicated: set[int]
) -> tuple[GuestCell, ...]:
    unassigned = set(range(vcpus))
    cells, total = [], 0
    for number, (cpu_text, memory_text) in enumerate(zip(cpus, memory)):
        mine = parse_cpu_set(cpu_text, f"hw:numa_cpus.{number}", _refusal("Invalid"))
        if max(mine) >= vcpus:
            raise InvalidSpecs(
                f"hw:numa_cpus.{number} names vCPU {max(mine)}; the last one is {vcpus - 1}.",
                "ImageNUMATopologyCPUOutOfRange",
            )
        if mine - unassigned:
            raise InvalidSpecs(
                f"vCPU {min(mine - unassigned)} is in two NUMA cells of hw:numa_cpus.",
                "ImageNUMATopologyCPUDuplicates",
            )
        unassigned -= mine
        if not re.fullmatch(r"[1-9][0-9]*", memory_text.strip()):
            raise InvalidSpecs(
                f"hw:numa_mem.{number} is {memory_text!r}. It must be a number of MiB from 1 on.",
                "ValueError",
            )
        total += int(memory_text)
        cells.append(_cell(mine, dedicated, int(memory_text)))
    if unassigned:
        raise InvalidSpecs(
            f"vCPU {min(unassigned)} is in no NUMA cell of hw:numa_cpus.",
            "ImageNUMATopologyCPUsUnassigned",
        )
    if total != memory_mb:
        raise InvalidSpecs(
            f"hw:numa_mem has {total} MiB over all cells, but the flavor has {memory_mb} MiB.",
            "ImageNUMATopologyMemoryOutOfRange",
        )
    return tuple(cells)


def _refusal(code: str) -> Callable[[str], InvalidSpecs]:
    return lambda message: InvalidSpecs(message, code)


def _cell(cpus: range | set[int], dedicated: set[int], memory_mb: int) -> GuestCell:
    mine = sorted(cpus)
    return GuestCell(
        tuple(each for each in mine if each not in dedicated),
        tuple(each for each in mine if each in dedicated),
        memory_mb,
    )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domains get the CPUs and cells of another host, and the guest sees no difference. A domain that
was bound by hand is refused."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.drover.compute.plugins.module_utils._domain.numa import parse_numa
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._migration.rebinding import (
    reasons,
    rebound,
)

NOVA = json.loads((pathlib.Path(__file__).parents[1] / "data" / "nova_numa.json").read_text())


def domain(inner, cpu="", vcpu="<vcpu>2</vcpu>"):
    return (
        f"<domain><name>n</name>{vcpu}<memory unit='MiB'>64</memory><cpu"
        f" mode='host-model'>{cpu}</cpu>{inner}</domain>"
    )


CELL = "<numa><cell id='0' cpus='0-1' memory='64' unit='MiB'/></numa>"
TUNE = (
    "<cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='9'/><emulatorpin"
    " cpuset='1,9'/></cputune>"
)
PLACE = (
    "<numatune><memory mode='strict' nodeset='0'/><memnode cellid='0' mode='strict'"
    " nodeset='0'/></numatune>"
)
PAGES = (
    "<memoryBacking><hugepages><page size='2048' unit='KiB'"
    " nodeset='0'/></hugepages></memoryBacking>"
)
PINNED = domain(TUNE + PLACE, CELL)

#: The claim at the destination: CPUs 13 and 5 of cell 1.
THERE = {
    "cpuset": None,
    "vcpu_pins": {"0": [13], "1": [5]},
    "emulator_pins": [5, 13],
    "iothread_pins": {},
    "memory": {"mode": "strict", "nodes": [1]},
    "cells": [{"id": 0, "cpus": [0, 1], "memory_mb": 64, "mode": "strict", "nodes": [1]}],
    "pages": [],
    "locked": False,
}
HUGE = {**THERE, "pages": [{"size_kb": 2048, "cells": [0]}]}


def numa(text):
    return parse_numa(parse(text))


@pytest.mark.parametrize("parts", NOVA, ids=range(len(NOVA)))
def test_what_nova_built_moves_to_other_cpus_and_cells(parts):
    text = "".join(parts).replace("<numa>", "<cpu><numa>").replace("</numa>", "</numa></cpu>")
    text = f"<domain><iothreads>1</iothreads>{text}</domain>"
    source_numa = numa(text)

    def other(numbers):
        return [number + 100 for number in numbers]

    destination_numa = {
        **source_numa,
        "vcpu_pins": {vcpu: other(cpus) for vcpu, cpus in source_numa["vcpu_pins"].items()},
        "emulator_pins": other(source_numa["emulator_pins"]),
        "iothread_pins": {},
        "memory": {"mode": "strict", "nodes": other(source_numa["memory"]["nodes"])},
        "cells": [{**cell, "nodes": other(cell["nodes"])} for cell in source_numa["cells"]],
    }
    assert reasons(text, destination_numa) == []
    new_text = rebound(text, destination_numa)
    assert numa(new_text) == {
        **destination_numa,
        "iothread_pins": {"1": destination_numa["emulator_pins"]},
    }
    # And back again.
    assert numa(rebound(new_text, {**source_numa, "iothread_pins": {}})) == source_numa


def test_a_domain_says_no_more_of_its_host_than_before():
    """Pinned by hand, without cells: libvirt refuses to show cells to a running guest that saw
    none."""
    text = domain(TUNE)
    assert reasons(text, THERE) == []
    found = numa(rebound(text, THERE))
    assert (found["vcpu_pins"], found["emulator_pins"]) == ({"0": [13], "1": [5]}, [5, 13])
    assert (found["cells"], found["memory"], found["pages"]) == ([], None, [])


def test_one_that_floats_gets_the_shared_cpus_of_the_other_host_or_all_of_them():
    text = domain("", vcpu="<vcpu cpuset='0-3'>2</vcpu>")
    assert reasons(text, {"cpuset": [8, 9]}) == reasons(text, {}) == []
    assert numa(rebound(text, {"cpuset": [8, 9]}))["cpuset"] == [8, 9]
    assert numa(rebound(text, {})) is None
    plain = domain("")
    assert rebound(plain, {}) is plain
    # The cells of the guest are not cells of the host.
    assert reasons(domain("", CELL), {}) == []


@pytest.mark.parametrize(
    ("text", "facts", "words"),
    [
        (
            PINNED.replace("memory mode='strict'", "memory mode='preferred'"),
            THERE,
            "by the mode preferred, not strict",
        ),
        (
            PINNED.replace(
                "memnode cellid='0' mode='strict' nodeset='0'",
                "memnode cellid='0' mode='strict' nodeset='0-1'",
            ),
            THERE,
            "NUMA cell 0 does not come strictly from one cell",
        ),
        (
            PINNED.replace("<emulatorpin", "<iothreadpin iothread='1' cpuset='3'/><emulatorpin"),
            THERE,
            "I/O threads",
        ),
        (
            domain(
                TUNE.replace("<vcpupin vcpu='1' cpuset='9'/>", "") + PLACE,
                CELL,
                "<vcpu cpuset='4-5'>2</vcpu>",
            ),
            THERE,
            "vCPU 1 floats over",
        ),
        (domain(""), THERE, "its domain has none"),
        (PINNED.replace("cpus='0-1'", "cpus='0'"), THERE, "not those that were claimed"),
        (domain(TUNE + PLACE + PAGES, CELL), THERE, "no huge pages were claimed"),
        (PINNED, HUGE, "huge pages were claimed"),
        (
            PINNED,
            {},
            "its vCPUs (vcpupin) and its emulator (emulatorpin) and its memory (numatune)",
        ),
        (
            domain("<cputune><emulatorpin cpuset='1'/></cputune>"),
            {"cpuset": [0]},
            "its emulator (emulatorpin)",
        ),
        (domain("<memoryBacking><hugepages/></memoryBacking>"), {}, "of which NUMA cell"),
        (domain("<numatune><memory placement='auto'/></numatune>"), {}, "its memory (numatune)"),
    ],
)
def test_what_no_claim_can_have_is_refused(text, facts, words):
    (reason,) = reasons(text, facts)
    assert words in reason
    assert "virsh edit" in reason or "drover.compute.discover" in reason


@pytest.mark.parametrize(
    ("text", "facts"),
    [(PINNED, THERE), (domain(TUNE + PLACE + PAGES, CELL), HUGE), (domain(PAGES + TUNE), HUGE)],
)
def test_what_a_claim_has_is_not_refused(text, facts):
    assert reasons(text, facts) == []

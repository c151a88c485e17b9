# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domain XML gets other pins, cells and pages in the form of Nova, and the rest of it does not
change."""

from __future__ import annotations

import json
import pathlib
import xml.etree.ElementTree as ET

import libvirt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.module_utils._domain.numa import binding, parse_numa
from ansible_collections.drover.compute.plugins.module_utils._domain.numa_xml import with_numa
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import (
    format_cpu_set,
    parse,
    parse_cpu_set,
)

#: The binding of a domain without pins, NUMA cells and huge pages.
NONE = binding(parse("<domain/>"))

#: The elements that LibvirtDriver of Nova 34 wrote for instances that it placed: cputune, numatune,
#: numa, and memoryBacking with huge pages.
NOVA = json.loads((pathlib.Path(__file__).parents[1] / "data" / "nova_numa.json").read_text())

REST = """<description>d</description><iothreads>1</iothreads><os><type arch='x86_64' machine='pc'>hvm</type></os>
  <cpu mode='host-model'><topology sockets='2' cores='2' threads='1'/></cpu>"""
METADATA = (
    "<metadata><mine:a xmlns:mine='https://example.org/1'><mine:b>1</mine:b></mine:a></metadata>"
)
PLAIN = f"""<domain type='qemu'><name>n</name><memory unit='MiB'>64</memory><vcpu>4</vcpu>{METADATA}{REST}</domain>"""

#: An XML of an operator: each element that is replaced has a neighbour that is not.
TIED = f"""<domain type='qemu'><name>n</name>{METADATA}<memory unit='KiB'>2097153</memory><vcpu placement='static' cpuset='0-3' current='2'>4</vcpu>
  <iothreads>2</iothreads><iothreadids><iothread id='4'/></iothreadids>
  <cputune><shares>512</shares><vcpupin vcpu='0' cpuset='1'/><emulatorpin cpuset='2'/><iothreadpin iothread='1' cpuset='3'/>
    <vcpusched vcpus='0' scheduler='fifo' priority='1'/></cputune>
  <numatune><memory mode='preferred' nodeset='0'/><memnode cellid='0' mode='preferred' nodeset='0'/></numatune>
  <memoryBacking><hugepages><page size='1' unit='G' nodeset='0'/></hugepages><nosharepages/><locked/></memoryBacking>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <cpu mode='host-model'><topology sockets='2' cores='2' threads='1'/><numa><cell id='0' cpus='0-1' memory='1' unit='GiB' memAccess='private'/>
    <cell id='1' cpus='2-3' memory='1048577' discard='yes'><distances><sibling id='0' value='20'/></distances></cell></numa>
    <feature policy='disable' name='vmx'/></cpu>
</domain>"""


def canonical(text):
    """Return the XML in one order and form, without the values that a machine does not read."""
    root = parse(text)
    for element in root.iter():
        element[:] = sorted(
            element, key=lambda child: ET.canonicalize(ET.tostring(child), strip_text=True)
        )
        if element.tag == "cell":
            element.attrib.pop("unit", None)
    return ET.canonicalize(ET.tostring(root), strip_text=True)


def as_facts(facts, text):
    """Return the facts that a domain of that text must have afterwards."""
    root = parse(text)
    emulator = facts.get("emulator_pins")
    threads = sorted(
        {"1", *(each.get("id") for each in root.findall("iothreadids/iothread"))}
        if root.find("iothreads") is not None
        else ()
    )
    locked = root.find("memoryBacking/locked") is not None
    numa_facts = {
        **NONE,
        **facts,
        "iothread_pins": {each: emulator for each in threads if emulator},
        "locked": locked,
    }
    return (
        numa_facts if locked or any(numa_facts[key] != none for key, none in NONE.items()) else None
    )


@pytest.mark.parametrize("parts", NOVA, ids=range(len(NOVA)))
def test_the_elements_are_nova_s(parts):
    assert len(NOVA) > 20 and sum("hugepages" in "".join(each) for each in NOVA) >= 3
    outside = "".join(part for part in parts if not part.startswith("<numa>"))
    inside = "".join(part for part in parts if part.startswith("<numa>"))
    nova = PLAIN.replace("</domain>", f"{outside}</domain>").replace("</cpu>", f"{inside}</cpu>")
    facts = parse_numa(parse(nova))
    assert facts["cells"] and facts["vcpu_pins"] and facts["memory"]["mode"] == "strict"
    assert canonical(with_numa(PLAIN, facts)) == canonical(nova)
    # The pins of another host are removed, of any kind.
    assert canonical(with_numa(with_numa(PLAIN, parse_numa(parse(TIED))), facts)) == canonical(nova)


def test_all_else_of_the_domain_stays():
    root = parse(with_numa(TIED, {}))
    assert parse_numa(root) == as_facts({}, TIED)
    assert [each.tag for each in root.find("cputune")] == ["shares", "vcpusched"]
    assert [each.tag for each in root.find("memoryBacking")] == ["nosharepages", "locked"]
    assert [each.tag for each in root.find("cpu")] == ["topology", "feature"]
    assert root.find("numatune") is None
    assert (root.find("vcpu").text, root.find("vcpu").attrib) == (
        "4",
        {"placement": "static", "current": "2"},
    )
    assert "<mine:b>1</mine:b>" in with_numa(TIED, {})


def test_a_domain_without_any_of_it_stays_as_it_was_written():
    assert with_numa(PLAIN, {}) is PLAIN
    tied = parse_numa(parse(TIED))
    once = with_numa(TIED, tied)
    assert with_numa(once, tied) is once


def test_other_cpus_do_not_touch_what_the_guest_sees():
    """The memory of the second cell is not a whole number of MiB, and no fact has its distances and
    memAccess: a running guest keeps them."""
    facts = parse_numa(parse(TIED))
    cells = [{**cell, "nodes": [1], "mode": "strict"} for cell in facts["cells"]]
    moved = {
        **facts,
        "cells": cells,
        "memory": {"mode": "strict", "nodes": [1]},
        "vcpu_pins": {"0": [9]},
        "emulator_pins": [8],
    }
    found = with_numa(TIED, moved)
    assert parse_numa(parse(found)) == as_facts(moved, TIED)
    assert canonical(ET.tostring(parse(found).find("cpu"), "unicode")) == canonical(
        ET.tostring(parse(TIED).find("cpu"), "unicode")
    )


def test_the_guest_shares_its_memory_when_it_gets_huge_pages_only():
    cell = {"id": 0, "cpus": [0, 1, 2, 3], "memory_mb": 64, "mode": "strict", "nodes": [0]}
    plain = with_numa(PLAIN, {"cells": [cell]})
    huge = with_numa(plain, {"cells": [cell], "pages": [{"size_kb": 2048, "cells": [0]}]})
    shares = [
        parse(text).find("cpu/numa/cell").get("memAccess")
        for text in (plain, huge, with_numa(huge, {"cells": [cell]}))
    ]
    assert shares == [None, "shared", None]


def test_numad_is_not_asked_where_cpus_are_given():
    text = PLAIN.replace("<vcpu>", "<vcpu placement='auto'>").replace(
        "<iothreads", "<numatune><memory placement='auto'/></numatune><iothreads"
    )
    found = parse(with_numa(text, {"cpuset": [0, 1]}))
    assert found.find("vcpu").attrib == {"cpuset": "0-1"} and found.find("numatune") is None


cpus = st.lists(st.integers(0, 200), min_size=1, max_size=6, unique=True).map(sorted)
modes = st.sampled_from(["strict", "preferred", "interleave", "restrictive"])


@st.composite
def numa(draw):
    """Return the fact ``numa`` of any domain, in Nova's form or not."""
    count = draw(st.integers(0, 3))
    cells = []
    for number in range(count):
        nodes = draw(st.lists(st.integers(0, 7), max_size=2, unique=True).map(sorted))
        mine = [] if count > 1 and number == 1 else [2 * number, 2 * number + 1]
        memory = draw(st.integers(1, 1 << 20))
        cells.append(
            {
                "id": number,
                "cpus": mine,
                "memory_mb": memory,
                "mode": draw(modes) if nodes else None,
                "nodes": nodes,
            }
        )
    sizes = st.sampled_from([2048, 1048576])
    one = st.lists(st.integers(0, 2), max_size=2, unique=True).map(sorted)
    pages = draw(
        st.one_of(
            st.just([{"size_kb": None, "cells": []}]),
            st.lists(st.fixed_dictionaries({"size_kb": sizes, "cells": one}), max_size=2),
        )
    )
    pins = draw(st.dictionaries(st.integers(0, 12), cpus, max_size=5))
    return {
        "cpuset": draw(st.none() | cpus),
        "vcpu_pins": {str(vcpu): pins[vcpu] for vcpu in sorted(pins)},
        "emulator_pins": draw(st.none() | cpus),
        "memory": draw(
            st.none() | st.fixed_dictionaries({"mode": modes, "nodes": st.just([]) | cpus})
        ),
        "cells": cells,
        "pages": pages,
    }


@given(numa(), st.sampled_from([PLAIN, TIED, "<domain><name>n</name></domain>"]))
def test_the_domain_says_what_the_facts_say(facts, text):
    once = with_numa(text, facts)
    assert parse_numa(parse(once)) == as_facts(facts, text)
    assert with_numa(once, facts) is once


@given(st.lists(st.integers(0, 300), unique=True).map(sorted))
def test_sets_of_cpus_come_back(numbers):
    assert parse_cpu_set(format_cpu_set(numbers)) == numbers


@pytest.fixture(name="conn", scope="module")
def _conn():
    conn = libvirt.open("test:///default")
    yield conn
    conn.close()


@pytest.mark.parametrize("parts", NOVA, ids=range(len(NOVA)))
def test_libvirt_takes_it(parts, conn):
    """Check the XML by its schema, and by the reading of libvirt's test driver."""
    facts = parse_numa(
        parse(
            f"<domain>{''.join(parts).replace('<numa>', '<cpu><numa>').replace('</numa>', '</numa></cpu>')}</domain>"
        )
    )
    most = 1 + max(max(cell["cpus"]) for cell in facts["cells"])
    text = PLAIN.replace("<vcpu>4<", f"<vcpu>{most}<").replace(
        "<topology sockets='2' cores='2' threads='1'/>", ""
    )
    text = with_numa(text.replace("'qemu'", "'test'"), facts)
    domain = conn.defineXMLFlags(text, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    try:
        defined = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        assert parse_numa(parse(defined)) == as_facts(facts, PLAIN)
        assert with_numa(defined, facts) is defined
    finally:
        domain.undefine()

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test domains of libvirt: the module reads each, names its ties to the host, and the planner has
the reason.

tests/setup/libvirt_domains.sh downloads them. The repository contains none of them.
``LIBVIRT_DOMAINS`` may name another folder of domains.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import uuid
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.action import compute_node
from ansible_collections.drover.compute.plugins.module_utils._bindings import reading, table
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._migrations.limits import (
    MigrationLimits,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import instances
from ansible_collections.drover.compute.tests import parts
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: Paths of ElementTree to elements with an attribute that belong to the host. Such a domain never
#: moves and is lost with its host, or moves only while it is off.
BOUND = {
    "shared memory": ".//devices/shmem",
    "NVMe disk": ".//devices/disk[@type='nvme']",
    "vhost-user disk": ".//devices/disk[@type='vhostuser']",
    "vhost-user interface": ".//devices/interface[@type='vhostuser']",
    "vDPA interface": ".//devices/interface[@type='vdpa']",
    "host device": ".//devices/hostdev",
    "direct interface": ".//devices/interface[@type='direct']",
    "file system": ".//devices/filesystem",
    "TPM of the host": ".//devices/tpm/backend[@type='passthrough']",
    "random numbers of a socket": ".//devices/rng/backend[@model='egd']",
    "evdev": ".//devices/input[@type='evdev']",
    "input device of the host": ".//devices/input[@type='passthrough']",
    "NVDIMM": ".//devices/memory[@model='nvdimm']",
    "persistent memory": ".//devices/memory[@model='virtio-pmem']",
    "SGX": ".//devices/memory[@model='sgx-epc']",
    "memory encryption": ".//launchSecurity",
    "smartcard of the host": ".//devices/smartcard[@mode='host']",
    "certificates of the host": ".//devices/smartcard[@mode='host-certificates']",
    "USB by TCP": ".//devices/redirdev[@type='tcp']",
    **{
        f"{device} of a {kind}": f".//devices/{device}[@type='{kind}']"
        for device in ("serial", "parallel", "console", "channel")
        for kind in ("dev", "file", "pipe")
    },
}
#: A guest waits for connections on these sockets; the destination resolves their addresses.
BINDS = ".//devices/*/source[@mode='bind']"
OF_LIBVIRT = ("/var/lib/libvirt/", "/run/libvirt/", "/var/run/libvirt/")


@pytest.fixture(scope="module")
def domains():
    """{name: XML}."""
    folder = pathlib.Path(os.environ.get("LIBVIRT_DOMAINS") or ROOT / ".cache" / "libvirt-domains")
    if not any(folder.glob("*.xml")):
        script = ROOT / "tests" / "setup" / "libvirt_domains.sh"
        done = subprocess.run(
            [str(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode or not any(folder.glob("*.xml")):
            reason = (done.stdout.strip().splitlines() or ["no domains in it"])[-1]
            parts.leave_out(
                "The domains of libvirt's own tests",
                f"tests/setup/libvirt_domains.sh cannot fetch the source of libvirt ({reason})",
            )
    by_name = {}
    for path in sorted(folder.glob("*.xml")):
        try:
            root = ET.parse(path).getroot()
        except ET.ParseError:
            # The files also contain XML that libvirt must refuse.
            continue
        if root.tag == "domain" and root.find("name") is not None:
            by_name[path.stem[:60]] = ET.tostring(root, encoding="unicode")
    assert len(by_name) > 900
    return by_name


def is_bound(bindings):
    return any(
        each.move in (table.NEVER, table.OFF, table.LIVE) or each.evacuation == table.LOST
        for each in bindings
    )


def test_f2_each_domain_is_read_and_what_is_of_the_host_binds_it(domains):
    free, seen = [], set()
    for name, text in domains.items():
        bindings, root = reading.read(text), ET.fromstring(text)
        for kind, path in BOUND.items():
            if root.find(path) is not None:
                seen.add(kind)
                free += [] if is_bound(bindings) else [f"{name}: {kind}"]
        for source in root.findall(BINDS):
            named = source.get("path")
            if named and not named.startswith(OF_LIBVIRT):
                is_known = any(
                    each.kind == reading.UNIX and named in each.value for each in bindings
                ) or is_bound(bindings)
                free += [] if is_known else [f"{name}: socket {named}"]
            elif source.get("service") and source.get("service") != "0":
                free += (
                    []
                    if any(each.kind == reading.PORT for each in bindings)
                    else [f"{name}: port {source.get('service')}"]
                )
    assert not free
    # A path that is in no domain would prove nothing.
    assert len(seen) >= 20, set(BOUND) - seen


@pytest.fixture(scope="module")
def host(domains, tmp_path_factory):
    """Return (the facts of a host of the test driver that has these domains, {name: XML as that
    host shows it})."""
    folder = tmp_path_factory.mktemp("libvirt-domains")
    libvirt.registerErrorHandler(lambda *_: None, None)
    connection, shown = libvirt.open("test:///default"), {}
    for name, text in domains.items():
        root = ET.fromstring(text)
        root.set("type", "test")
        root.find("name").text = name
        number = root.find("uuid") if root.find("uuid") is not None else ET.SubElement(root, "uuid")
        number.text = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        for emulator in root.findall("devices/emulator"):
            root.find("devices").remove(emulator)
        try:
            domain = connection.defineXML(ET.tostring(root, encoding="unicode"))
        except libvirt.libvirtError:
            # This driver refuses the domain.
            continue
        shown[name] = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE)
        (folder / f"{name}.xml").write_text(shown[name], encoding="utf-8")
    connection.close()
    cpu = "<model>x86_64</model><active>512</active><nodes>1</nodes><sockets>2</sockets><cores>256</cores><threads>1</threads>"
    files = "".join(f"<domain file='{folder}/{name}.xml'/>" for name in shown)
    node = folder / "host.node"
    node.write_text(
        f"<node><cpu><mhz>2000</mhz>{cpu}</cpu><memory>8589934592</memory>{files}</node>"
    )
    return node, shown


def test_f2_a_host_that_has_them_all_is_discovered_and_the_planner_names_the_reason(
    host, run_module, tmp_path, monkeypatch
):
    node, shown = host
    assert len(shown) > 900
    facts = run_module("hypervisor_info", uri=f"test://{node}")["hypervisor"]
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store.open(url).upgrade()
    fleets.discover(url, fleets.host("lv2", vcpus=4096, memory_mb=2**24))
    # The module runs in this process, as in a discovery of that host.
    monkeypatch.setattr(
        compute_node.ActionModule,
        "_execute_module",
        lambda self, module_name, **more: {"hypervisor": facts},
    )
    run("compute_node", {"inventory_hostname": "lv1"}, store_url=url)
    with Store.open(url).read() as connection:
        names = {each["name"] for each in instances.listing(connection, "lv1")}
    # One domain has 8 EiB of memory; the module leaves it out and says so.
    assert len(set(shown) - names) <= 3 and names <= set(shown)
    with Store.open(url).read() as connection:
        question = DrainQuestion(Policy.from_mapping({}), MigrationLimits())
        plan = question.plan(connection, ["lv1"])
    stays = {each["name"]: each["reason"] for each in plan["unmovable"]}
    free = [
        f"{name}: {kind}"
        for name in sorted(names)
        for kind, path in BOUND.items()
        if ET.fromstring(shown[name]).find(path) is not None and not stays.get(name)
    ]
    assert not free

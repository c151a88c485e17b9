# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The domains of drover and of virt-install for the same wishes, compared element by element after
the same libvirt has completed both."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import xml.etree.ElementTree as ET

import labs
import pytest
from virt_install_differences import PURPOSES, VIRT_INSTALL, Difference
from virt_install_wishes import BASE, BASE_WORDS, FOLDER, ISO, WISHES

from ansible_collections.drover.compute.plugins.module_utils._domain.numa_xml import with_numa
from ansible_collections.drover.compute.tests import parts
from ansible_collections.drover.compute.tests.unit import domains
from conftest import run

pytestmark = pytest.mark.long

IDS = "/usr/share/misc/usb.ids"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """Yield the lab of this file, with one host."""
    if shutil.which("virt-install") is None:
        parts.leave_out("virt-install", "it is not installed (package virtinst)")
    version = run(["virt-install", "--version"]).stdout.strip()
    if version != VIRT_INSTALL:
        pytest.skip(f"the reasons are for virt-install {VIRT_INSTALL}, and this is {version}")
    with labs.separate(tmp_path_factory.mktemp("virt-install") / "lab", "--hosts", "1") as lab:
        # libosinfo reads it. On Debian 12 it is a link into /var, and hosts have their own /var.
        real = os.path.realpath(IDS)
        shutil.copy(real, lab.layout.shared / "ids")
        script(
            lab,
            f"touch {ISO} {BASE}-seed.iso; test -e {IDS} || install -D -m 644 /srv/shared/ids {real}",
        )
        yield lab


@pytest.fixture(scope="module")
def found(host):
    """Return a function: the name of a wish -> its differences."""

    @functools.cache
    def of_wish(name):
        wish = WISHES[name]
        return list(differences(of_drover(host, wish), of_virt_install(host, wish)))

    return of_wish


def script(lab, text):
    return lab.command("exec", "kvm1", text)


def completed(lab, xml):
    """Return the domain as libvirt keeps it."""
    (lab.layout.shared / "domain.xml").write_text(xml, encoding="utf-8")
    said = script(
        lab,
        "virsh --quiet define --validate /srv/shared/domain.xml >&2"
        " && virsh dumpxml --inactive web1; virsh undefine --nvram web1 >&2",
    )
    return ET.fromstring(said)


def of_drover(lab, wish):
    claim = domains.claim_of(
        wish.definition, domain_type="qemu", **({"pools": wish.pools} if wish.pools else {})
    )
    xml = domains.rendered(claim, {"path": f"{BASE}-seed.iso"} if wish.seed else None, BASE)
    return completed(lab, xml if wish.numa is None else with_numa(xml, wish.numa))


def of_virt_install(lab, wish):
    base = [word for pair in BASE_WORDS.items() if pair[0] not in wish.words for word in pair]
    words = [
        *("virt-install", "--connect", "qemu:///system", "--virt-type", "qemu", "--import"),
        *("--print-xml", "--dry-run", "--name", "web1", "--uuid", domains.UUID),
        *base,
        *wish.words,
    ]
    return completed(lab, script(lab, shlex.join(words)))


def name_of(element):
    """Return the name of an element among its brothers."""
    values = {
        "disk": ("target", "dev"),
        "interface": ("mac", "address"),
        "channel": ("target", "name"),
        "serial": ("target", "port"),
        "input": (None, "type", "bus"),
        "timer": (None, "name"),
        "feature": (None, "name"),
        "graphics": (None, "type"),
        "vcpupin": (None, "vcpu"),
        # The model of other controllers is a setting.
        "controller": (None, "type", *(["model"] if element.get("type") == "pci" else [])),
    }.get(element.tag)
    if values is None:
        return local(element)
    holder = element if values[0] is None else element.find(values[0])
    texts = [holder.get(key, "") for key in values[1:]] if holder is not None else []
    return f"{element.tag}[{' '.join(texts).strip()}]"


def local(element):
    return element.tag.rpartition("}")[2]


def attributes(element):
    """Return the attributes with a meaning."""
    without = {
        "controller": {"index"},
        # libvirt repeats it in an element.
        "graphics": {"listen"},
    }.get(element.tag, set())
    return {key: value for key, value in element.attrib.items() if key not in without}


def children(element):
    """Return the children with a meaning, by their names."""
    found = {}
    for child in element:
        # libvirt chooses the place of a device in the guest. The address in a source is the host's.
        if child.tag == "address" and element.tag != "source":
            continue
        if (element.tag, child.tag) == ("controller", "target"):
            continue
        name = name_of(child)
        number = sum(each.partition("#")[0] == name for each in found)
        found[f"{name}#{number + 1}" if number else name] = child
    return found


def shown(element):
    """Return the XML of an element, without what has no meaning."""
    if element is None:
        return None
    start = " ".join(
        [local(element), *(f'{key}="{value}"' for key, value in attributes(element).items())]
    )
    content = (element.text or "").strip() + "".join(map(shown, children(element).values()))
    return f"<{start}>{content}</{local(element)}>" if content else f"<{start}/>"


def difference(path, *values):
    # The reason is the same for each disk, channel and console.
    plain = re.sub(r"#\d+|(?<=disk|hics|nnel)\[.*?\]", "", path)
    return Difference(plain.rstrip("/"), *values)


def differences(ours, theirs, path=""):
    """Yield the differences of two elements and of all below them."""
    of_ours, of_theirs = attributes(ours), attributes(theirs)
    for key in sorted({*of_ours, *of_theirs}):
        if of_ours.get(key) != of_theirs.get(key):
            yield difference(f"{path}@{key}", of_ours.get(key), of_theirs.get(key))
    texts = [(each.text or "").strip() for each in (ours, theirs)]
    if texts[0] != texts[1]:
        yield difference(path, *texts)
    below_ours, below_theirs = children(ours), children(theirs)
    for name in sorted({*below_ours, *below_theirs}):
        pair = below_ours.get(name), below_theirs.get(name)
        if None in pair:
            yield difference(path + name, *map(shown, pair))
        else:
            yield from differences(*pair, f"{path}{name}/")


@pytest.mark.parametrize("name", WISHES)
def test_each_difference_has_a_reason(found, name):
    without = [
        each for each in found(name) if not any(purpose.covers(each) for purpose in PURPOSES)
    ]
    assert without == []


def test_each_reason_is_needed(found):
    seen = [each for name in WISHES for each in found(name)]
    needless = [purpose for purpose in PURPOSES if not any(purpose.covers(each) for each in seen)]
    assert needless == []


def test_a_running_guest_takes_more_devices_than_one(host):
    """One port was free: the second device was refused."""
    claim = domains.claim_of(WISHES["bridge"].definition, domain_type="qemu")
    (host.layout.shared / "domain.xml").write_text(domains.rendered(claim), encoding="utf-8")
    script(
        host,
        "set -e; virsh --quiet create /srv/shared/domain.xml; for letter in b c d e; do"
        f" truncate -s 1M {FOLDER}/vd$letter.raw;"
        f" virsh --quiet attach-disk web1 {FOLDER}/vd$letter.raw vd$letter --live; done",
    )
    disks = ET.fromstring(script(host, "virsh dumpxml web1")).findall("devices/disk")
    assert len(disks) == 4
    script(host, "virsh --quiet destroy web1")

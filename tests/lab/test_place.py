# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.place: the instances of the definitions run, with their disks, on the hosts of the
store."""

from __future__ import annotations

import base64
import io
import json
import os
import re

import pycdlib
import pytest
from test_fleet import IMAGE, SHARED, changed

pytest_plugins = ["test_fleet"]

DEFINITIONS = f"""\
# The first fleet.
server_groups:
  - name: web
    policy: anti-affinity   # never on one host

instances:
  # The pair behind the balancer.
  - name: web1
    memory_mb: 64
    disks: [{{size_gb: 1, image: {IMAGE}}}]
    networks: [{{bridge: br0}}]
    server_group: web
  - server_group: web  # the order of keys is ours
    memory_mb: 64
    name: web2   # the second
    networks:
      - bridge: br0
        mac: 52:54:00:12:34:56
    vcpus: 2

  - {{name: in one line, memory_mb: 64, project: "blue"}}
  - name: 'web <1> & "ü"'
    memory_mb: 64
    availability_zone: b
    disks:
      - size_gb: 2
      - {{size_gb: 1, image: {IMAGE}}}
    autostart: true
  - name: seeded
    memory_mb: 64
    cloud_init:
      user_data: |
        #cloud-config
        hostname: seeded
      network_config: {{version: 2}}
  - name: last
    memory_mb: 64
# The end.
"""


def images(fleet, domain):
    """Return qemu-img's facts about a domain's disks, in order."""
    texts = [
        fleet.run("kvm1", f"qemu-img info -U --output=json {path}") for path in domain["disks"]
    ]
    return [
        (found["format"], found["virtual-size"] >> 30, found.get("backing-filename"))
        for found in map(json.loads, texts)
    ]


def read_iso(content):
    """Return the files of an ISO 9660 image by name, as a Linux guest sees them."""
    image, files = pycdlib.PyCdlib(), {}
    image.open_fp(io.BytesIO(content))
    for child in image.list_children(rr_path="/"):
        if child.is_file():
            text = io.BytesIO()
            image.get_file_from_iso_fp(text, rr_path=f"/{child.rock_ridge.name().decode()}")
            files[child.rock_ridge.name().decode()] = text.getvalue().decode()
    image.close()
    return files


def test_a_definitions_file(fleet):
    file = fleet.folder / "fleet.yml"
    file.write_text(DEFINITIONS, encoding="utf-8")

    # A dry run shows the actions and does nothing.
    before = fleet.dump()
    done = fleet.place(file, "--check", "--diff")
    assert re.search(r"web1-\w{8} +: ok=\d+ +changed=1", done.stdout), done.stdout
    assert file.read_text(encoding="utf-8") == DEFINITIONS
    assert fleet.where() == {} and fleet.files(SHARED) == [] and fleet.dump() == before

    assert changed(fleet.place(file)) > 0
    domains = {
        domain["name"]: {**domain, "host": host}
        for host, found in fleet.look().items()
        for domain in found
    }
    names = ["web1", "web2", "in one line", 'web <1> & "ü"', "seeded", "last"]
    assert sorted(domains) == sorted(names)
    assert {state for dummy, state in fleet.settled().values()} == {"running"}
    assert domains["web1"]["host"] != domains["web2"]["host"]
    assert domains['web <1> & "ü"']["host"] == "kvm3"  # zone b
    assert [name for name in names if domains[name]["autostart"]] == ['web <1> & "ü"']
    assert domains["web2"]["vcpus"] == 2
    assert "52:54:00:12:34:56" in fleet.run(domains["web2"]["host"], "virsh domiflist web2")

    # The disks: backed by the image, or empty.
    assert images(fleet, domains["web1"]) == [("qcow2", 1, IMAGE)]
    assert images(fleet, domains['web <1> & "ü"']) == [("qcow2", 2, None), ("qcow2", 1, IMAGE)]
    assert images(fleet, domains["last"]) == []

    # The seed is an image that cloud-init finds by its label, and can read.
    (seed,) = domains["seeded"]["cdroms"]
    assert (
        fleet.run(domains["seeded"]["host"], f"blkid -o value -s LABEL {seed}").strip().lower()
        == "cidata"
    )
    files = read_iso(base64.b64decode(fleet.run(domains["seeded"]["host"], f"base64 -w0 {seed}")))
    assert files["user-data"] == "#cloud-config\nhostname: seeded\n"
    assert f"instance-id: {domains['seeded']['uuid']}" in files["meta-data"]
    assert "version: 2" in files["network-config"]

    # Host and uuid are in the file, and the rest of it is unchanged.
    written = file.read_text(encoding="utf-8")
    for name in names:
        assert f"uuid: {domains[name]['uuid']}" in written
    taken_out = re.sub(r"(\n +(host|uuid): \S+(?=\n))|(, (host|uuid): [^,}\s]+)", "", written)
    assert taken_out == DEFINITIONS
    assert [written.count(f"host: {host}") for host in fleet.hosts] == [
        len(found) for found in fleet.look().values()
    ]

    # A second run changes nothing and starts nothing.
    done = fleet.place(file)
    assert changed(done) == 0 and "Build the instances" not in re.findall(
        r"TASK \[(.*?)\]", done.stdout
    )
    assert file.read_text(encoding="utf-8") == written
    assert {
        name: (domain["uuid"], host)
        for host, found in fleet.look().items()
        for domain in found
        for name in [domain["name"]]
    } == {name: (domains[name]["uuid"], domains[name]["host"]) for name in names}

    # One more definition in the file: only that one is built. A guest that is off stays off.
    fleet.run(domains["last"]["host"], "virsh destroy last")
    file.write_text(
        written.replace("# The end.", "  - {name: more, memory_mb: 64}"), encoding="utf-8"
    )
    done = fleet.place(file)
    assert fleet.settled()["more"][1] == "running"
    assert fleet.where()["last"] == (domains["last"]["host"], "shutoff")
    assert len(re.findall(r"^changed: \[.*-> kvm", done.stdout, re.M)) == 1


@pytest.mark.long
def test_flavors_images_and_counts(fleet):
    """The file has everything that its instances name, also for a dry run; a running guest has the
    size of its flavor, on hosts that fit."""
    file = fleet.folder / "fleet.yml"
    text = f"""\
flavors:
  - {{name: tiny, vcpus: 2, memory_mb: 64, disk_gb: 1}}
images:
  - {{name: x86, properties: {{hw_architecture: x86_64}}}}
aggregates:
  - {{name: fast, hosts: [kvm2, kvm3], metadata: {{fast: "true"}}}}
server_groups:
  - {{name: apart, policy: anti-affinity}}
instances:
  - name: web
    count: 2
    flavor: tiny
    image: x86
    extra_specs: {{"aggregate_instance_extra_specs:fast": "true"}}
    server_group: apart
    disks: [{{image: {IMAGE}}}]
  - {{name: bare, flavor: {{name: mine, vcpus: 1, memory_mb: 96}}, requested_destination: {{host: kvm1}}}}
"""
    file.write_text(text, encoding="utf-8")
    policy = {
        "enabled_filters": [
            "ComputeFilter",
            "ServerGroupAntiAffinityFilter",
            "AggregateInstanceExtraSpecsFilter",
            "ImagePropertiesFilter",
        ]
    }
    before = fleet.dump()
    done = fleet.place(file, "--check", "--diff", drover_scheduler=policy)
    assert "flavor tiny" in done.stdout and fleet.dump() == before
    fleet.place(file, drover_scheduler=policy)
    where = fleet.settled()
    assert {name: host for name, (host, dummy) in where.items() if name != "bare"} in (
        {"web-1": "kvm2", "web-2": "kvm3"},
        {"web-1": "kvm3", "web-2": "kvm2"},
    )
    assert where["bare"][0] == "kvm1" and {state for dummy, state in where.values()} == {"running"}
    domains = {domain["name"]: domain for found in fleet.look().values() for domain in found}
    assert [
        (domains[name]["vcpus"], domains[name]["memory_mb"]) for name in ("web-1", "web-2", "bare")
    ] == [(2, 64), (2, 64), (1, 96)]
    found = fleet.query("SELECT name, flavor, image_name FROM instances ORDER BY name")
    assert found == [("bare", "mine", None), ("web-1", "tiny", "x86"), ("web-2", "tiny", "x86")]
    assert "<drover:flavor>tiny</drover:flavor>" in fleet.run(
        where["web-1"][0], "virsh dumpxml web-1"
    )
    # The file has the host of bare; the store knows web-1 and web-2.
    written = file.read_text(encoding="utf-8")
    assert written.count("uuid: ") == 1 and domains["bare"]["uuid"] in written
    assert changed(fleet.place(file, drover_scheduler=policy)) == 0
    file.write_text(written.replace("count: 2", "count: 1"), encoding="utf-8")
    assert changed(fleet.place(file, drover_scheduler=policy)) == 0 and set(fleet.where()) == set(
        where
    )


def test_a_dry_run_says_what_the_host_would_refuse(fleet):
    """The run also reports no object as made or removed."""
    before = fleet.dump()
    definitions = [
        {
            "name": "one",
            "memory_mb": 64,
            "disks": [{"size_gb": 1, "image": "/var/lib/libvirt/images/nosuch.qcow2"}],
        }
    ]
    refusal = fleet.refused(
        "place", "--check", "-e", json.dumps({"drover_instance_definitions": definitions})
    )
    assert (
        "nosuch.qcow2" in refusal
        and "was removed" not in refusal
        and "no alternate is left" not in refusal
    ), refusal
    assert fleet.where() == {} and fleet.files(SHARED) == [] and fleet.dump() == before


@pytest.mark.long
def test_variables_and_a_template_of_ones_own(fleet):
    template = fleet.folder / "mine.xml.j2"
    template.write_text(
        "<domain type='{{ place_claim.domain_type }}'><name>{{ place_claim.name | e"
        " }}</name><uuid>{{ place_claim.uuid }}</uuid><title>made for {{ place_claim.project | e"
        " }}</title><memory unit='MiB'>{{ place_claim.memory_mb }}</memory><vcpu>{{"
        " place_claim.vcpus }}</vcpu><os><type arch='{{ place_claim.arch"
        " }}'>hvm</type></os><devices>{% for disk in place_disks %}<disk type='file'"
        " device='disk'><driver name='qemu' type='qcow2'/><source file='{{ disk.path }}'/><target"
        " dev='{{ disk.target }}' bus='virtio'/></disk>{% endfor %}</devices></domain>",
        encoding="utf-8",
    )
    definitions = [
        {
            "name": "one",
            "memory_mb": 64,
            "project": "R&D",
            "disks": [{"size_gb": 1}],
            "server_group": "pair",
        },
        {"name": "two", "memory_mb": 96, "project": "R&D", "server_group": "pair"},
    ]
    groups = [{"name": "pair", "policy": "affinity"}]
    # The path starts at the folder of the command.
    variables = {
        "drover_domain_template": os.path.relpath(template),
        "drover_server_groups": groups,
    }
    fleet.place(definitions, **variables)
    where = fleet.settled()
    assert where["one"] == where["two"]
    domains = fleet.look()[where["one"][0]]
    assert sorted((domain["name"], domain["title"], domain["memory_mb"]) for domain in domains) == [
        ("one", "made for R&D", 64),
        ("two", "made for R&D", 96),
    ]
    assert fleet.query("SELECT name, project FROM instances ORDER BY name") == [
        ("one", "R&D"),
        ("two", "R&D"),
    ]
    assert changed(fleet.place(definitions, **variables)) == 0
    # The role does the same in a user's playbook, one after the other.
    more = [*definitions, {"name": "three", "memory_mb": 64, "project": "R&D"}]
    done = fleet.playbook(
        "place_with_role.yml", "-e", json.dumps({"drover_instance_definitions": more, **variables})
    )
    assert changed(done) > 0
    assert set(fleet.settled()) == {"one", "two", "three"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("instances", "words"),
    [
        ([{"name": "a", "memory_mb": 64}, {"name": "a", "memory_mb": 64}], ["name a stands twice"]),
        ([{"name": "a", "memory_mb": -64}], ["memory_mb", "-64"]),
        ([{"name": "a", "memory_mb": 64, "disks": [{"size_gb": -1}]}], ["size_gb", "-1"]),
        ([{"name": "a", "memory_mb": 64, "ram": 64}], ["unknown key ram"]),
        ([{"name": "a\nb", "memory_mb": 64}], ["control characters"]),
        (
            [{"name": "small", "memory_mb": 64}, {"name": "huge", "memory_mb": 99999999}],
            ["No valid host for huge", "RamFilter rejected 3", "99999999"],
        ),
    ],
)
def test_bad_definitions_change_nothing(fleet, instances, words):
    before = fleet.dump()
    said = fleet.refused("place", "-e", json.dumps({"drover_instance_definitions": instances}))
    for word in words:
        assert word in said, said
    assert fleet.where() == {} and fleet.files(SHARED) == [] and fleet.dump() == before


def test_bad_files_are_told_with_the_line(fleet):
    file = fleet.folder / "fleet.yml"
    file.write_text("instances:\n  - name: a\n    memory_mb: 64\n  - name: b\n", encoding="utf-8")
    said = fleet.refused("place", "-e", f"drover_definitions={file}")
    assert "fleet.yml line 4" in said and "memory_mb" in said
    file.write_text("instances: [\n", encoding="utf-8")
    assert re.search(
        r"fleet\.yml, line 2, column \d+",
        fleet.refused("place", "-e", f"drover_definitions={file}"),
    )

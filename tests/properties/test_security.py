# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The promises of docs/security.md, apart from the database's roles."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.drover.compute.tests.unit import examples

NASTY = "<a>&\"'</name><devices/>"
LINES = "one\ntwo]]>\t<three/>"
TEMPLATE = examples.ROOT / "roles" / "place" / "templates" / "domain.xml.j2"
PASSWORD = "t0p s3cr3t/%"
QUOTED = "t0p%20s3cr3t%2F%25"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "store.db"
    examples.fill(f"sqlite:///{path}")
    return path


@pytest.fixture
def fleet(filled, tmp_path):
    shutil.copyfile(filled, tmp_path / "store.db")
    examples.inventory(tmp_path)
    return f"sqlite:///{tmp_path / 'store.db'}"


def play(folder, tasks, *words, url=None, **keywords):
    examples.write_play(
        folder,
        [{"name": "Try", "hosts": "localhost", "gather_facts": False, "tasks": tasks, **keywords}],
    )
    return examples.command(
        folder, "ansible-playbook", "-i", "inventory.yml", *words, "example.yml", url=url
    )


def test_the_template_escapes_all_that_definitions_bring(fleet, tmp_path):
    claim = {
        "name": NASTY,
        "uuid": "5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01",
        "domain_type": "kvm",
        "arch": "x86_64",
        "project": LINES,
        "user": NASTY,
        "availability_zone": NASTY,
        "server_group": LINES,
        "metadata": {"migration": '{"post_copy": "<&>\'"}'},
        "memory_mb": 64,
        "vcpus": 1,
        "networks": [{"bridge": NASTY, "mac": NASTY, "model": NASTY}, {"network": LINES}],
    }
    variables = {
        "place_claim": claim,
        "place_disks": [{"format": NASTY, "path": f"/srv/{NASTY}", "target": NASTY}],
        "place_seed": {"path": f"/srv/{NASTY}-seed"},
        "place_folder": f"/srv/{NASTY}",
    }
    # The values are data of a run: a file of variables.
    (tmp_path / "variables.json").write_text(json.dumps(variables))
    copy = {
        "ansible.builtin.template": {
            "src": str(TEMPLATE),
            "dest": str(tmp_path / "domain.xml"),
            "mode": "0600",
        }
    }
    done = play(tmp_path, [copy], "-e", "@variables.json", url=fleet)
    assert done.returncode == 0, done.stdout
    root = ET.parse(tmp_path / "domain.xml").getroot()
    assert root.findtext("name") == NASTY
    assert len(root.findall("devices")) == 1 and len(root.findall("name")) == 1
    space = "{https://drover.compute/instance/1}"
    metadata = root.find(f"metadata/{space}instance")
    assert {element.tag[len(space) :]: element.text for element in metadata} == {
        "project": LINES,
        "user": NASTY,
        "availability_zone": NASTY,
        "server_group": LINES,
        "migration": claim["metadata"]["migration"],
    }
    assert root.find("devices/disk/source").get("file") == f"/srv/{NASTY}"
    assert root.find("devices/interface/source").get("bridge") == NASTY
    # Every placeholder of the template escapes.
    holes = examples.re.findall(r"\{\{(.*?)\}\}", TEMPLATE.read_text())
    for hole in holes:
        assert hole.strip().endswith("| e"), hole


def test_what_comes_from_the_store_is_never_a_template(fleet, tmp_path):
    """A person who can write to the store, or name a domain, cannot run a template on the
    controller."""
    marker = tmp_path / "evaluated"
    evil = f"{{{{ lookup('ansible.builtin.pipe', 'touch {marker}') }}}}"
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("UPDATE instances SET name = ?", (evil,))
        connection.execute("UPDATE domains SET name = ?", (evil,))
        connection.execute("UPDATE services SET disabled_reason = ?, last_error = ?", (evil, evil))
    tasks = [
        {"drover.compute.host_info": {}, "register": "hosts"},
        {"drover.compute.instance_info": {}, "register": "instances"},
        {
            "ansible.builtin.debug": {
                "msg": "{{ hosts.table }} {{ instances.table }} {{ instances.instances[0].name }}"
            }
        },
        {"drover.compute.plan_drain_info": {"host": "kvm1"}, "register": "drain"},
        {"ansible.builtin.debug": {"msg": "{{ drain.plan.lines }}"}},
        {"ansible.builtin.set_fact": {"name": "{{ instances.instances[0].name }}"}},
        {"ansible.builtin.debug": {"msg": "{{ name }}"}},
    ]
    done = play(tmp_path, tasks, url=fleet)
    assert done.returncode == 0, done.stdout
    (tmp_path / "fleet.drover.yml").write_text("plugin: drover.compute.fleet\ninstances: true\n")
    done = examples.command(
        tmp_path, "ansible-inventory", "-i", "fleet.drover.yml", "--list", url=fleet
    )
    assert done.returncode == 0, done.stdout
    assert not marker.exists()


CLASS = """
import pathlib
pathlib.Path({marker!r}).touch()
class EvilFilter:
    def host_passes(self, host, spec):
        return True
"""


def test_classes_are_loaded_from_beside_the_playbook_only(fleet, tmp_path):
    """No file is loaded from the current folder, the home, the store's folder, the inventory's,
    /tmp or PYTHONPATH."""
    markers = []
    for name in ("current", "home", "inventory", "path"):
        folder = tmp_path / name / "host_filters"
        folder.mkdir(parents=True)
        markers.append(tmp_path / f"loaded-from-{name}")
        (folder / "evil_filter.py").write_text(CLASS.format(marker=str(markers[-1])))
    (tmp_path / "plays").mkdir()
    shutil.move(examples.inventory(tmp_path / "inventory"), tmp_path / "inventory" / "hosts.yml")
    request = {"name": "x", "vcpus": 1, "memory_mb": 64}
    ask = {
        "ansible.builtin.debug": {"msg": f"{{{{ lookup('drover.compute.schedule', {request}) }}}}"}
    }
    variables = {"drover_scheduler": {"enabled_filters": ["ComputeFilter", "EvilFilter"]}}
    examples.write_play(
        tmp_path / "plays",
        [
            {
                "name": "Try",
                "hosts": "localhost",
                "gather_facts": False,
                "vars": variables,
                "tasks": [ask],
            }
        ],
    )
    words = ("ansible-playbook", "-i", "../inventory/hosts.yml", "../plays/example.yml")
    settings = {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path / "path")}
    done = examples.command(tmp_path / "current", *words, url=fleet, environment=settings)
    assert done.returncode != 0 and "EvilFilter" in done.stdout, done.stdout
    assert not any(marker.exists() for marker in markers)
    # A file beside the playbook is loaded.
    shutil.copytree(tmp_path / "current" / "host_filters", tmp_path / "plays" / "host_filters")
    done = examples.command(tmp_path / "current", *words, url=fleet, environment=settings)
    assert done.returncode == 0, done.stdout
    assert markers[0].exists()


def test_a_password_of_power_is_never_shown(fleet, tmp_path):
    """The role power runs with a controller that does not answer, at -vvv --diff; the store has no
    secret of it."""
    hosts = tmp_path / "host_vars"
    hosts.mkdir()
    for driver in ("redfish", "ipmi"):
        settings = {
            "drover_power_driver": driver,
            "drover_power_address": "127.0.0.1:9",
            "drover_power_user": "drover",
            "drover_power_password": PASSWORD,
            "drover_power_timeout": 1,
        }
        (hosts / "kvm1.yml").write_text(json.dumps(settings))
        done = examples.command(
            tmp_path,
            "ansible-playbook",
            "-i",
            "inventory.yml",
            "drover.compute.power",
            "-e",
            "drover_host=kvm1",
            "-vvv",
            "--diff",
            url=fleet,
        )
        assert done.returncode != 0 and "cannot be reached" not in done.stdout, done.stdout
        assert "127.0.0.1:9" in done.stdout, "it was not asked"
        assert PASSWORD not in done.stdout and QUOTED not in done.stdout
    for part in (tmp_path).glob("store.db*"):
        assert PASSWORD.encode() not in part.read_bytes()


def test_safety_23_a_plan_that_is_written_down_is_its_owners(fleet, tmp_path):
    words = (
        "ansible-playbook",
        "-i",
        "inventory.yml",
        "drover.compute.rebalance",
        "-e",
        "drover_plan_file=plan.json",
    )
    done = examples.command(tmp_path, *words, url=fleet)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "plan.json").stat().st_mode & 0o777 == 0o600


CONSOLE = "Kn0ck-3x"
NODE = (
    "<node><cpu><mhz>2000</mhz><model>x86_64</model><active>4</active><nodes>1</nodes><sockets>1</sockets><cores>4</cores><threads>1</threads>"
    "</cpu><memory>8388608</memory></node>"
)


def test_the_password_of_a_console_is_in_no_output_and_no_store(tmp_path):
    """An instance is placed on libvirt's test driver, with Ansible's highest verbosity; without the
    variable nothing is placed."""
    (tmp_path / "node.xml").write_text(NODE)
    (tmp_path / "images").mkdir()
    of_host = {
        "ansible_connection": "local",
        "drover_uris": [f"test://{tmp_path}/node.xml"],
        "drover_instances_path": str(tmp_path / "images"),
    }
    (tmp_path / "inventory.yml").write_text(
        json.dumps({"all": {"children": {"hypervisors": {"hosts": {"kvm1": of_host}}}}})
    )
    fleet_file = tmp_path / "fleet.yml"
    fleet_file.write_text(
        "instances: [{name: web1, memory_mb: 64, graphics: {type: vnc, password_variable:"
        " console}}]"
    )
    url = f"sqlite:///{tmp_path / 'store.db'}"

    def run(name, *words):
        return examples.command(
            tmp_path,
            "ansible-playbook",
            "-i",
            "inventory.yml",
            f"drover.compute.{name}",
            *words,
            url=url,
        )

    assert run("discover").returncode == 0
    place = ("place", "-e", "drover_definitions=fleet.yml", "--diff", "-vvv")
    refused = run(*place, "-e", "console=")
    assert (
        refused.returncode
        and "Not set, or empty: console. A definition names this variable" in refused.stdout
    )
    (tmp_path / "vault.yml").write_text(f"console: {CONSOLE}")
    foretold, done = (run(*place, "-e", "@vault.yml", *words) for words in (("--check",), ()))
    assert foretold.returncode == done.returncode == 0, done.stdout
    assert "graphics type='vnc'" in done.stdout
    for text in (foretold.stdout, done.stdout, fleet_file.read_text()):
        assert CONSOLE not in text
    assert CONSOLE.encode() not in (tmp_path / "store.db").read_bytes()

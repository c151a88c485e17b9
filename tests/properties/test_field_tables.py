# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new property of compute nodes, or a new resource class from libvirt, is one row of a table: no
other file of the engine has to change.

CONTRIBUTING.md has the other files that change: the code that gathers it, its revision, its
documentation.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINE = "ansible_collections.drover.compute.plugins.plugin_utils"
#: A program that adds rows before the import of the rest of the engine, and follows them from the
#: facts of a host to the scheduler.
SCRIPT = """
import json
from {engine}._records import node_fields
from {engine}._common import resource_classes

number = node_fields.NodeField("watts", node_fields.NUMBER, ("power", "watts"), given=True, read=node_fields.ON_DEMAND, volatile=True)
text = node_fields.NodeField("rack", node_fields.TEXT, ("rack",), read=node_fields.ON_DEMAND)
structure = node_fields.NodeField("leds", (dict,), given=True, read=node_fields.ON_DEMAND)
count = node_fields.NodeField("alarms", node_fields.NUMBER, given=True, read=node_fields.ALWAYS, default=0)
node_fields.NODE_FIELDS += (number, text, structure, count)
resource_classes.DISCOVERED["VGPU"] = resource_classes.DiscoveredClass("vgpus", ("gpu", "vgpus"))

from {engine}._common.errors import DroverError
from {engine}._store import Store
from {engine}._store.hosts import host_columns
from {engine}._store.schema import tables
from {engine}._scheduler import attributes
from {engine}._scheduler.host_states import HostStates
from {engine}._tracker import node_data, record

store = Store.open("sqlite:////" + {path!r})
with store.write() as connection:
    for name in ("watts", "rack", "leds", "alarms"):
        column = tables.compute_nodes.c[name]
        null = "" if column.nullable else " NOT NULL DEFAULT 0"
        connection.exec_driver_sql(f"ALTER TABLE compute_nodes ADD COLUMN {{name}} {{column.type.compile(connection.dialect)}}{{null}}")
guest = {{"uuid": "2d9bb2f4-3b4f-4a5b-8b1c-111111111111", "name": "web1", "state": "running", "vcpus": 1, "memory_mb": 64, "vgpus": 2}}
facts = {{
    "hypervisor_hostname": "kvm1", "cpu": {{"count": 4}}, "memory_mb": 4096, "rack": "r7", "power": {{"watts": 90}},
    "gpu": {{"vgpus": 8}}, "domains": [guest],
}}
given = {{"host": "kvm2", "vcpus": 4, "memory_mb": 4096, "watts": 40, "leds": {{"red": 1}}, "alarms": 3}}
names = ("watts", "rack", "leds", "alarms")
with store.write() as connection:
    nodes = [{{"host": "kvm1", "hypervisor": facts}}, given]
    record.record(connection, node_data.reports(nodes, "unused", {{}}), 1.0)
    # What changes by itself is not a change by the operator, and what is not given again stays.
    facts["power"]["watts"] = 95
    del given["leds"], given["alarms"]
    changed = record.record(connection, node_data.reports(nodes, "unused", {{}}), 2.0)["changed"]
    wanted = host_columns.ColumnQuery(columns=set(names), classes={{"VGPU"}})
    states = HostStates(host_columns.read_columns(connection, 2.0, 0, wanted))
found = {{name: [attributes.lookup(states, name)[row] for row in range(2)] for name in names}}
vgpu = states.resources["VGPU"]
found["VGPU"] = [vgpu.total.tolist(), vgpu.used.tolist()]
found["changed"] = changed
found["on_demand"] = [attributes.columns_of(name) for name in names]
try:
    node_data.reports([{{"host": "kvm1", "hypervisor": {{**facts, "power": {{"watts": "many"}}}}}}], "unused", {{}})
except DroverError as problem:
    found["refused"] = str(problem)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("store") / "fleet.db").lstrip("/")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(engine=ENGINE, path=path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "values"),
    [("watts", [95, 40]), ("rack", ["r7", None]), ("leds", [None, {"red": 1}]), ("alarms", [0, 3])],
)
def test_a_new_field_goes_from_the_host_to_the_scheduler(followed, name, values):
    assert followed[name] == values


def test_a_new_field_is_checked_and_read_on_demand(followed):
    assert followed["changed"] is False
    assert followed["on_demand"] == [["watts"], ["rack"], ["leds"], []]
    assert "power: watts must be a whole number" in followed["refused"]


def test_a_new_class_has_inventories_and_allocations(followed):
    assert followed["VGPU"] == [[8, 0], [2, 0]]


@pytest.mark.parametrize(
    "heading", ["A property of compute nodes", "A resource class from libvirt"]
)
def test_the_files_to_touch_are_few_and_exist(heading):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = re.search(rf"^{heading}:\n\n((?:\d\. .*\n(?:   .*\n)*)+)", text, re.MULTILINE)[1]
    files = re.findall(r"^\d\. `([^`]+)`", listed, re.MULTILINE)
    assert 2 <= len(files) <= 5
    for name in files:
        assert list(ROOT.glob(name.replace("NNNN", "*"))), name

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeds for cloud-init, read from the image."""

from __future__ import annotations

import base64
import io
import re
import sys
import time

import pycdlib
import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.filter._cloud_init_seed import FilterModule
from ansible_collections.drover.compute.tests.unit.action.running import play

seed = FilterModule().filters()["_cloud_init_seed"]


def read_back(encoded):
    """Return (label, {name: text}) of an image; Joliet and Rock Ridge names give the same."""
    image = pycdlib.PyCdlib()
    image.open_fp(io.BytesIO(base64.b64decode(encoded, validate=True)))
    label = image.pvd.volume_identifier.decode("ascii").strip()
    file_sets = []
    for kind in ("joliet_path", "rr_path"):
        files = {}
        for child in image.list_children(**{kind: "/"}):
            if not child.is_file():
                continue
            if kind == "rr_path":
                name = child.rock_ridge.name().decode()
            else:
                name = child.file_identifier().decode("utf-16_be")
            content = io.BytesIO()
            image.get_file_from_iso_fp(content, **{kind: f"/{name}"})
            files[name] = content.getvalue().decode("utf-8")
        file_sets.append(files)
    image.close()
    assert file_sets[0] == file_sets[1]
    return label, file_sets[0]


def test_everything_comes_back():
    label, files = read_back(
        seed(
            {
                "user_data": {"hostname": "wéb1", "packages": ["nginx"]},
                "meta_data": {"instance-id": "i-1", "tags": [1]},
                "network_config": {"version": 2, "ethernets": {"eth0": {"dhcp4": True}}},
            },
            hostname="web1",
        )
    )
    assert label == "cidata"
    assert set(files) == {"user-data", "meta-data", "network-config"}
    assert files["user-data"].startswith("#cloud-config\nhostname: wéb1\n")
    assert yaml.safe_load(files["user-data"]) == {"hostname": "wéb1", "packages": ["nginx"]}
    assert yaml.safe_load(files["meta-data"]) == {
        "instance-id": "i-1",
        "tags": [1],
        "local-hostname": "web1",
    }
    assert yaml.safe_load(files["network-config"])["ethernets"]["eth0"]["dhcp4"] is True


def test_text_is_left_as_it_is():
    meta = "# mine\ninstance-id: x\nlocal-hostname: y\n"
    script = '#!/bin/sh\necho "$HOME"\n'
    _label, files = read_back(
        seed({"user_data": script, "meta_data": meta, "network_config": "version: 1\n"}, "z", "z")
    )
    assert files == {"user-data": script, "meta-data": meta, "network-config": "version: 1\n"}


def test_what_cloud_init_needs_is_always_there():
    _label, files = read_back(seed({}, instance_id="i-7"))
    assert set(files) == {"user-data", "meta-data"}
    assert files["user-data"].startswith("#cloud-config")
    assert yaml.safe_load(files["meta-data"]) == {"instance-id": "i-7"}
    made = [
        yaml.safe_load(read_back(seed({"user_data": text}))[1]["meta-data"])["instance-id"]
        for text in "aab"
    ]
    assert made[0] == made[1] != made[2]


class Unsafe(str):
    """The mark of ansible-core before 2.19 for texts from a host: str() keeps the type."""

    def __str__(self):  # pylint: disable=invalid-str-returned
        return self


def test_safety_11_texts_of_ansibles_own_types_are_texts():
    given = {"user_data": {"name": Unsafe("x")}}
    dummy, files = read_back(seed(given, instance_id=Unsafe("some-uuid"), hostname=Unsafe("web1")))
    assert yaml.safe_load(files["meta-data"]) == {
        "instance-id": "some-uuid",
        "local-hostname": "web1",
    }


def test_safety_11_in_a_play_with_what_a_host_has_said(tmp_path):
    """The test works with the types of any ansible-core. A registered result is the value that
    Ansible trusts least."""
    say = {"ansible.builtin.command": {"argv": ["echo", "web1"]}, "register": "said"}
    make = {
        "ansible.builtin.debug": {
            "msg": (
                "seed of {{ {'user_data': {'a': said.stdout}} | drover.compute._cloud_init_seed("
                "instance_id=said.stdout, hostname=said.stdout) | length }} characters"
            )
        }
    }
    code, text = play(tmp_path, [say, make], vars={"ansible_python_interpreter": sys.executable})
    assert code == 0 and re.search(r"seed of \d{4,} characters", text), text


def test_the_same_input_gives_the_same_bytes_at_any_time(monkeypatch):
    first = seed({"user_data": {"a": 1}}, "i", "h")
    monkeypatch.setattr(time, "time", lambda: 2000000000.5)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert seed({"user_data": {"a": 1}}, "i", "h") == first
    finally:
        monkeypatch.undo()
        time.tzset()
    assert seed({"user_data": {"a": 2}}, "i", "h") != first


def test_a_large_user_data_is_whole():
    text = "#cloud-config\n" + "# filler\n" * 50000
    assert read_back(seed({"user_data": text}))[1]["user-data"] == text


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("text", "takes a mapping with user_data, meta_data, network_config, not str"),
        ({"userdata": ""}, "unknown key 'userdata'"),
        ({"user_data": ["x"]}, "'user_data' must be a text or a mapping, not list"),
        ({"meta_data": "- a\n"}, "'meta_data' must hold a mapping"),
        ({"meta_data": "a: [\n"}, "'meta_data' is no YAML"),
    ],
)
def test_what_is_refused(value, says):
    with pytest.raises(AnsibleFilterError) as caught:
        seed(value)
    assert says in str(caught.value)


def test_without_pycdlib_the_package_is_named(monkeypatch):
    monkeypatch.setitem(seed.__globals__, "pycdlib", None)
    with pytest.raises(AnsibleFilterError, match="package pycdlib is missing"):
        seed({})

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``domain_migration`` on libvirt's test driver, which has no migration: refusals and
records.

Real moves are tested between the lab's hosts.
"""

from __future__ import annotations

import json
import os
import time

import pytest

libvirt = pytest.importorskip("libvirt")

TEST = "6695eb01-f6a4-8304-79aa-97f2502e193f"
NOSUCH = "00000000-0000-4000-8000-000000000099"


@pytest.fixture
def migrate(run_module, tmp_path):
    """Return a function that runs the module on ``test:///default`` with its own folder of
    records.
    """
    return lambda **arguments: run_module(
        "_domain_migration", uri="test:///default", run_dir=str(tmp_path / "run"), **arguments
    )


def move(uuid=TEST, **more):
    """A move to the same fake host."""
    return {"uuid": uuid, "destination": "kvm2", "destination_uri": "test:///default", **more}


def test_the_check_names_every_reason(migrate, tmp_path):
    result = migrate(start=[move(live=False, name="other"), move(NOSUCH)], check=True)
    assert result["changed"] is False
    first, second = result["moves"]
    assert (first["ok"], second["ok"]) == (False, False)
    # Both connections are to one and the same host, so that libvirt knows the domain on "both".
    assert "Both hosts know it" in first["message"]
    assert "There is no domain" in second["message"]
    assert not os.path.exists(tmp_path / "run")


def test_an_unreachable_destination_is_named(migrate):
    result = migrate(start=[move(destination_uri="test+tcp://127.0.0.1:1/default")], check=True)
    assert result["moves"][0]["ok"] is False
    assert result["moves"][0]["message"].startswith("The destination kvm2 cannot be reached: ")


def test_a_move_that_cannot_begin_fails_in_a_process_of_its_own(migrate, tmp_path):
    started = migrate(start=[move(NOSUCH)], wait=30)
    assert started["changed"] is False
    assert started["finished"] is True
    entry = started["moves"][0]
    assert (entry["status"], entry["source_state"], entry["destination_state"]) == (
        "failed",
        "absent",
        "absent",
    )
    assert "There is no domain" in entry["message"]
    record = json.loads((tmp_path / "run" / f"{NOSUCH}.json").read_text())
    assert record["pid"] != os.getpid()
    assert migrate(follow=[NOSUCH])["moves"][0]["message"] == entry["message"]


def test_a_dead_worker_is_replaced_by_one_that_only_finds_out(migrate, tmp_path):
    migrate(start=[move(NOSUCH)], wait=30)
    path = tmp_path / "run" / f"{NOSUCH}.json"
    record = json.loads(path.read_text())
    path.write_text(
        json.dumps({**record, "status": "running", "phase": "preparing", "finished_at": None})
    )
    # The worker of the first call may still hold its lock for a moment; then the test repeats the
    # call.
    for _dummy in range(3):
        result = migrate(follow=[NOSUCH], wait=5)
        if result["finished"]:
            break
    assert result["finished"] is True
    assert result["moves"][0]["status"] == "failed"


def test_an_unknown_move_cannot_be_followed(migrate, default_host):
    result = migrate(follow=[TEST])
    assert result["moves"][0]["status"] == "lost"
    assert result["moves"][0]["source_state"] == "running"
    assert "start the move again" in result["moves"][0]["message"]


def test_check_mode_starts_nothing_and_tells_the_same(migrate, tmp_path):
    checked = migrate(start=[move(), move(NOSUCH)], check=True)
    told = migrate(start=[move(), move(NOSUCH)], check_mode=True)
    assert told["moves"] == checked["moves"]
    assert (told["changed"], checked["changed"]) == (False, False)
    assert not os.path.exists(tmp_path / "run")


def test_nothing_of_the_module_stays_open_in_the_worker(migrate):
    """The module must return though its worker continues: otherwise SSH would wait for it."""
    began = time.monotonic()
    # 192.0.2.1 is reserved for documentation: the worker waits there for its time limit.
    result = migrate(start=[move(NOSUCH, destination_uri="test+tcp://192.0.2.1/default")], wait=0)
    assert result["moves"][0]["status"] in ("running", "failed")
    assert time.monotonic() - began < 100


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"start": [{"uuid": "xx", "destination": "kvm2"}]}, "'xx' is not the uuid"),
        (
            {
                "start": [
                    {"uuid": TEST, "destination": "kvm2"},
                    {"uuid": TEST.upper(), "destination": "kvm3"},
                ]
            },
            "twice in one call",
        ),
        ({"start": [{"uuid": TEST, "destination": "kvm2", "bandwidth_mib": 0}]}, "bandwidth_mib"),
        (
            {"start": [{"uuid": TEST, "destination": "kvm2", "tunnelled": True, "tls": True}]},
            "tunnelled and tls do not go together",
        ),
        (
            {"start": [{"uuid": TEST, "destination": "kvm2", "on_timeout": "kill"}]},
            "value of on_timeout must be one of",
        ),
        (
            {
                "start": [{"uuid": TEST, "destination": "kvm2"}],
                "abort": [{"uuid": TEST, "destination": "kvm2"}],
            },
            "twice in one call",
        ),
        ({"follow": ["yy"]}, "'yy' is not the uuid"),
        ({"wait": -1}, "wait is -1"),
        ({"until": -1}, "until is -1"),
        ({"start": [{"uuid": TEST}]}, "missing required arguments: destination"),
    ],
)
def test_bad_arguments_are_told_in_words(migrate, arguments, words):
    result = migrate(**arguments)
    assert result["rc"] == 1
    assert words in result["msg"]


def test_the_missing_binding_is_named_with_its_package(migrate, no_binding):
    result = migrate(start=[move()])
    assert result["rc"] == 1
    assert "python3-libvirt" in result["msg"]


def test_aborting_what_was_never_begun(migrate):
    result = migrate(abort=[move(NOSUCH, migration="m1")], wait=20)
    (answer,) = result["moves"]
    # The domain is on no host, so the state is not "aborted at its source".
    assert (result["changed"], answer["status"], answer["source_state"]) == (
        True,
        "cancelled",
        "absent",
    )
    again = migrate(abort=[move(NOSUCH, migration="m1")], wait=20)
    assert (again["changed"], again["moves"][0]["status"]) == (False, "cancelled")


def test_check_mode_aborts_nothing(migrate, tmp_path):
    result = migrate(abort=[move(NOSUCH)], check_mode=True)
    assert result["changed"] is False
    assert not list((tmp_path / "run").glob("*.abort"))


@pytest.mark.parametrize("content", ["", '{"version": 2, "status": "runn', "[1]", '{"uuid": 1}'])
def test_c1_a_damaged_record_of_a_move_is_not_no_move(migrate, tmp_path, content):
    """It may be of a guest that was shut down for its move, or of a copy that is under way."""
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / f"{NOSUCH}.json"
    path.write_text(content)
    sentences = [
        migrate(start=[move(NOSUCH)], check=True)["moves"][0],
        migrate(start=[move(NOSUCH)], wait=30)["moves"][0],
        migrate(follow=[NOSUCH])["moves"][0],
        migrate(abort=[move(NOSUCH)])["moves"][0],
    ]
    assert sentences[0]["ok"] is False and sentences[0]["bindings"]
    assert [each["status"] for each in sentences[1:]] == ["lost", "lost", "lost"]
    for each in sentences:
        assert f"the record of a move of it, {path}, cannot be read" in each["message"]
        assert "virsh list --all" in each["message"] and "remove the file" in each["message"]
    assert path.read_text() == content, "nothing is written over it"


def test_c1_a_record_of_another_release_is_no_damage(migrate, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / f"{NOSUCH}.json").write_text('{"version": 1}')
    assert "There is no domain" in migrate(start=[move(NOSUCH)], check=True)["moves"][0]["message"]

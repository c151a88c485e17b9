# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source on libvirt's test driver, with a store, and in ansible-rulebook itself."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._events.host_probe import Way
from ansible_collections.drover.compute.plugins.plugin_utils._events.options import WatchOptions
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.store import fleets

libvirt = pytest.importorskip("libvirt")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "extensions" / "eda" / "plugins" / "event_source" / "fleet.py"
RULEBOOKS = sorted((ROOT / "extensions" / "eda" / "rulebooks").glob("*.yml"))

NODE = """
<node>
  <domain type='test'><name>web</name><uuid>{uuid}</uuid><memory>65536</memory><os><type>hvm</type></os></domain>
  <cpu><mhz>1</mhz><model>x</model><active>1</active><nodes>1</nodes><sockets>1</sockets><cores>1</cores><threads>1</threads></cpu>
  <memory>1048576</memory>
</node>
"""


class Queue(asyncio.Queue):
    """Wait for events."""

    async def next(self, seconds=20):
        return await asyncio.wait_for(self.get(), seconds)


@pytest.fixture
def main():
    return runpy.run_path(os.fspath(SOURCE))["main"]


def watched(main, args, test):
    """Run the source, and beside it a test that gets the queue."""

    async def both():
        queue = Queue()
        source = asyncio.create_task(main(queue, args))
        try:
            await asyncio.wait(
                {source, beside := asyncio.create_task(test(queue))},
                return_when=asyncio.FIRST_COMPLETED,
            )
            if source.done():
                source.result()
            return await beside
        finally:
            source.cancel()
            await asyncio.gather(source, return_exceptions=True)

    return asyncio.run(both())


def test_a_domain_stops_and_starts(main):
    async def test(queue):
        conn = libvirt.open("test:///default")
        domain = conn.lookupByName("test")
        await asyncio.sleep(2)
        domain.destroy()
        stopped = await queue.next()
        domain.create()
        started = await queue.next()
        domain.suspend()
        domain.resume()
        await asyncio.sleep(4)
        assert queue.empty()
        conn.close()
        return stopped, started

    stopped, started = watched(main, {"hosts": {"kvm1": "test:///default"}}, test)
    assert (stopped["type"], stopped["name"], stopped["host"], stopped["reason"]) == (
        "instance_stopped_outside",
        "test",
        "kvm1",
        "destroyed",
    )
    assert started["type"] == "instance_changed_outside" and started["uuid"] == stopped["uuid"]
    assert set(started) == {"type", "name", "uuid", "host", "since", "sentence", "changed_hosts"}


def fake_ssh(folder, words):
    """Make a command ssh that prints the text and fails."""
    file = folder / "ssh"
    file.write_text(f"#!/bin/sh\n{words}\n")
    file.chmod(0o755)
    return file


def test_a_host_is_silent(main, tmp_path):
    ssh = fake_ssh(
        tmp_path,
        "echo 'ssh: connect to host kvm9.invalid port 22: Connection timed out' >&2; exit 255",
    )
    hosts = {
        "kvm9": f"qemu+ssh://root@kvm9.invalid/system?command={ssh}",
        "kvm1": "test:///default",
        "kvm2": "test:///default",
    }
    made = watched(main, {"hosts": hosts, "silent_seconds": 1}, Queue.next)
    assert (made["type"], made["host"]) == (
        "host_silent",
        "kvm9",
    ) and "Connection timed out" in made["sentence"]


def test_only_the_libvirt_of_a_host_is_dead(main, tmp_path):
    ssh = fake_ssh(
        tmp_path,
        'for last; do :; done; [ "$last" = true ] && exit 0; echo "no libvirt here" >&2; exit 1',
    )
    made = watched(
        main,
        {
            "hosts": {"kvm9": f"qemu+ssh://root@kvm9.invalid/system?command={ssh}"},
            "silent_seconds": 1,
        },
        Queue.next,
    )
    assert (made["type"], made["host"], made["login"]) == ("libvirt_dead_alone", "kvm9", True)


def test_nothing_is_said_before_the_store_was_read(main, tmp_path):
    """The host may be in maintenance."""
    ssh = fake_ssh(
        tmp_path,
        "echo 'ssh: connect to host kvm9.invalid port 22: Connection timed out' >&2; exit 255",
    )
    hosts = {
        "kvm9": f"qemu+ssh://root@kvm9.invalid/system?command={ssh}",
        "kvm1": "test:///default",
        "kvm2": "test:///default",
    }
    url = f"sqlite:///{tmp_path / 'missing.db'}"
    with pytest.raises(asyncio.TimeoutError):
        watched(
            main,
            {"hosts": hosts, "store_url": url, "silent_seconds": 1},
            lambda queue: queue.next(5),
        )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "has nothing to watch"),
        ({"hosts": ["kvm1"], "silent_second": 1}, "unknown key silent_second"),
        (
            {"hosts": ["kvm1"], "silent_seconds": "soon"},
            "silent_seconds of the event source must be a number of seconds",
        ),
        (
            {"hosts": ["kvm1"], "poll_seconds": 0},
            "poll_seconds of the event source must be more than 0",
        ),
        ({"hosts": 5}, "hosts of the event source must be"),
        ({"hosts": ["kvm1"], "audit_seconds": 5}, "needs store_url"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(main, args, words):
    with pytest.raises(DroverError, match=words):
        asyncio.run(main(Queue(), args))


def test_the_uri_of_a_host():
    assert WatchOptions.of_args({"hosts": ["kvm1"]}).hosts == {
        "kvm1": "qemu+ssh://root@kvm1/system"
    }
    assert (
        WatchOptions.of_args(
            {"hosts": "kvm1, kvm2", "uri": "qemu+tls://{host}.example.com/system"}
        ).hosts["kvm2"]
        == "qemu+tls://kvm2.example.com/system"
    )


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"hosts": ","}, "has nothing to watch"),
        ({"hosts": [None]}, "must be names, not None"),
        ({"hosts": [""]}, "must be names"),
        ({"hosts": {"kvm1": 5}}, "must be names, or names with libvirt URIs"),
        ({"hosts": ["kvm1"], "uri": 5}, "uri of the event source must be a libvirt URI"),
        ({"hosts": ["kvm1"], "uri": ""}, "uri of the event source must be a libvirt URI"),
        (
            {"hosts": {"kvm1": "qemu+ssh://[kvm1/system"}},
            "The libvirt URI of kvm1, .* cannot be read: its host or its port cannot be read",
        ),
        (
            {"hosts": {"kvm1": "qemu+ssh://kvm1:99999/system"}},
            "cannot be read: its host or its port cannot be read",
        ),
        (
            {"hosts": ["kvm1"], "poll_seconds": 1e30},
            "poll_seconds of the event source must be a number of seconds from 0 to 2147483647",
        ),
    ],
)
def test_wrong_options_are_refused(args, why):
    with pytest.raises(DroverError, match=why):
        WatchOptions.of_args(args)


def test_a_host_without_a_uri_of_its_own():
    uris = WatchOptions.of_args(
        {"hosts": {"kvm1": None, "kvm2": "test:///default"}, "uri": "qemu+tls://{host}/system"}
    ).hosts
    assert uris == {"kvm1": "qemu+tls://kvm1/system", "kvm2": "test:///default"}


def test_a_host_whose_uri_cannot_be_read_is_named_and_the_others_are_watched(
    main, tmp_path, caplog
):
    """The addresses come from the store."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fleets.discover(url, fleets.host("kvm1"), fleets.host("kvm2"), now=time.time())

    async def test(_queue):
        for _second in range(50):
            await asyncio.sleep(0.2)
            if "kvm1: libvirt is connected" in caplog.text and "kvm2 is not watched" in caplog.text:
                return

    uri = "test:///default"
    fill = "ansible_collections.drover.compute.plugins.plugin_utils._events.options.fill"
    with caplog.at_level("INFO"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            fill, lambda _uri, host, _address: uri if host == "kvm1" else "qemu+ssh://[kvm2/system"
        )
        watched(main, {"store_url": url}, test)
    assert "kvm1: libvirt is connected" in caplog.text
    assert (
        caplog.text.count(
            "kvm2 is not watched: its libvirt URI qemu+ssh://[kvm2/system cannot be read: its host"
            " or its port cannot be read"
        )
        == 1
    )


def test_b2_another_machine_at_the_address_of_a_host_is_not_the_host(main, tmp_path, caplog):
    """The domains of the other machine give no event. When the address is right again, the host is
    watched."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fleets.discover(url, fleets.host("kvm1"), fleets.host("kvm2"), now=time.time())
    for name, own in (("kvm1", True), ("kvm2", False)):
        # kvm2 has no recorded uuid of its system, so no one can identify its libvirt after the next
        # start.
        fleets.identify(
            url,
            name,
            host_uuid=fleets.uuid_of(name),
            system_uuid=fleets.uuid_of(name) if own else None,
        )
    answers = [fleets.uuid_of("other")]

    async def until(words):
        for _second in range(100):
            await asyncio.sleep(0.2)
            if words in caplog.text:
                return

    async def test(queue):
        await until("kvm1 is not watched")
        await until("kvm2: libvirt is connected")
        before = caplog.text
        answers[:] = [fleets.uuid_of("kvm1")]
        await until("kvm1: libvirt is connected")
        return before, queue.empty()

    with caplog.at_level("INFO"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "ansible_collections.drover.compute.plugins.plugin_utils._events.options.fill",
            lambda *_given: "test:///default",
        )
        patch.setattr(
            "ansible_collections.drover.compute.plugins.plugin_utils._events.libvirt_connections._host_uuid",
            lambda _conn: answers[0],
        )
        before, silent = watched(main, {"store_url": url, "silent_seconds": 60}, test)
    assert (
        "kvm1: libvirt is connected" not in before
        and "kvm1: libvirt is connected" in caplog.text
        and silent
    )
    assert (
        before.count(f"leads to another machine (host_uuid {fleets.uuid_of('other')}) than kvm1")
        >= 1
        and "host_replace" in before
    )


def test_a_store_without_hosts_is_said(main, tmp_path, caplog):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with Store.open(url).write():
        pass

    async def test(_queue):
        for _second in range(50):
            await asyncio.sleep(0.2)
            if caplog.text:
                return

    watched(main, {"store_url": url}, test)
    assert "The store has no hosts, so that nothing is watched." in caplog.text


def test_the_way_to_a_host():
    way = Way.of_uri("qemu+ssh://adm%40x@[fd99::1]:2222/system?keyfile=/k")
    assert way[:2] == ("fd99::1", 2222) and way.ssh[-9:] == [
        "-i",
        "/k",
        "-p",
        "2222",
        "-l",
        "adm@x",
        "--",
        "fd99::1",
        "true",
    ]
    assert Way.of_uri("qemu+tls://kvm1:16514/system") == ("kvm1", 22, [])
    assert Way.of_uri("test:///default").address is None


# ansible-rulebook


needs_rulebook = pytest.mark.skipif(
    not (
        pathlib.Path(sys.executable).with_name("ansible-rulebook").exists() and shutil.which("java")
    ),
    reason="ansible-rulebook or Java is not here: run tests/setup/setup.sh env events",
)


def rulebook(*words, folder):
    programs = pathlib.Path(sys.executable).parent
    # An environment without PYTHONPATH, as a user has it: the source must find its collection
    # without help.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    return subprocess.Popen(
        ["ansible-rulebook", *words],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@needs_rulebook
def test_ansible_rulebook_runs_a_playbook_for_an_event(tmp_path):
    ssh = fake_ssh(
        tmp_path, "echo 'ssh: connect to host kvm9.invalid port 22: No route to host' >&2; exit 255"
    )
    play = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "connection": "local",
            "tasks": [
                {
                    "ansible.builtin.copy": {
                        "dest": os.fspath(tmp_path / "said"),
                        "content": "{{ sentence }}",
                    }
                }
            ],
        }
    ]
    source = {
        "hosts": {
            "kvm9": f"qemu+ssh://root@kvm9.invalid/system?command={ssh}",
            "kvm1": "test:///default",
            "kvm2": "test:///default",
        },
        "silent_seconds": 1,
    }
    rules = [
        {
            "name": "Say it",
            "condition": 'event.type == "host_silent"',
            "action": {
                "run_playbook": {
                    "name": "say.yml",
                    "extra_vars": {"sentence": "{{ event.sentence }}"},
                }
            },
        }
    ]
    book = [
        {
            "name": "Test",
            "hosts": "all,localhost",
            "sources": [{"drover.compute.fleet": source}],
            "rules": rules,
        }
    ]
    (tmp_path / "say.yml").write_text(json.dumps(play))
    (tmp_path / "book.yml").write_text(json.dumps(book))
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": {"localhost": here}}}))
    process = rulebook("-r", "book.yml", "-i", "inventory.yml", folder=tmp_path)
    try:
        deadline = time.monotonic() + 120
        while (
            not (tmp_path / "said").exists()
            and time.monotonic() < deadline
            and process.poll() is None
        ):
            time.sleep(0.2)
    finally:
        process.terminate()
        said = process.communicate(timeout=30)[0]
    assert (tmp_path / "said").exists(), said
    assert (
        "kvm9 is silent" in (tmp_path / "said").read_text()
        and "No route to host" in (tmp_path / "said").read_text()
    )

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures that run a module in this process, on libvirt's test driver.

The test driver forgets ``test:///default`` when its last connection is closed, and gives each
connection to ``test:///PATH`` a host for itself. Therefore the fixtures keep one connection and
return it each time.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib

import pytest

try:
    from ansible.module_utils import _internal
except ImportError:
    _internal = None

from ansible_collections.drover.compute.tests.unit.dead_storage import dead_storage, fresh_looks  # noqa: F401  pylint: disable=unused-import
from ansible_collections.drover.compute.tests.unit.module_args import patch_module_args

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._files import digests
from ansible_collections.drover.compute.plugins.module_utils._orders import (
    records as migration_record,
)

NODE = """<node>
{domains}
  <cpu><mhz>2000</mhz><model>x86_64</model><active>8</active><nodes>2</nodes><sockets>1</sockets><cores>4</cores><threads>1</threads></cpu>
  <memory>16777216</memory>
</node>
"""


@pytest.fixture(autouse=True)
def records(tmp_path_factory, monkeypatch):
    """Return the records of migrations in a temporary folder, never in the machine's own."""
    folder = str(tmp_path_factory.mktemp("run"))
    monkeypatch.setattr(migration_record, "default_folder", lambda: folder)
    # Otherwise a test waits for a test of another process, because their instances have the same
    # uuids.
    named, run = migration_record.Records._lock_name, os.getpid()
    monkeypatch.setattr(
        migration_record.Records, "_lock_name", lambda own, uuid: f"{named(own, uuid)}/{run}"
    )
    return migration_record.Records(folder)


@pytest.fixture(autouse=True)
def own_digests(tmp_path_factory, monkeypatch):
    """Keep digests for the length of a test only."""
    folder = str(tmp_path_factory.mktemp("digests"))
    monkeypatch.setattr(digests, "folder", lambda: folder)


@contextlib.contextmanager
def as_on_a_host():
    """Make ansible-core return warnings, also if an earlier test imported the code of a controller.

    With that code ansible-core prints the warnings.
    """
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(_internal, "is_controller"):
            patch.setattr(_internal, "is_controller", False)
        yield


@pytest.fixture
def domain_xml():
    """``domain_xml(name, number)`` -> domain XML for the test driver; ``name`` must be escaped
    already.
    """

    def make(
        name: str, number: int, memory_mib: int = 64, devices: str = "", extra: str = ""
    ) -> str:
        return (
            f"<domain type='test'><name>{name}</name><uuid>00000000-0000-4000-8000-{number:012d}</uuid>"
            f"<memory unit='MiB'>{memory_mib}</memory><vcpu>2</vcpu><os><type>hvm</type></os>{extra}<devices>{devices}</devices></domain>"
        )

    return make


@pytest.fixture
def run_module(capfd):
    """``run_module(name, **arguments)`` -> the module's result, with ``rc`` 0 or 1 added."""

    def run(name: str, /, check_mode: bool = False, diff_mode: bool = False, **arguments):
        module = importlib.import_module(
            f"ansible_collections.drover.compute.plugins.modules.{name}"
        )
        capfd.readouterr()
        with (
            as_on_a_host(),
            patch_module_args(
                {**arguments, "_ansible_check_mode": check_mode, "_ansible_diff": diff_mode}
            ),
        ):
            with pytest.raises(SystemExit) as ended:
                module.main()
        captured = capfd.readouterr()
        # libvirt prints errors by itself, unless an error handler is set.
        assert captured.err == ""
        return {**json.loads(captured.out), "rc": ended.value.code}

    return run


@pytest.fixture
def fake_host(tmp_path, monkeypatch):
    """``fake_host(domain_xml, ...)`` -> (URI, open connection) of a host that outlives a module's
    run.
    """
    connections = {}
    real_open = libvirt.open

    def make(*domains: str):
        path: pathlib.Path = tmp_path / f"node{len(connections)}.xml"
        path.write_text(NODE.format(domains="\n".join(domains)))
        uri = f"test://{path}"
        connections[uri] = connection = real_open(uri)
        # The module closes its connection at its end, and the host would disappear.
        connection.close = lambda: 0
        return uri, connection

    monkeypatch.setattr(libvirt, "open", lambda uri: connections.get(uri) or real_open(uri))
    yield make
    for connection in connections.values():
        libvirt.virConnect.close(connection)


@pytest.fixture
def default_host():
    """libvirt's own fake host, with one running domain ``test``, kept for the length of a test."""
    connection = libvirt.open("test:///default")
    yield connection
    connection.close()


@pytest.fixture
def no_binding(monkeypatch):
    """Hide python3-libvirt from the modules, under any Python."""
    from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding

    # Import every file before: a file that is first imported without the binding keeps None for it.
    for name in ("domain", "_domain_migration", "hypervisor_info"):
        importlib.import_module(f"ansible_collections.drover.compute.plugins.modules.{name}")
    monkeypatch.setattr(binding, "libvirt", None)
    monkeypatch.setattr(binding, "LIBVIRT_IMPORT_ERROR", "ImportError: No module named 'libvirt'")
    monkeypatch.setattr(binding, "probe_interpreters_for_module", lambda paths, module: None)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A writer of a volume ends with the module that started it: then the lock of the module covers all
writers."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

#: It writes its process id to a file, and runs for a long time.
WRITER = "#!/bin/sh\necho $$ > {0}/new && mv {0}/new {0}/pid\nexec sleep 60\n"

BLOCK = (
    "from ansible_collections.drover.compute.plugins.module_utils._storage import"
    " block_volumes\nblock_volumes.fill('/dev/none', 'image', 'raw')"
)
RBD = """
import types
from ansible_collections.drover.compute.plugins.module_utils._storage import rbd
pool = types.SimpleNamespace(XMLDesc=lambda flags: "<pool type='rbd'><source><host name='ceph'/><name>vms</name></source></pool>")
rbd.fill(None, pool, 'volume', 'image', 'raw')
"""
DISK = """
from ansible_collections.drover.compute.plugins.module_utils._images import images
module = type("Module", (), {"get_bin_path": lambda self, name: name})()
images.copy_to_device(module, ("image", "raw"), "/dev/none", None, lambda: None)
"""


def _is_alive(pid: int) -> bool:
    try:
        return (
            "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        )
    except OSError:
        return False


@pytest.mark.parametrize("filling", [BLOCK, RBD, DISK], ids=["block", "rbd", "disk move"])
def test_a_copy_into_a_volume_ends_with_the_module_that_makes_it(tmp_path, filling):
    program = tmp_path / "qemu-img"
    program.write_text(WRITER.format(tmp_path))
    program.chmod(0o755)
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": paths}
    module = subprocess.Popen([sys.executable, "-c", filling], env=environment)
    deadline = time.monotonic() + 20
    while not (tmp_path / "pid").exists():
        assert module.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    writer = int((tmp_path / "pid").read_text())
    module.kill()
    module.wait()
    try:
        while _is_alive(writer):
            assert time.monotonic() < deadline, "it still writes"
            time.sleep(0.02)
    finally:
        if _is_alive(writer):
            os.kill(writer, signal.SIGKILL)

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file system with a server that takes every request and answers none, as NFS without its server.

A process that touches it is blocked in the kernel, and not even SIGKILL ends that (state D), until
it is unmounted by force. It uses the FUSE protocol directly: this file is the server when it is
run, with the mount point as its only argument.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
import sys

DEVICE = "/dev/fuse"
INIT = 26
MNT_FORCE, MNT_DETACH = 1, 2

_LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def mounted(folder):
    """Mount it at a folder for the length of the ``with`` block. Raise OSError if the machine does
    not allow that."""
    server = subprocess.Popen(
        [sys.executable, __file__, os.fspath(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = server.stdout.readline().strip()
        if said != "mounted":
            raise OSError(f"FUSE cannot be mounted: {said}")
        yield
    finally:
        _LIBC.umount2(os.fsencode(folder), MNT_FORCE | MNT_DETACH)
        server.stdin.close()
        server.kill()
        server.wait()
        server.stdout.close()


def _serve(folder):
    try:
        device = os.open(DEVICE, os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if _LIBC.mount(b"server:/export", os.fsencode(folder), b"fuse.glusterfs", 0, options):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    except OSError as exc:
        print(exc.strerror, flush=True)
        return
    print("mounted", flush=True)
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            return
        dummy, operation, number = struct.unpack("<IIQ", request[:16])
        if operation == INIT:
            answer = struct.pack("<IIIIHHIIHHI", 7, 31, 0, 0, 12, 10, 1 << 17, 1, 0, 0, 0).ljust(
                64, b"\0"
            )
            os.write(device, struct.pack("<IiQ", 16 + len(answer), 0, number) + answer)


if __name__ == "__main__":
    _serve(sys.argv[1])

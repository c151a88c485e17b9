# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Ceph cluster of one monitor, one manager and one OSD on a file, with cephx, an RBD pool and a
client for libvirt.

Each host of the lab gets the secret and a storage pool ``ceph`` of libvirt.
"""

from __future__ import annotations

import contextlib
import json
import time
import typing
import uuid

from ..layout import SWITCH_ADDRESS, Host, LabError, Layout, as_root, run
from . import beside

NAME = "ceph"
PROGRAMS = ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph", "rbd", "monmaptool", "ceph-authtool")
POOL, CLIENT = "vms", "libvirt"
SECRET = str(uuid.uuid5(uuid.NAMESPACE_DNS, "ceph.lab.invalid"))
#: Seconds until the cluster takes data.
PATIENCE = 120

CONFIG = """\
[global]
fsid = {fsid}
mon host = {address}:6789
public addr = {address}
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
osd pool default pg autoscale mode = off
mon data avail crit = 1
mon pg warn min per osd = 0
run dir = {folder}/run
log file = {folder}/log/$name.log
admin socket = {folder}/run/$name.asok
pid file = {folder}/run/$name.pid
keyring = {folder}/admin.keyring
[mon]
mon data = {folder}/mon
keyring = {folder}/mon/keyring
[mgr]
mgr data = {folder}/mgr
keyring = {folder}/mgr/keyring
mgr initial modules =
[osd]
osd data = {folder}/osd
keyring = {folder}/osd/keyring
osd objectstore = bluestore
bluestore block size = 6442450944
bluestore fsck on mount = false
osd memory target = 939524096
osd class update on start = false
"""

SECRET_XML = (
    "<secret ephemeral='no' private='no'><uuid>{uuid}</uuid><usage"
    " type='ceph'><name>lab</name></usage></secret>"
)

POOL_XML = (
    "<pool type='rbd'><name>ceph</name><source><host name='{address}'"
    " port='6789'/><name>{pool}</name><auth type='ceph' username='{client}'><secret"
    " uuid='{secret}'/></auth></source></pool>"
)

#: A disk of a domain: image, target.
DISK_XML = (
    "<disk type='network' device='disk'><driver name='qemu' type='raw' cache='none'/>"
    "<auth username='{client}'><secret type='ceph' uuid='{secret}'/></auth>"
    "<source protocol='rbd' name='{pool}/{image}'><host name='{address}' port='6789'/></source>"
    "<target dev='{target}' bus='virtio'/></disk>"
)


def disk_xml(image: str, target: str = "vda") -> str:
    """Return a disk of a domain that is an image of the pool."""
    return DISK_XML.format(
        client=CLIENT, secret=SECRET, pool=POOL, image=image, address=SWITCH_ADDRESS, target=target
    )


class Cluster:
    """The cluster of a lab."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.folder = layout.folder / "ceph"
        self.config = self.folder / "ceph.conf"

    def call(self, *words: str, text: str | None = None) -> str:
        """Run a program beside the lab's switch: it sees the lab's network, and ends with the
        lab.
        """
        return beside.call(self.layout, *words, text=text)

    def ceph(self, *words: str, **more: str) -> str:
        """Run a command of an administrator of the cluster."""
        return self.call(
            "ceph", "--conf", str(self.config), "--connect-timeout", "20", *words, **more
        )

    def rbd(self, *words: str) -> str:
        """Run a command for images."""
        return self.call("rbd", "--conf", str(self.config), "--pool", POOL, *words)

    def is_up(self) -> bool:
        if not self.config.exists():
            return False
        with contextlib.suppress(LabError, ValueError, KeyError):
            return bool(json.loads(self.ceph("--format", "json", "osd", "stat"))["num_up_osds"])
        return False

    def start(self) -> None:
        """Make a new cluster and start it."""
        run(*as_root(), "rm", "-rf", "--one-file-system", "--", self.folder)
        for name in ("run", "log", "mon", "mgr", "osd"):
            (self.folder / name).mkdir(parents=True)
        fsid = str(uuid.uuid4())
        self.config.write_text(
            CONFIG.format(fsid=fsid, address=SWITCH_ADDRESS, folder=self.folder), encoding="utf-8"
        )
        self._start_monitor(fsid)
        self._start_manager()
        self._start_osd()
        self.ceph("osd", "pool", "create", POOL, "8")
        self.call("rbd", "--conf", str(self.config), "pool", "init", POOL)
        self.ceph(
            "auth",
            "get-or-create",
            f"client.{CLIENT}",
            "mon",
            "profile rbd",
            "osd",
            f"profile rbd pool={POOL}",
            "mgr",
            "profile rbd",
        )

    def _start_monitor(self, fsid: str) -> None:
        keyring, admin = self.folder / "first.keyring", self.folder / "admin.keyring"
        run(
            "ceph-authtool",
            "--create-keyring",
            keyring,
            "--gen-key",
            "-n",
            "mon.",
            "--cap",
            "mon",
            "allow *",
        )
        caps = [
            word for part in ("mon", "osd", "mds", "mgr") for word in ("--cap", part, "allow *")
        ]
        run("ceph-authtool", "--create-keyring", admin, "--gen-key", "-n", "client.admin", *caps)
        run("ceph-authtool", keyring, "--import-keyring", admin)
        monitors = self.folder / "monmap"
        run(
            "monmaptool",
            "--create",
            "--addv",
            "a",
            f"[v1:{SWITCH_ADDRESS}:6789]",
            "--fsid",
            fsid,
            monitors,
        )
        conf = ("--conf", str(self.config))
        self.call(
            "ceph-mon",
            *conf,
            "--mkfs",
            "-i",
            "a",
            "--monmap",
            str(monitors),
            "--keyring",
            str(keyring),
        )
        self.call("ceph-mon", *conf, "-i", "a")
        self._until("the monitor answers", lambda: self.ceph("--format", "json", "status"))

    def _start_manager(self) -> None:
        allowed = ("mon", "allow profile mgr", "osd", "allow *", "mds", "allow *")
        (self.folder / "mgr/keyring").write_text(
            self.ceph("auth", "get-or-create", "mgr.x", *allowed), encoding="utf-8"
        )
        self.call("ceph-mgr", "--conf", str(self.config), "-i", "x")

    def _start_osd(self) -> None:
        osd = str(uuid.uuid4())
        key = run("ceph-authtool", "--gen-print-key").strip()
        self.ceph("osd", "new", osd, "0", "-i", "-", text=json.dumps({"cephx_secret": key}))
        run(
            "ceph-authtool",
            "--create-keyring",
            self.folder / "osd/keyring",
            "--name",
            "osd.0",
            "--add-key",
            key,
        )
        conf = ("--conf", str(self.config), "-i", "0")
        self.call("ceph-osd", *conf, "--mkfs", "--osd-uuid", osd)
        self.call("ceph-osd", *conf)
        self._until("the OSD is up", lambda: self.is_up() or 1 / 0)

    def _until(self, what: str, call: typing.Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                call()
                return
            except (LabError, ZeroDivisionError) as problem:
                if time.monotonic() > deadline:
                    raise LabError(
                        f"Ceph: not in {PATIENCE} s: {what} ({problem}). See {self.folder / 'log'}."
                    ) from None
            time.sleep(0.5)

    def key(self) -> str:
        """Return the key of libvirt's client, in Base64."""
        return self.ceph("auth", "get-key", f"client.{CLIENT}").strip()

    def give_to(self, host: Host) -> None:
        """Define the secret and the storage pool on a host."""
        pool = POOL_XML.format(address=SWITCH_ADDRESS, pool=POOL, client=CLIENT, secret=SECRET)
        beside.give(
            self.layout, host, {NAME: pool}, (SECRET, SECRET_XML.format(uuid=SECRET), self.key())
        )


def up(layout: Layout) -> None:
    """Start the cluster if it does not run, lift all fences, and give it to all hosts."""
    cluster = Cluster(layout)
    if not cluster.is_up():
        cluster.start()
    # libvirt starts no pool on a host behind a fence; its message is "no such file".
    cluster.ceph("osd", "blocklist", "clear")
    for host in layout.hosts():
        cluster.give_to(host)


def down(layout: Layout) -> None:
    """End the cluster of a running lab. Its data are not needed now."""
    folder = Cluster(layout).folder
    # Its processes have other numbers in its namespace.
    beside.call(layout, "sh", "-c", f"kill -9 $(cat {folder}/run/*.pid)")
    beside.until("Ceph has ended", lambda: not beside.answers(layout, 6789))

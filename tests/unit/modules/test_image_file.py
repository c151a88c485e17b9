# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images in the cache of a hypervisor: an image is whole and right, or absent; it is downloaded
once; an image in use is not removed."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import threading
import time

import pytest

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._images import cache as _image_cache
from ansible_collections.drover.compute.plugins.module_utils._images.cache import (
    CachedImage,
    ImageUnfinished,
)
from ansible_collections.drover.compute.plugins.module_utils._images.images import ImageProblem
from ansible_collections.drover.compute.plugins.module_utils._ownership import folder as _folder
from ansible_collections.drover.compute.tests.unit.image_server import Server
from ansible_collections.drover.compute.tests.unit.module_utils import faraway
from ansible_collections.drover.compute.tests.unit.module_utils.faraway import Faraway

CONTENT = os.urandom(3 << 20)
DIGITS = hashlib.sha256(CONTENT).hexdigest()
OLD = 2 * _image_cache.UNUSED


@pytest.fixture
def server():
    image_server = Server()
    image_server.content = CONTENT
    yield image_server
    image_server.close()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "images").mkdir()
    return tmp_path / "images"


@pytest.fixture
def bring(run_module, folder):
    def call(**given):
        return run_module(
            "_image_file",
            folder=str(folder),
            name="debian-12",
            **{"checksum": f"sha256:{DIGITS}", **given},
        )

    return call


def names(folder):
    cache = folder / "_base"
    return sorted(os.listdir(cache)) if cache.exists() else []


def test_from_a_url(bring, server, folder):
    foreseen = bring(url=server.url, check_mode=True)
    assert (foreseen["changed"], foreseen["done"], server.asked, names(folder)) == (
        True,
        False,
        [],
        [],
    )
    answer = bring(url=server.url)
    assert (answer["changed"], answer["done"], answer["image"]) == (
        True,
        True,
        f"{folder}/_base/{DIGITS}",
    )
    assert names(folder) == [DIGITS, f"{DIGITS}.json"]
    with open(answer["image"], "rb") as file:
        assert file.read() == CONTENT
    assert os.stat(answer["image"]).st_mode & 0o777 == 0o644
    again = bring(url=server.url)
    assert (again["changed"], again["done"], len(server.asked)) == (
        False,
        True,
        1,
    ), "it is read once"


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_from_a_path(bring, folder, tmp_path, algorithm):
    (tmp_path / "debian-12.raw").write_bytes(CONTENT)
    digits = hashlib.new(algorithm, CONTENT).hexdigest()
    assert (
        bring(path=str(tmp_path / "debian-12.raw"), checksum=f"{algorithm.upper()}:{digits}")[
            "done"
        ]
        is True
    )
    assert digits in names(folder)


def test_a_path_that_is_not_there_says_so(bring, tmp_path, folder):
    answer = bring(path=str(tmp_path / "nosuch"))
    assert (
        answer["failed"]
        and answer["absent"] is True
        and answer["unread"] is True
        and "does not exist" in answer["msg"]
    )
    assert DIGITS not in names(folder)


URI = "qemu+ssh://root@kvm2/system"


@pytest.fixture
def kvm2(tmp_path, monkeypatch):
    """Return another hypervisor with its own files, which has the image in its cache."""
    peer = Faraway(None, tmp_path / "kvm2")
    peer.write(f"/srv/_base/{DIGITS}", CONTENT)
    peer.getHostname, peer.close = lambda: "kvm2", lambda: None

    def connect(uri):
        assert uri == URI
        return peer

    monkeypatch.setattr(_image_cache, "open_connection", connect)
    return peer


def test_from_another_hypervisor(bring, folder, kvm2):
    arguments = {"peer": URI, "path": f"/srv/_base/{DIGITS}"}
    foreseen = bring(**arguments, check_mode=True)
    assert (foreseen["changed"], foreseen["done"], kvm2.downloads) == (True, False, [])
    answer = bring(**arguments)
    assert (answer["changed"], answer["done"], answer["image"]) == (
        True,
        True,
        f"{folder}/_base/{DIGITS}",
    )
    with open(answer["image"], "rb") as file:
        assert file.read() == CONTENT
    assert names(folder) == [DIGITS, f"{DIGITS}.json"] and kvm2.pools == {}, (
        "nothing is left on either"
    )
    again = bring(**arguments)
    assert (again["changed"], len(kvm2.downloads)) == (False, 1)


def test_a_copy_from_another_hypervisor_goes_on_where_a_call_ended(folder, kvm2):
    cached = CachedImage(str(folder), "debian-12", f"sha256:{DIGITS}")
    sizes = [0]
    while not cached.is_there():
        try:
            cached.bring(None, f"/srv/_base/{DIGITS}", 0, URI)
        except ImageUnfinished as so_far:
            assert so_far.total == len(CONTENT) and so_far.size > sizes[-1] and kvm2.pools == {}
            sizes.append(so_far.size)
    assert len(sizes) == 1 + len(CONTENT) // _folder.PIECE


@pytest.mark.parametrize("longer", [b"", b"more"])
def test_another_content_of_another_hypervisor_is_refused_and_removed(bring, folder, kvm2, longer):
    """The module checks the content that another hypervisor gives."""
    kvm2.write(f"/srv/_base/{DIGITS}", CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]) + longer)
    answer = bring(peer=URI, path=f"/srv/_base/{DIGITS}")
    assert (
        answer["failed"]
        and answer["other_content"] is True
        and f"What /srv/_base/{DIGITS} of kvm2 gives" in answer["msg"]
    )
    assert names(folder) == []


def test_a_hypervisor_that_gives_more_than_it_says_is_stopped(bring, folder, kvm2, monkeypatch):
    monkeypatch.setattr(faraway.Stream, "recv", lambda stream, most: bytes(most))
    answer = bring(peer=URI, path=f"/srv/_base/{DIGITS}")
    assert (
        answer["failed"]
        and f"kvm2 gives more than the {len(CONTENT)} bytes" in answer["msg"]
        and names(folder) == []
    )


def test_a_part_that_is_longer_than_the_file_is_read_anew(bring, folder, kvm2):
    (folder / "_base").mkdir()
    (folder / "_base" / _image_cache.PART.format(digits=DIGITS)).write_bytes(
        bytes(len(CONTENT) + 5)
    )
    assert bring(peer=URI, path=f"/srv/_base/{DIGITS}")["done"] is True


@pytest.mark.parametrize("path", ["/srv/_base/gone", "/nosuch/folder"])
def test_a_file_that_the_other_hypervisor_no_longer_has_says_so(bring, folder, kvm2, path):
    answer = bring(peer=URI, path=path)
    assert (
        answer["failed"]
        and f"kvm2 has no file {path} any more." in answer["msg"]
        and answer["unread"] is True
    )
    assert DIGITS not in names(folder)


def test_a_hypervisor_that_is_not_reached_says_so(bring, folder):
    answer = bring(peer="qemu+tcp://127.0.0.1:9/system", path=f"/srv/_base/{DIGITS}")
    assert (
        answer["failed"]
        and "The image debian-12 cannot be copied from 127.0.0.1 to" in answer["msg"]
        and answer["unread"] is True
    )
    assert names(folder) == []


@pytest.mark.parametrize("parts", [True, False])
def test_an_image_with_another_checksum_is_refused_and_removed(bring, server, folder, parts):
    server.content, server.parts = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), parts
    answer = bring(url=server.url)
    assert (
        answer["failed"]
        and answer["other_content"] is True
        and f"not {DIGITS}. The copy was removed" in answer["msg"]
    )
    assert names(folder) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"checksum": "md5:00"}, "give sha256: or sha512:"),
        ({"checksum": f"sha256:{DIGITS[1:]}"}, "give sha256: or sha512:"),
        ({"url": "ftp://example.com/x"}, "is no URL of http or https"),
        ({"url": "http://127.0.0.1:9/x"}, "cannot be read from http://127.0.0.1:9/x"),
    ],
)
def test_what_cannot_be_brought_is_a_sentence(bring, folder, given, words):
    found = bring(**{"url": "http://127.0.0.1:9/x", **given})
    assert found["failed"] and words in found["msg"] and found["msg"].endswith(".")
    assert DIGITS not in names(folder)


def test_an_error_of_the_server_is_a_sentence(bring, server, folder):
    server.status = 404
    answer = bring(url=server.url)
    assert (
        "404 Not Found. Correct the source of the image debian-12." in answer["msg"]
        and answer["unread"] is True
    )
    assert DIGITS not in names(folder)


def test_a_download_goes_on_where_a_call_ended(folder, server):
    server.slow = 0.05
    cached = CachedImage(str(folder), "debian-12", f"sha256:{DIGITS}")
    with pytest.raises(ImageUnfinished) as so_far:
        cached.bring(server.url, None, 0.3)
    assert 0 < so_far.value.size < so_far.value.total == len(CONTENT)
    assert [name for name in names(folder) if not name.startswith(".drover-")] == [], (
        "it is not taken as whole"
    )
    server.slow = 0
    cached.bring(server.url, None, 60)
    assert server.asked == [0, so_far.value.size] and cached.is_there()


def test_a_server_that_knows_no_parts_is_read_to_its_end(folder, server):
    server.parts, server.slow = False, 0.01
    cached = CachedImage(str(folder), "debian-12", f"sha256:{DIGITS}")
    cached.bring(server.url, None, 0)
    assert cached.is_there()


def test_a_download_that_is_cut_off_goes_on(bring, server, folder):
    server.cut = 1 << 20
    assert (
        "was cut off" in bring(url=server.url)["msg"]
        or "cannot be read" in bring(url=server.url)["msg"]
    )
    server.cut = None
    assert bring(url=server.url)["done"] is True
    assert server.asked[-1] > 0, "what was there is not read again"


def test_a_part_of_another_image_is_not_taken(bring, server, folder):
    (folder / "_base").mkdir()
    part = folder / "_base" / _image_cache.PART.format(digits=DIGITS)
    part.write_bytes(b"x" * 1000)
    found = bring(url=server.url)
    assert found["failed"] and found["other_content"] is True
    assert bring(url=server.url)["done"] is True


def test_two_at_once_bring_it_once(folder, server):
    server.slow = 0.01
    problems, made = [], []

    def work():
        cached = CachedImage(str(folder), "debian-12", f"sha256:{DIGITS}")
        try:
            made.append(cached.bring(server.url, None, 60))
        except ImageProblem as problem:
            problems.append(problem)

    workers = [threading.Thread(target=work) for dummy in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (
        problems == []
        and sorted(made) == [False, False, False, True]
        and server.asked == [0]
        and names(folder) == [DIGITS, f"{DIGITS}.json"]
    )


def test_a_process_that_is_killed_leaves_nothing_whole(folder, server):
    server.slow = 0.02
    child = os.fork()
    if child == 0:
        CachedImage(str(folder), "debian-12", f"sha256:{DIGITS}").bring(server.url, None, 60)
        os._exit(0)
    while not any(
        name.startswith(".drover-") and os.path.getsize(folder / "_base" / name)
        for name in names(folder)
    ):
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert DIGITS not in names(folder)
    server.slow = 0
    CachedImage(str(folder), "debian-12", f"sha256:{DIGITS}").bring(server.url, None, 60)
    assert names(folder) == [DIGITS, f"{DIGITS}.json"]


def test_a_file_of_somebody_else_is_never_overwritten(bring, server, folder):
    (folder / "_base").mkdir()
    (folder / "_base" / DIGITS).write_bytes(b"mine")
    answer = bring(url=server.url)
    assert (
        answer["failed"]
        and "is not the image debian-12: its checksum is another one. Nothing was overwritten"
        in answer["msg"]
    )
    assert (folder / "_base" / DIGITS).read_bytes() == b"mine"
    # An image with the right content is used, and stays the property of its owner.
    (folder / "_base" / DIGITS).write_bytes(CONTENT)
    assert bring(url=server.url)["changed"] is False and names(folder) == [DIGITS]


def test_an_image_that_was_written_to_is_refused(bring, server, folder):
    path = bring(url=server.url)["image"]
    with open(path, "r+b") as file:
        file.write(b"changed")
    assert "its checksum is another one" in bring(url=server.url)["msg"]


def test_an_image_without_room_is_refused(folder, server, monkeypatch):
    (folder / "_base").mkdir()
    real = os.statvfs(folder)
    monkeypatch.setattr(
        _image_cache.os,
        "statvfs",
        lambda dummy: type("Full", (), {"f_bavail": 1, "f_frsize": real.f_frsize}),
    )
    with pytest.raises(
        ImageProblem, match="needs 0.00 GiB in .* and 0.00 GiB are free: make room there"
    ):
        CachedImage(str(folder), "debian-12", f"sha256:{DIGITS}").bring(server.url, None, 60)
    assert names(folder) == []


def test_an_image_that_is_backed_by_a_file_is_refused(bring, folder, tmp_path):
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "raw", str(tmp_path / "secret"), "1M"], check=True
    )
    image = tmp_path / "image.qcow2"
    subprocess.run(
        [
            "qemu-img",
            "create",
            "-q",
            "-f",
            "qcow2",
            "-b",
            str(tmp_path / "secret"),
            "-F",
            "raw",
            str(image),
        ],
        check=True,
    )
    answer = bring(
        path=str(image), checksum=f"sha256:{hashlib.sha256(image.read_bytes()).hexdigest()}"
    )
    assert answer["failed"] and "is backed by another file" in answer["msg"] and names(folder) == []


def test_an_upload_is_removed_when_it_was_taken_and_when_it_is_wrong(bring, folder):
    for content, done in ((CONTENT[1:], None), (CONTENT, True)):
        upload = folder / ".drover-upload-4d2c5d0e-0000-4000-8000-000000000001"
        upload.write_bytes(content)
        assert bring(path=str(upload), uploaded=True).get("done") is done and not upload.exists()


# Cleaning


@pytest.fixture
def clean(run_module, folder, fake_host):
    uri, dummy = fake_host()

    def call(**given):
        return run_module("_image_file", folder=str(folder), state="clean", uri=uri, **given)

    return call


def unused(folder):
    """All images were last used long ago."""
    for name in names(folder):
        then = time.time() - OLD
        if name.endswith(".json") or name.startswith("."):
            os.utime(folder / "_base" / name, (then, then))


def reasons(found):
    return {os.path.basename(each["path"]): each["reason"] for each in found["kept"]}


def test_what_nothing_needs_is_removed_when_it_is_old(bring, clean, server, folder):
    bring(url=server.url)
    assert clean()["removed"] == [] and "in the last 24 hours" in reasons(clean())[DIGITS]
    unused(folder)
    foreseen = clean(check_mode=True)
    assert foreseen["removed"] == [f"{folder}/_base/{DIGITS}"] and DIGITS in names(folder)
    assert clean()["removed"] == [f"{folder}/_base/{DIGITS}"] and names(folder) == []
    assert clean()["changed"] is False
    assert bring(url=server.url)["done"] is True


def test_what_an_instance_was_made_of_just_now_stays(bring, clean, server, folder):
    bring(url=server.url)
    unused(folder)
    bring(url=server.url)
    assert clean()["removed"] == [] and DIGITS in names(folder)


def test_an_image_behind_a_disk_stays(bring, clean, server, folder):
    path = bring(url=server.url)["image"]
    unused(folder)
    disk = folder / "web1.qcow2"
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", path, "-F", "raw", str(disk)], check=True
    )
    assert reasons(clean())[DIGITS] == f"the image {disk} is backed by it" and DIGITS in names(
        folder
    )
    disk.unlink()
    assert "another hypervisor uses it" in reasons(clean(used_elsewhere=[path]))[DIGITS]
    assert clean()["removed"] == [path]


@pytest.mark.parametrize("how", ["no note", "other inode", "link", "second name", "odd name"])
def test_what_is_not_provably_ours_stays(bring, clean, server, folder, how, tmp_path):
    path = folder / "_base" / DIGITS
    bring(url=server.url)
    note = folder / "_base" / f"{DIGITS}.json"
    if how == "no note":
        note.unlink()
    elif how == "other inode":
        what = json.loads(note.read_text())
        note.write_text(json.dumps({**what, "inode": what["inode"] + 1}))
    elif how == "link":
        path.rename(tmp_path / "real")
        path.symlink_to(tmp_path / "real")
    elif how == "second name":
        os.link(path, tmp_path / "other")
    else:
        path = path.rename(folder / "_base" / "debian.qcow2")
    unused(folder)
    assert clean()["removed"] == [] and os.path.lexists(path)


def test_what_is_being_brought_stays_and_what_was_left_goes(clean, folder):
    (folder / "_base").mkdir()
    part = folder / "_base" / _image_cache.PART.format(digits=DIGITS)
    part.write_bytes(b"x")
    assert clean()["removed"] == []
    unused(folder)
    with open(part, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert clean()["removed"] == []
    assert clean()["removed"] == [str(part)] and not part.exists()

# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backing files of images, read from their headers: images as qemu-img makes them, and names as
QEMU takes them."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from ansible_collections.drover.compute.plugins.module_utils._storage import backing
from ansible_collections.drover.compute.tests.unit.module_utils.images import qcow2, qemu_img


def files(path, image_format=None):
    found = backing.chain(str(path), image_format)
    return found.files


@pytest.mark.parametrize("kind", ["qcow2", "qed", "qcow", "vmdk"])
def test_each_kind_of_image_that_can_have_another_behind_it(tmp_path, kind):
    base, top = qemu_img(tmp_path / "base", kind=kind, size="4M"), str(tmp_path / "top")
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", kind, "-b", base, "-F", kind, top], check=True
    )
    assert files(top) == [base]
    assert files(base) == []


def test_a_whole_chain_by_relative_names_and_through_a_link(tmp_path):
    (tmp_path / "sub").mkdir()
    qcow2(tmp_path / "base")
    qcow2(tmp_path / "sub" / "middle", "../base")
    qcow2(tmp_path / "top", "sub/middle")
    assert [os.path.realpath(path) for path in files(tmp_path / "top")] == [
        str(tmp_path / "sub" / "middle"),
        str(tmp_path / "base"),
    ]
    # QEMU resolves a relative name from the folder where the image was opened; the folder of its
    # file may be meant too.
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "top", tmp_path / "elsewhere" / "top")
    (reference,) = backing.references_of(str(tmp_path / "elsewhere" / "top"))
    assert reference.paths == [
        str(tmp_path / "elsewhere" / "sub" / "middle"),
        str(tmp_path / "sub" / "middle"),
    ]


def test_an_external_data_file_belongs_to_its_image(tmp_path):
    data = str(tmp_path / "data.raw")
    top = qemu_img(tmp_path / "top", "-o", f"data_file={data},data_file_raw=on")
    assert files(top) == [data]


def test_nothing_is_behind_what_is_taken_for_raw(tmp_path):
    """A guest can write any text to the first bytes of a raw disk."""
    qcow2(tmp_path / "disk", "/etc/shadow")
    assert files(tmp_path / "disk", "raw") == []
    assert files(tmp_path / "disk", "qcow2")[:1] == ["/etc/shadow"]


def test_the_names_that_qemu_takes(tmp_path):
    def named(name):
        found = backing.reference_of(name, "/img/top")
        return found.paths, found.servers, found.words

    def described(**options):
        return named("json:" + json.dumps(options))

    assert named("base") == (["/img/base"], [], None)
    assert named("file:/x/base") == named("/x/base") == (["/x/base"], [], None)
    assert named("./a:b") == (["/img/a:b"], [], None)
    assert named("nbd://127.0.0.1:10809/x") == ([], ["127.0.0.1"], None)
    assert named("nbd+unix:///x?socket=/run/nbd") == ([], ["unix"], None)
    assert named("nbd:unix:/run/nbd") == ([], ["unix"], None)
    assert named("nbd:[::1]:10809:exportname=x") == ([], ["[::1]"], None)
    assert named("nbd:server:10809") == ([], ["server"], None)
    assert named("https://server/x.img")[1] == ["server"]
    assert named("rbd:pool/image:mon_host=127.0.0.1\\:6789")[1] == ["127.0.0.1"]
    assert described(driver="qcow2", file={"driver": "file", "filename": "/x/base"}) == (
        ["/x/base"],
        [],
        None,
    )
    assert described(**{"driver": "qcow2", "file.driver": "file", "file.filename": "base"}) == (
        ["/img/base"],
        [],
        None,
    )
    assert described(
        driver="raw", file={"driver": "nbd", "server": {"type": "unix", "path": "/run/nbd"}}
    )[1] == ["unix"]
    assert described(
        driver="raw", file={"driver": "nbd", "server": {"type": "inet", "host": "::1", "port": "1"}}
    )[1] == ["::1"]
    assert described(**{"file.driver": "nbd", "file.path": "/run/nbd"})[1] == ["unix"]
    # A name that is not understood stays as written, because its meaning is decided later.
    assert named("json:{")[2] == "json:{"
    assert named("blkdebug:/x.conf:/x/base")[2] == "blkdebug:/x.conf:/x/base"
    assert described(driver="qcow2", file="some-node")[2] is not None


def test_trouble_is_told(tmp_path):
    qcow2(tmp_path / "top", "gone")
    chain = backing.chain(str(tmp_path / "top"))
    assert (
        chain.files == [str(tmp_path / "gone")]
        and "gone cannot be read (No such file" in chain.troubles[0]
    )
    data = bytearray((tmp_path / "top").read_bytes())
    data[16:20] = (5000).to_bytes(4, "big")
    (tmp_path / "top").write_bytes(data)
    assert "its header is damaged" in backing.chain(str(tmp_path / "top")).troubles[0]
    qcow2(tmp_path / "a", "b")
    qcow2(tmp_path / "b", "a")
    assert files(tmp_path / "a") == [str(tmp_path / "b")]

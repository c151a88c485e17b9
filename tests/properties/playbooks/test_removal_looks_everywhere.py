# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile B3: no file is removed before the other hosts were read for it. Here a person has defined
domains since the last discovery.

The hosts share the file system of this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest
from ansible.errors import AnsibleActionFail

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import SOURCE_ALIAS
from ansible_collections.drover.compute.plugins.module_utils._images import cache, notes
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

HOSTS = ("kvm1", "kvm2", "kvm3")


@pytest.fixture
def prepared_url(prepared_sqlite, tmp_path):
    """One database is enough: the tests differ by the hosts."""
    path = tmp_path / "store.db"
    shutil.copyfile(prepared_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture
def url(fleet_url, there, tmp_path):
    """Return a store with web and db shut off on kvm1. Their folder is the folder of the instances
    on all hosts."""
    for each in there.hosts["kvm1"].domains().values():
        each.destroy()
    discover(fleet_url, tmp_path)
    return fleet_url


def discover(url, folder):
    for name in HOSTS:
        run(
            "compute_node",
            {"inventory_hostname": name, "drover_instances_path": str(folder)},
            store_url=url,
        )


def path_of(there, name="web"):
    (path,) = hypervisors.disks_of(there.hosts["kvm1"].domains()[uuid_of(name)])
    return path


def delete(url, check=False, variables=None, **more):
    """Delete web; return the result."""
    task_vars = {"inventory_hostname": "kvm1", **(variables or {})}
    result = run(
        "instance",
        task_vars,
        store_url=url,
        state="absent",
        instances=["web"],
        timeout=2,
        check=check,
        **more,
    )
    return result["instances"][0]


def kept(result, path):
    """Return the reason why a file was kept."""
    assert os.path.exists(path) and result["removed_disks"] == []
    (reason,) = [each["reason"] for each in result["kept_disks"] if each["path"] == path]
    return reason


def image(path, base=None):
    what = ["1M"] if base is None else []
    behind = [] if base is None else ["-b", base, "-F", "qcow2"]
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", *behind, str(path), *what], check=True
    )
    return str(path)


def define(there, host, name, devices="", disks=(), more=""):
    """Define a domain that is off; devices and other elements as XML."""
    text = (
        hypervisors.xml(name, uuid_of(name), disks)
        .replace("</devices>", f"{devices}</devices>")
        .replace("</os>", f"{more}</os>")
    )
    return there.hosts[host].connection.defineXML(text)


def as_disk(there, path, tmp_path):
    define(there, "kvm2", "other", disks=[path])


def as_base(there, path, tmp_path):
    """A child in another folder."""
    (tmp_path / "kids").mkdir()
    define(there, "kvm2", "other", disks=[image(tmp_path / "kids" / "kid.qcow2", path)])


def as_base_of_a_base(there, path, tmp_path):
    (tmp_path / "kids").mkdir()
    child = image(tmp_path / "kids" / "child.qcow2", path)
    define(there, "kvm2", "other", disks=[image(tmp_path / "kids" / "kid.qcow2", child)])


def as_link(there, path, tmp_path):
    os.symlink(path, tmp_path / "link")
    define(there, "kvm2", "other", disks=[str(tmp_path / "link")])


def as_medium(there, path, tmp_path):
    define(
        there,
        "kvm2",
        "other",
        f"<disk type='file' device='cdrom'><source file='{path}'/><target dev='hdc'"
        " bus='ide'/><readonly/></disk>",
    )


def as_kernel(there, path, tmp_path):
    define(there, "kvm2", "other", more=f"<kernel>{path}</kernel>")


def as_variables(there, path, tmp_path):
    define(
        there,
        "kvm2",
        "other",
        more=(
            "<loader readonly='yes'"
            f" type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader><nvram>{path}</nvram>"
        ),
    )


def as_next_start(there, path, tmp_path):
    """The domain runs without the disk, and has it from its next start."""
    define(there, "kvm2", "other").create()
    define(there, "kvm2", "other", disks=[path])


def as_running(there, path, tmp_path):
    """The domain runs with the disk, and does not have it from its next start."""
    define(there, "kvm2", "other", disks=[path]).create()
    define(there, "kvm2", "other")


def as_twin(there, path, tmp_path):
    """The same instance, moved there by hand."""
    define(there, "kvm2", "web", disks=[path])


WAYS = [
    as_disk,
    as_base,
    as_base_of_a_base,
    as_link,
    as_medium,
    as_kernel,
    as_variables,
    as_next_start,
    as_running,
    as_twin,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_b3_a_file_that_another_host_has_come_to_need_stays(url, there, tmp_path, way):
    path = path_of(there)
    way(there, path, tmp_path)
    foreseen = kept(delete(url, check=True), path)
    reason = kept(delete(url), path)
    assert "kvm2" in reason and ("other" in reason or way is as_twin) and reason == foreseen
    assert uuid_of("web") not in there.hosts["kvm1"].domains()


def test_b3_what_nobody_needs_goes(url, there, tmp_path):
    path = path_of(there)
    define(there, "kvm2", "other", disks=[image(tmp_path / "other.qcow2")])
    assert delete(url, check=True)["removed_disks"] == [path] and os.path.exists(path)
    assert delete(url)["removed_disks"] == [path] and not os.path.exists(path)


@pytest.mark.parametrize("why", ["unreachable", "libvirt"])
def test_b3_what_a_silent_host_may_need_stays_and_is_named(url, there, why):
    path = path_of(there)
    setattr(there.hosts["kvm3"], {"unreachable": "reached", "libvirt": "libvirt"}[why], False)
    reason = kept(delete(url), path)
    assert "kvm3 does not answer" in reason and "drover_absent_hosts=kvm3" in reason


def test_b3_a_silent_host_is_lifted_by_its_name(url, there):
    path = path_of(there)
    there.hosts["kvm3"].reached = False
    assert delete(url, variables={"drover_absent_hosts": "kvm3"})["removed_disks"] == [path]


def test_b3_an_old_snapshot_is_not_merged_into_what_another_host_needs(url, there):
    run("instance_snapshot", None, store_url=url, name="web", snapshot="s1", state="present")
    define(there, "kvm2", "other", disks=[path_of(there)])
    given = {"store_url": url, "name": "web", "snapshot": "s1", "state": "absent"}
    assert "kvm2 the domain other uses it" in failure("instance_snapshot", None, **given)


def test_b3_an_image_in_the_cache_that_another_host_needs_stays(url, there, tmp_path):
    folder = tmp_path / "instances"
    (folder / "_base").mkdir(parents=True)
    base = image(folder / "_base" / ("0" * 64))
    notes.write_note(base + notes.NOTE, notes.stamp(os.lstat(base)))
    long_ago = time.time() - 2 * cache.UNUSED
    os.utime(base + notes.NOTE, (long_ago, long_ago))

    def clean():
        return run(
            "_image_cache",
            {"inventory_hostname": "kvm1"},
            store_url=url,
            folder=str(folder),
            state="clean",
            check=False,
        )

    (tmp_path / "kids").mkdir()
    child = define(there, "kvm2", "other", disks=[image(tmp_path / "kids" / "kid.qcow2", base)])
    result = clean()
    assert (
        result["removed"] == [] and "kvm2" in result["kept"][0]["reason"] and os.path.exists(base)
    )
    child.undefine()
    os.unlink(tmp_path / "kids" / "kid.qcow2")
    assert clean()["removed"] == [base]


def test_b3_the_old_file_of_a_disk_move_that_another_host_needs_stays(url, there, tmp_path):
    path = path_of(there)
    define(there, "kvm2", "other", disks=[path])
    (tmp_path / "new").mkdir()
    given = {"instance": "web", "disk": "vda", "pool": str(tmp_path / "new")}
    result = run("_disk_move", {"inventory_hostname": "localhost"}, store_url=url, **given)
    assert (
        os.path.exists(path) and result["removed"] == [] and "kvm2" in result["kept"][0]["reason"]
    )


@pytest.mark.parametrize("way", ["instance_resize", "instance_migrate"])
def test_b3_a_move_with_its_disks_knows_what_another_host_has_come_to_need(url, there, way):
    """The source removes the files that it has copied."""
    path = path_of(there)
    define(there, "kvm3", "other", disks=[path])
    more = {"flavor": "big", "host": "kvm2"} if way == "instance_resize" else {"host": "kvm2"}
    run(way, None, store_url=url, instances=["web"], **more)
    moves = [
        move
        for _host, module, args, check in there.calls
        if module.endswith("_domain_migration") and not check
        for move in args["start"]
    ]
    needed = [each for move in moves for each in move.get("used_elsewhere") or ()]
    assert {"path": path, "who": "on kvm3", "how": "the domain other uses it"} in needed, moves


# B5: one file under two names


SOURCE = (
    "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{}'/><target"
    " dev='vda'/><alias name='{}0'/></disk>"
)


def build(url, path, variables=None, check=False):
    """Build thief on kvm3 with a file that exists already; return the reason of a refusal, or
    None.
    """
    fleets.claim(url, fleets.selection("thief", "kvm3"))
    text = hypervisors.xml("thief", uuid_of("thief")).replace(
        "</devices>", f"{SOURCE.format(path, SOURCE_ALIAS)}</devices>"
    )
    arguments = {"uuid": uuid_of("thief"), "name": "thief", "xml": text, "uri": "test:///default"}
    try:
        run(
            "_instance_build",
            {"inventory_hostname": "kvm3", **(variables or {})},
            store_url=url,
            check=check,
            **arguments,
        )
    except AnsibleActionFail as problem:
        return str(problem)
    return None


def attach(url, path, variables=None, **more):
    """Attach a file to web on kvm1; return the reason of a refusal, or None."""
    try:
        run(
            "instance_disk",
            variables,
            store_url=url,
            name="web",
            state="present",
            path=path,
            timeout=0,
            **more,
        )
    except AnsibleActionFail as problem:
        return str(problem)
    return None


def has(there, host, path):
    return any(path in each.XMLDesc(0) for each in there.hosts[host].domains().values())


@pytest.mark.parametrize("give", [build, attach])
def test_b5_a_hard_link_of_a_disk_is_not_given_to_another_instance(url, there, tmp_path, give):
    path = image(tmp_path / "other.qcow2")
    define(there, "kvm2", "other", disks=[path])
    discover(url, tmp_path)
    link = str(tmp_path / "link.qcow2")
    os.link(path, link)
    assert (
        ("kvm2 the domain other uses it" if give is build else "hard links") in give(url, link)
        and not has(there, "kvm3", link)
        and not has(there, "kvm1", link)
    )


@pytest.mark.parametrize("give", [build, attach])
def test_b5_a_file_with_two_names_is_nobodys_alone(url, there, tmp_path, give):
    path = image(tmp_path / "free.qcow2")
    os.link(path, tmp_path / "link.qcow2")
    assert (
        "hard links" in give(url, path)
        and not has(there, "kvm3", path)
        and not has(there, "kvm1", path)
    )


@pytest.mark.parametrize("give", [build, attach])
def test_b5_a_file_that_another_host_has_come_to_use_is_not_given(url, there, tmp_path, give):
    path = image(tmp_path / "other.qcow2")
    define(there, "kvm2", "other", disks=[path])
    assert (
        "kvm2 the domain other uses it" in give(url, path)
        and not has(there, "kvm3", path)
        and not has(there, "kvm1", path)
    )


@pytest.mark.parametrize("give", [build, attach])
def test_b5_a_file_that_a_silent_host_may_use_is_not_given(url, there, tmp_path, give):
    path = image(tmp_path / "free.qcow2")
    there.hosts["kvm2"].reached = False
    assert "drover_absent_hosts=kvm2" in give(url, path)
    assert give(url, path, {"drover_absent_hosts": "kvm2"}) is None and (
        has(there, "kvm3", path) or has(there, "kvm1", path)
    )


def test_b5_a_medium_that_another_host_writes_to_is_not_read(url, there, tmp_path):
    path = image(tmp_path / "other.qcow2")
    define(there, "kvm2", "other", disks=[path])
    assert "the domain other writes to it" in attach(url, path, readonly=True)
    free = image(tmp_path / "free.qcow2")
    define(
        there,
        "kvm2",
        "reader",
        f"<disk type='file' device='cdrom'><source file='{free}'/><target dev='hdc'"
        " bus='ide'/><readonly/></disk>",
    )
    assert attach(url, free, readonly=True) is None


def test_b5_the_names_of_a_file_are_one_and_a_copy_is_another(url, there, tmp_path):
    """A bind mount looks like this to a host: another path, with the same number in the same file
    system."""
    path, link, copy = (
        image(tmp_path / "other.qcow2"),
        str(tmp_path / "link.qcow2"),
        str(tmp_path / "copy.qcow2"),
    )
    os.link(path, link)
    shutil.copyfile(path, copy)
    define(there, "kvm2", "other", disks=[path])
    names = there.run("kvm1", "_file_users", {"paths": [link, copy]})["names"]
    files = [
        {"name": each["path"], "paths": [each["path"]], "inode": each["inode"], "shared_id": None}
        for each in names
    ]
    assert there.run("kvm2", "_file_users", {"files": files})["users"] == {
        link: "the domain other uses it"
    }


def test_b3_the_images_of_the_instance_itself_do_not_keep_its_files(url, there):
    """Its snapshot is in a folder that other hosts see too, and no instance there needs it."""
    path = path_of(there)
    run("instance_snapshot", None, store_url=url, name="web", snapshot="s1", state="present")
    assert (
        run("instance_snapshot", None, store_url=url, name="web", snapshot="s1", state="absent")[
            "changed"
        ]
        is True
    )
    assert os.path.exists(path) and delete(url)["removed_disks"] == [path]


def test_b3_a_broken_guest_of_another_host_keeps_no_files(url, there, tmp_path):
    path = path_of(there)
    define(there, "kvm2", "broken", disks=[str(tmp_path / "gone.qcow2")])
    assert delete(url)["removed_disks"] == [path]

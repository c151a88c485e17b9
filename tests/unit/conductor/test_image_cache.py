# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images are brought in steps that are shown, from the controller if the hypervisor cannot get
them, and cleaned only if all hosts are known."""

from __future__ import annotations

import hashlib
import os

import pytest
from ansible.errors import AnsibleActionFail

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._images import cache as _image_cache
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.image_cache import (
    CACHE,
    ImageCache,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.image_server import Server
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

CONTENT = os.urandom(1 << 20)
IMAGE = {"name": "debian-12", "checksum": f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"}


class Hand:
    """A hypervisor with given answers. It records its calls."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def act(self, module, args):
        self.asked.append((module, args))
        return certainty.judge(self.answers.pop(0))

    def foretell(self, module, args):
        self.asked.append((module, args))
        return self.answers.pop(0)


def cache(hand, check_mode=False, store=None):
    """Return the cache of kvm1, and the lines that it shows."""
    lines = []
    hosts = type(
        "Hosts", (), {"hand": lambda self, host: hand, "names": lambda self: ["kvm1", "kvm2"]}
    )()
    return (
        ImageCache(
            Ports(store, hosts, None, lines.append, None), "kvm1", "/srv/images", check_mode
        ),
        lines,
    )


def step(size=None, total=None, before=0, **more):
    done = {
        "done": size is None,
        "size": size,
        "total": total,
        "before": before,
        "image": "/srv/images/_base/x",
        "changed": True,
    }
    return {**done, **more}


WRONG = {"failed": True, "msg": "it is another one.", "other_content": True, "absent": False}
ABSENT = {
    "failed": True,
    "msg": "The source does not exist.",
    "absent": True,
    "unread": True,
    "other_content": False,
}


def test_the_progress_is_shown():
    hand = Hand(step(1 << 20, 4 << 20), step(2 << 20, None), step())
    found, lines = cache(hand)
    assert found.bring({**IMAGE, "source": "https://example.com/x"}) == (
        True,
        "/srv/images/_base/x",
    )
    assert lines == [
        "debian-12 -> kvm1: 25 % of 4 MiB",
        "debian-12 -> kvm1: 2 MiB",
        "debian-12: in the cache of kvm1",
    ]
    assert hand.asked[0][1]["url"] == "https://example.com/x"


@pytest.mark.parametrize("before", [0, 100])
def test_a_part_that_was_left_may_be_of_an_older_source(before):
    """An interrupted source is read once more; a source that is wrong from its first byte is
    not.
    """
    hand = Hand(step(1 << 20, before=before), WRONG, step(), step())
    of_host, image = cache(hand)[0], {**IMAGE, "source": "https://example.com/x"}
    if before:
        assert of_host.bring(image)[0] is True and len(hand.asked) == 3
    else:
        with pytest.raises(DroverError, match="Image debian-12 on kvm1: it is another one."):
            of_host.bring(image)
        assert len(hand.asked) == 2


def test_so_may_one_that_the_first_call_finds():
    hand = Hand(WRONG | {"before": 100}, step())
    assert cache(hand)[0].bring({**IMAGE, "source": "https://example.com/x"})[0] is True
    with pytest.raises(DroverError, match="it is another one"):
        cache(Hand(WRONG | {"before": 0}, step()))[0].bring(
            {**IMAGE, "source": "https://example.com/x"}
        )


def test_it_is_not_read_a_third_time():
    hand = Hand(step(1 << 20, before=100), WRONG, WRONG, step())
    with pytest.raises(DroverError, match="it is another one"):
        cache(hand)[0].bring({**IMAGE, "source": "https://example.com/x"})


def test_a_file_of_the_controller_is_copied_where_the_host_does_not_have_it(tmp_path):
    source = tmp_path / "debian.raw"
    source.write_bytes(CONTENT)
    hand = Hand(ABSENT, {"changed": True}, step())
    found, lines = cache(hand)
    assert found.bring({**IMAGE, "source": str(source)})[0] is True
    (dummy, asked), (copy, copied), (dummy, brought) = hand.asked
    assert asked["path"] == str(source) and (copy, copied["src"]) == (
        "ansible.builtin.copy",
        str(source),
    )
    assert (
        brought["path"] == copied["dest"]
        and brought["uploaded"] is True
        and copied["dest"].startswith("/srv/images/.drover-upload-")
    )
    assert _image_cache._UPLOAD.fullmatch(os.path.basename(copied["dest"])), (
        "a clean knows its name"
    )
    assert lines[0] == "debian-12: controller -> kvm1, 1 MiB"


def test_an_upload_that_went_on_from_a_wrong_part_says_what_was_wrong(tmp_path):
    source = tmp_path / "debian.raw"
    source.write_bytes(CONTENT)
    hand = Hand(ABSENT, {"changed": True}, WRONG | {"before": 100})
    with pytest.raises(DroverError, match="it is another one"):
        cache(hand)[0].bring({**IMAGE, "source": str(source)})


def test_in_check_mode_nothing_is_copied(tmp_path):
    source = tmp_path / "debian.raw"
    source.write_bytes(CONTENT)
    hand = Hand(ABSENT)
    assert cache(hand, check_mode=True)[0].bring({**IMAGE, "source": str(source)}) == (True, None)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({"name": "x", "source": "/x"}, "it has no checksum, so it cannot be brought to kvm1"),
        ({"name": "x", "checksum": "sha256:0"}, "it has no source"),
        (
            {"name": "x", "checksum": "sha256:0", "source": "x.qcow2"},
            "neither a URL nor an absolute path",
        ),
    ],
)
def test_an_image_that_says_too_little_is_refused(image, words):
    with pytest.raises(DroverError, match=words):
        cache(Hand())[0].bring(image)


def test_a_path_that_nobody_has_is_a_sentence(prepared_url):
    with pytest.raises(
        DroverError,
        match=(
            r"does not exist. The controller does not have it either. No other hypervisor that is"
            r" up has"
        ),
    ):
        cache(Hand(ABSENT), store=Store.open(prepared_url))[0].bring(
            {**IMAGE, "source": "/no/such/file"}
        )


# From another hypervisor

DIGITS = IMAGE["checksum"].partition(":")[2]
UNREAD = {
    "failed": True,
    "msg": "The image debian-12 cannot be read from https://example.com/x on kvm1: no route.",
    "unread": True,
}
TRUST = {
    "failed": True,
    "msg": "The image debian-12 cannot be copied from kvm2 to kvm1: no SSH connection.",
    "unread": True,
}
URL = {**IMAGE, "source": "https://example.com/x"}


@pytest.fixture
def holders(prepared_url):
    """Return the store of a fleet. kvm10 and kvm2 have instances that are backed by the image, each
    by another path."""

    def backed(name, path):
        chain = [{"path": path, "format": "raw", "real_path": path}]
        disk = {
            "device": "disk",
            "type": "file",
            "source": f"/x/{name}",
            "path": f"/x/{name}",
            "readonly": False,
            "chain": chain,
        }
        return domain(name, disks=[disk])

    assert _image_cache.CACHE == CACHE
    domains = {
        "kvm1": [],
        "kvm2": [backed("web", f"/srv/images/_base/{DIGITS}")],
        "kvm3": [backed("other", f"/srv/images/_base/{'0' * 64}")],
        "kvm10": [backed("db", f"/ssd/_base/{DIGITS}"), backed("mail", f"/ssd/_base/{DIGITS}")],
    }
    nodes = [
        host(name, *found, migration_uri=f"qemu+ssh://root@{name}/system")
        for name, found in domains.items()
    ]
    fleets.discover(prepared_url, *nodes)
    return Store.open(prepared_url)


def test_where_the_source_cannot_be_read_it_comes_from_another_host(holders):
    hand = Hand(UNREAD, step(1 << 20, 4 << 20), step())
    found, lines = cache(hand, store=holders)
    assert found.bring(URL) == (True, "/srv/images/_base/x")
    requests = [
        {key: given.get(key) for key in ("url", "peer", "path", "checksum")}
        for dummy, given in hand.asked
    ]
    of_kvm2 = {
        "url": None,
        "peer": "qemu+ssh://root@kvm2/system",
        "path": f"/srv/images/_base/{DIGITS}",
        "checksum": IMAGE["checksum"],
    }
    assert requests[0]["url"] == URL["source"] and requests[1:] == [of_kvm2, of_kvm2]
    assert lines[:2] == [
        "debian-12: kvm1 cannot read its source; kvm2 -> kvm1",
        "debian-12 -> kvm1: 25 % of 4 MiB",
    ]


def test_the_next_one_is_tried_and_all_reasons_are_told(holders):
    hand = Hand(UNREAD, TRUST, step())
    assert cache(hand, store=holders)[0].bring(URL)[0] is True
    assert [given.get("path") for dummy, given in hand.asked[1:]] == [
        f"/srv/images/_base/{DIGITS}",
        f"/ssd/_base/{DIGITS}",
    ]
    with pytest.raises(DroverError) as problem:
        cache(Hand(UNREAD, TRUST, TRUST), store=holders)[0].bring(URL)
    text = str(problem.value)
    assert (
        "cannot be read from https://example.com/x" in text and text.count("no SSH connection") == 2
    )
    assert text.endswith("let kvm1 reach the others with drover.compute.migration_trust.")


def test_what_goes_wrong_on_the_host_itself_ends_it(holders):
    hand = Hand(UNREAD, {"failed": True, "msg": "The image needs 4 GiB, and 1 GiB is free."})
    with pytest.raises(DroverError, match="1 GiB is free"):
        cache(hand, store=holders)[0].bring(URL)
    assert len(hand.asked) == 2


def test_another_content_of_the_first_leaves_the_next(holders):
    hand = Hand(UNREAD, WRONG, step())
    assert cache(hand, store=holders)[0].bring(URL)[0] is True and len(hand.asked) == 3


def test_a_path_that_only_another_host_has_is_copied_from_its_cache(holders):
    hand = Hand(ABSENT, step())
    assert (
        cache(hand, store=holders)[0].bring({**IMAGE, "source": "/only/elsewhere.raw"})[0] is True
    )
    assert hand.asked[1][1]["peer"] == "qemu+ssh://root@kvm2/system"


def test_a_host_that_is_down_is_not_asked(holders):
    with holders.write() as connection:
        connection.execute(
            sa.update(tables.services)
            .where(tables.services.c.host == "kvm2")
            .values(forced_down=True)
        )
    hand = Hand(UNREAD, step())
    cache(hand, store=holders)[0].bring(URL)
    assert hand.asked[1][1]["peer"] == "qemu+ssh://root@kvm10/system"


@pytest.mark.parametrize(
    "answer", [WRONG, {"failed": True, "msg": "The image needs 4 GiB, and 1 GiB is free."}]
)
def test_no_other_host_is_asked_where_the_source_was_read(holders, answer):
    """A wrong checksum is a mistake that a person must correct, and another source does not make
    room."""
    hand = Hand(answer)
    with pytest.raises(DroverError):
        cache(hand, store=holders)[0].bring(URL)
    assert len(hand.asked) == 1


def test_without_a_checksum_nothing_is_copied(holders):
    hand = Hand()
    with pytest.raises(DroverError, match="it has no checksum, so it cannot be brought to kvm1"):
        cache(hand, store=holders)[0].bring({**URL, "checksum": None})
    assert hand.asked == []


# With the shipped modules


@pytest.fixture
def fleet(prepared_url, tmp_path, monkeypatch):
    """Two hypervisors that see one folder."""
    from ansible_collections.drover.compute.tests.unit import hypervisors

    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    fake_fleet = hypervisors.Fleet(tmp_path / "hosts", monkeypatch)
    hypervisors.connect_actions(fake_fleet, monkeypatch)
    (tmp_path / "images").mkdir()
    yield prepared_url, tmp_path / "images"
    fake_fleet.close()


def task(url, folder, where="kvm1", **given):
    return run(
        "_image_cache", {"inventory_hostname": where}, store_url=url, folder=str(folder), **given
    )


def test_one_download_for_all_instances_of_a_host(fleet):
    url, folder = fleet
    server = Server()
    server.content = CONTENT
    wanted = {"images": [{**IMAGE, "source": server.url}] * 2}
    first = task(url, folder, **wanted)
    second = task(url, folder, **wanted)
    server.close()
    assert (first["changed"], second["changed"], server.asked) == (True, False, [0])
    assert first["paths"] == second["paths"] and os.path.getsize(
        first["paths"]["debian-12"]
    ) == len(CONTENT)


def cached(url, folder, tmp_path):
    source = tmp_path / "debian.raw"
    source.write_bytes(CONTENT)
    path = task(url, folder, images=[{**IMAGE, "source": str(source)}])["paths"]["debian-12"]
    os.utime(f"{path}.json", (0, 0))
    return path


def test_an_image_that_an_instance_of_another_host_needs_stays(fleet, tmp_path):
    url, folder = fleet
    path = cached(url, folder, tmp_path)
    behind = {"path": path, "format": "raw", "real_path": path}
    disk = {
        "device": "disk",
        "type": "file",
        "source": "/x/web.qcow2",
        "path": "/x/web.qcow2",
        "readonly": False,
        "chain": [behind],
    }
    fleets.discover(url, host("kvm2", domain("web", disks=[disk])))
    kept = task(url, folder, state="clean")
    assert (
        kept["changed"] is False and "a domain of another hypervisor uses it" in kept["lines"][0]
    ), kept
    fleets.discover(url, host("kvm2"))
    assert task(url, folder, state="clean", check=True)["lines"] == [
        f"kvm1: {path}: would be removed"
    ]
    assert task(url, folder, state="clean")["lines"] == [
        f"kvm1: {path}: removed"
    ] and not os.path.exists(path)
    assert task(url, folder, state="clean")["lines"] == ["kvm1: there is no image in the cache"]


def test_nothing_is_removed_while_a_host_was_never_read(fleet, tmp_path):
    url, folder = fleet
    path = cached(url, folder, tmp_path)
    with Store.open(url).write() as connection:
        connection.execute(
            sa.update(tables.services)
            .where(tables.services.c.host == "kvm2")
            .values(last_seen_up=None)
        )
    with pytest.raises(
        AnsibleActionFail,
        match="The cache of kvm1 is not cleaned: kvm2 was not read since the store was made",
    ):
        task(url, folder, state="clean")
    assert os.path.exists(path)

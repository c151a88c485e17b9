# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module ``_migration_trust``: the files that it writes into the home of an account, and the files
that it does not touch."""

from __future__ import annotations

import pytest

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._migration import trust

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample{}"


@pytest.fixture(name="home")
def a_home(tmp_path, monkeypatch):
    """The home of root, and a host key."""
    monkeypatch.setattr(trust, "account", lambda: ("root", str(tmp_path)))
    monkeypatch.setattr(trust, "read_host_keys", lambda: [KEY.format("h")])
    return tmp_path


def peer(name, number, **more):
    keys = [{"user": "root", "public_key": KEY.format(number)}]
    return {
        "host": name,
        "uri": f"qemu+ssh://root@{name}/system",
        "keys": keys,
        "host_keys": [KEY.format("h")],
        **more,
    }


def fleet(**more):
    return [peer("kvm1", 1, **more), peer("kvm2", 2), peer("kvm3", 3, sources=["10.0.0.3"])]


def files(home):
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in (home / ".ssh").glob("*")
        if not path.name.startswith("id_")
    }


def test_a_key_is_made_in_a_home_without_ssh(run_module, home):
    foretold = run_module("_migration_trust", state="key", host="kvm1", check_mode=True)
    assert foretold["changed"] and foretold["public_key"] == "" and not (home / ".ssh").exists()
    assert foretold["diff"][0]["after"] == "an SSH key that would be made\n"
    made = run_module("_migration_trust", state="key", host="kvm1")
    assert (
        made["changed"]
        and made["public_key"].startswith("ssh-ed25519 ")
        and made["host_keys"] == [KEY.format("h")]
    )
    assert (home / ".ssh").stat().st_mode & 0o777 == 0o700
    assert "PRIVATE" not in str(made)
    again = run_module("_migration_trust", state="key", host="kvm1")
    assert not again["changed"] and again["public_key"] == made["public_key"]


def test_lines_are_written_once(run_module, home):
    foretold = run_module(
        "_migration_trust", state="present", host="kvm1", peers=fleet(), check_mode=True
    )
    assert foretold["changed"] and not (home / ".ssh").exists()
    done = run_module("_migration_trust", state="present", host="kvm1", peers=fleet())
    assert (
        done["changed"] and done["marked"] == ["kvm2", "kvm3"] and done["diff"] == foretold["diff"]
    )
    assert files(home) == {
        "authorized_keys": (
            f"restrict {KEY.format(2)} {trust.mark('kvm2')}\n"
            f'restrict,from="10.0.0.3" {KEY.format(3)} {trust.mark("kvm3")}\n'
        ),
        "known_hosts": (
            f"kvm2 {KEY.format('h')} {trust.mark('kvm2')}\nkvm3 {KEY.format('h')}"
            f" {trust.mark('kvm3')}\n"
        ),
    }
    assert (home / ".ssh" / "authorized_keys").stat().st_mode & 0o777 == 0o600
    assert not run_module("_migration_trust", state="present", host="kvm1", peers=fleet())[
        "changed"
    ]


def test_a_link_and_a_mode_stay(run_module, home):
    """authorized_keys may be a link to a file that a cluster shares."""
    (home / ".ssh").mkdir()
    (home / "shared").write_text("# by hand\n")
    (home / "shared").chmod(0o640)
    (home / ".ssh" / "authorized_keys").symlink_to(home / "shared")
    run_module("_migration_trust", state="present", host="kvm1", peers=fleet())
    assert (home / ".ssh" / "authorized_keys").is_symlink() and (
        home / "shared"
    ).read_text().startswith("# by hand\nrestrict ")
    assert (home / "shared").stat().st_mode & 0o777 == 0o640


def test_only_the_account_of_the_uri_accepts_keys(run_module, home):
    """Several accounts connect, and one account accepts logins. The others accept none, and lines
    of an earlier URI are removed."""
    run_module("_migration_trust", state="present", host="kvm1", peers=fleet())
    run_module(
        "_migration_trust",
        state="present",
        host="kvm1",
        peers=fleet(uri="qemu+ssh://drover@kvm1/system"),
    )
    assert files(home)["authorized_keys"] == "" and files(home)["known_hosts"].count("\n") == 2
    # Without a user in the URI, each account logs in to its namesake.
    mixed = [
        *fleet(uri="qemu+ssh://kvm1/system")[:2],
        peer("kvm3", 3, keys=[{"user": "drover", "public_key": KEY.format(3)}]),
    ]
    run_module("_migration_trust", state="present", host="kvm1", peers=mixed)
    assert trust.marked_hosts(files(home)["authorized_keys"]) == {"kvm2"}


def test_a_key_that_would_be_made_is_foretold(run_module, home):
    new = [*fleet()[:2], peer("kvm3", 3, keys=[{"user": "root", "public_key": ""}])]
    foretold = run_module(
        "_migration_trust", state="present", host="kvm1", peers=new, check_mode=True
    )
    assert "(the key of root that would be made)" in foretold["diff"][0]["after"]
    assert (
        "kvm3 has no public key"
        in run_module("_migration_trust", state="present", host="kvm1", peers=new)["msg"]
    )
    assert not (home / ".ssh").exists()


def test_a_key_of_a_host_in_wrong_hands_is_refused(run_module, home):
    evil = [
        *fleet()[:2],
        peer("kvm3", 3, keys=[{"user": "root", "public_key": f"{KEY.format(3)}\n{KEY.format(4)}"}]),
    ]
    message = run_module("_migration_trust", state="present", host="kvm1", peers=evil)["msg"]
    assert (
        message.startswith("kvm1, account root: ")
        and "is no public SSH key" in message
        and not (home / ".ssh").exists()
    )


def test_lines_of_hosts_go_and_keys_stay(run_module, home):
    run_module("_migration_trust", state="key", host="kvm1")
    run_module("_migration_trust", state="present", host="kvm1", peers=fleet())
    done = run_module("_migration_trust", state="absent", host="kvm1", hosts=["kvm3", "kvm9"])
    assert done["marked"] == ["kvm2"] and done["removed"] == {"kvm3": 2}
    again = run_module("_migration_trust", state="absent", host="kvm1", hosts=["kvm3"])
    assert again["changed"] is False and again["removed"] == {}
    foretold = run_module("_migration_trust", state="absent", host="kvm1", check_mode=True)
    assert foretold["changed"] and foretold["removed"] == {"kvm2": 2} and files(home)["known_hosts"]
    assert run_module("_migration_trust", state="absent", host="kvm1")["marked"] == []
    assert (
        files(home) == {"authorized_keys": "", "known_hosts": ""}
        and (home / ".ssh" / "id_ed25519").exists()
    )


def test_connections(run_module, home):
    peers = [
        peer("kvm1", 1),
        {"host": "kvm2", "uri": "test:///default"},
        {"host": "kvm3", "uri": None},
    ]
    answer = run_module("_migration_trust", state="checked", host="kvm1", peers=peers)
    assert answer["sentences"] == [] and answer["tried"] == ["kvm2"] and answer["unreached"] == []
    peers.append({"host": "kvm4", "uri": "qemu+ssh://root@nowhere.invalid/system"})
    answer = run_module("_migration_trust", state="checked", host="kvm1", peers=peers)
    (said,) = answer["sentences"]
    assert answer["tried"] == ["kvm2", "kvm4"] and answer["unreached"] == ["kvm4"]
    assert said.startswith("kvm1 cannot reach kvm4: ")

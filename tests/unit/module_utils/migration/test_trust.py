# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of SSH's files: ours have a mark, and no others change; only keys are written."""

from __future__ import annotations

import os
import subprocess

import pytest

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._migration import reach, trust

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExamplea"
OTHER = ED25519[:-1] + "b"


@pytest.mark.parametrize(
    ("uri", "expected", "known"),
    [
        ("qemu+ssh://root@kvm1/system", ("root", "kvm1", None), "kvm1"),
        ("qemu+ssh://KVM1.Example.com/system", ("", "kvm1.example.com", None), "kvm1.example.com"),
        ("qemu+ssh://drover@kvm1:2222/system?no_verify=1", ("drover", "kvm1", 2222), "[kvm1]:2222"),
        ("qemu+ssh://root@kvm1:22/system", ("root", "kvm1", 22), "kvm1"),
        ("qemu+ssh://root@[2001:db8::1]/system", ("root", "2001:db8::1", None), "2001:db8::1"),
        (
            "qemu+ssh://root@[2001:db8::1]:2222/system",
            ("root", "2001:db8::1", 2222),
            "[2001:db8::1]:2222",
        ),
    ],
)
def test_what_a_uri_reaches(uri, expected, known):
    found = trust.destination(uri)
    assert found == expected and found.known_name == known


@pytest.mark.parametrize(
    "uri", ["qemu+tls://kvm1/system", "qemu+tcp://kvm1/system", "qemu:///system", "test:///default"]
)
def test_other_transports_need_no_ssh(uri):
    assert trust.destination(uri) is None


@pytest.mark.parametrize(
    ("uri", "word"),
    [
        ("qemu+ssh://root@kvm1/system?keyfile=/etc/key", "keyfile"),
        ("qemu+ssh://root@kvm1/system?known_hosts=", "known_hosts"),
        ("qemu+libssh2://root@kvm1/system", "libssh2"),
        ("qemu+ssh:///system", "no host"),
        ("qemu+ssh://root@kvm1:x/system", "cannot be read"),
        ("qemu+ssh://root@-oProxyCommand=x/system", "no host"),
        ("qemu+ssh://-oProxyCommand=x@kvm1/system", "no host"),
        ("qemu+ssh://root@kvm1,*/system", "no host"),
        ("qemu+ssh://root@*/system", "no host"),
        ("qemu+ssh://root@kvm1%0akvm2/system", "no host"),
    ],
)
def test_what_cannot_be_set_up_is_refused(uri, word):
    with pytest.raises(trust.TrustProblem, match=word):
        trust.destination(uri)


BY_HAND = f'# {trust.mark("kvm2")}\ncommand="x" {ED25519} admin@desk\n\n  {OTHER}'


def test_lines_come_and_go_and_others_stay():
    both = trust.updated(BY_HAND, {"kvm2": [f"restrict {ED25519}"], "kvm3": [OTHER]})
    assert (
        both
        == f"{BY_HAND}\nrestrict {ED25519} {trust.mark('kvm2')}\n{OTHER} {trust.mark('kvm3')}\n"
    )
    assert trust.marked_hosts(both) == {"kvm2", "kvm3"}
    assert trust.updated(both, {"kvm3": [OTHER], "kvm2": [f"restrict {ED25519}"]}) == both
    # A host without known facts keeps its lines.
    changed = trust.updated(both, {"kvm2": [OTHER]})
    assert changed == f"{BY_HAND}\n{OTHER} {trust.mark('kvm3')}\n{OTHER} {trust.mark('kvm2')}\n"
    assert trust.updated(both, {"kvm2": [], "kvm3": [], "kvm4": []}) == f"{BY_HAND}\n"
    assert trust.updated("", {"kvm2": []}) == ""


@pytest.mark.parametrize("name", ["kvm 2", "kvm2\nssh-ed25519 AAAA", "kvm#2", "ü", "a%20b", "x:y"])
def test_any_name_is_one_word_of_one_line(name):
    text = trust.updated("", {name: [OTHER]})
    assert text.count("\n") == 1 and len(text.split()) == 3 and trust.marked_hosts(text) == {name}
    assert trust.updated(text, {name: []}) == ""


def test_bytes_of_others_survive(tmp_path):
    path = tmp_path / "authorized_keys"
    path.write_bytes(b"ssh-rsa AAAA caf\xe9\x0b\r\nx")
    assert (
        trust.encoded(trust.updated(trust.read(str(path)), {}))
        == b"ssh-rsa AAAA caf\xe9\x0b\r\nx\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519",
        f"{ED25519} c\n{OTHER}",
        f'command="x" {ED25519}',
        "ssh-ed25519 AAAA",
        "ssh-dss " + "A" * 64,
        f"ssh-ed25519\t{ED25519[12:]}",
        f"*,kvm1 {ED25519}",
        "ssh-ed25519 " + "A" * 64 + "\x0b" + "A" * 10,
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ],
)
def test_what_a_host_reports_as_its_key_is_a_key(text):
    with pytest.raises(trust.TrustProblem, match="no public SSH key"):
        trust.checked_key(text)


def test_lines_of_keys():
    assert trust.authorized_lines([f"{ED25519} me@here\n", OTHER, ED25519], []) == [
        f"restrict {ED25519}",
        f"restrict {OTHER}",
    ]
    assert trust.authorized_lines([OTHER], ["10.0.0.1", "2001:db8::/64"]) == [
        f'restrict,from="10.0.0.1,2001:db8::/64" {OTHER}'
    ]
    assert trust.known_lines("[kvm2]:2222", [f"{OTHER} root@kvm2"]) == [f"[kvm2]:2222 {OTHER}"]
    for source in ('*"', '10.0.0.1" command="x', "!10.0.0.1", "*", "kvm1,kvm2"):
        with pytest.raises(trust.TrustProblem, match="no address"):
            trust.authorized_lines([OTHER], [source])


def test_a_key_is_made_once_and_never_replaced(tmp_path):
    folder = str(tmp_path)
    public, missing = trust.own_key(folder)
    assert public == "" and missing == f"{folder}/id_ed25519"
    made = trust.make_key(missing, "kvm 1")
    assert made.startswith("ssh-ed25519 ") and trust.own_key(folder) == (made, "")
    assert os.stat(missing).st_mode & 0o777 == 0o600
    assert (tmp_path / "id_ed25519.pub").read_text().strip() == f"{made} {trust.mark('kvm 1')}"
    # The public key comes from the private key, not from the file beside it.
    (tmp_path / "id_ed25519.pub").write_text("nonsense")
    before = (tmp_path / "id_ed25519").read_bytes()
    assert trust.own_key(folder) == (made, "")
    with pytest.raises(trust.TrustProblem, match="did not make"):
        trust.make_key(missing, "kvm1")
    assert (tmp_path / "id_ed25519").read_bytes() == before


def test_a_key_with_a_passphrase_is_of_no_use(tmp_path):
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "id_ed25519"],
        check=True,
    )
    with pytest.raises(
        trust.TrustProblem,
        match="cannot be used without a question: .*passphrase.* A migration cannot type",
    ):
        trust.own_key(str(tmp_path))
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", tmp_path / "id_ecdsa"], check=True
    )
    assert trust.own_key(str(tmp_path))[0].startswith("ecdsa-sha2-nistp256 ")


def test_host_keys(tmp_path):
    (tmp_path / "ssh_host_ed25519_key.pub").write_text(f"{ED25519} root@kvm1\n")
    (tmp_path / "ssh_host_dsa_key.pub").write_text("ssh-dss " + "A" * 64 + "\n")
    assert trust.read_host_keys(f"{tmp_path}/ssh_host_*_key.pub") == [ED25519]
    with pytest.raises(trust.TrustProblem, match="no host key"):
        trust.read_host_keys(f"{tmp_path}/nothing*")


def test_one_sentence_for_each_reason():
    sentences = trust.sentences(
        "kvm3", {"kvm1": "host key unknown", "kvm4": "no SSH key", "kvm2": "host key unknown"}
    )
    assert sentences == [
        "kvm3 cannot reach kvm1, kvm2: host key unknown.",
        "kvm3 cannot reach kvm4: no SSH key.",
    ]


# -- the check without a connection ---------------------------------------------------------------


@pytest.fixture(name="home")
def an_account_with_a_home_of_its_own(tmp_path, monkeypatch):
    """Return an account with only the files of this test for SSH; ssh itself takes the name of the
    home from the machine's list of accounts."""
    folder = tmp_path / ".ssh"
    folder.mkdir()
    monkeypatch.setattr(trust, "account", lambda: ("root", str(tmp_path)))
    settings = reach._settings

    def here(where):
        found = settings(where)
        return {
            **found,
            "userknownhostsfile": ["~/.ssh/known_hosts"],
            "globalknownhostsfile": [f"{folder}/global"],
            "identityfile": ["~/.ssh/id_ed25519"],
        }

    monkeypatch.setattr(reach, "_settings", here)
    return folder


PEERS = [
    {"host": "kvm2", "uri": "qemu+ssh://root@kvm2.example.com/system"},
    {"host": "kvm3", "uri": "qemu+ssh://root@10.0.0.3:2222/system"},
    {"host": "kvm4", "uri": "qemu+tls://kvm4/system"},
    {"host": "kvm5", "uri": "qemu+ssh://root@kvm5/system?keyfile=/x"},
]


def test_the_look_finds_what_is_missing(home):
    assert reach.look_at_all(PEERS) == {"kvm2": reach.NO_KEY, "kvm3": reach.NO_KEY}
    trust.make_key(str(home / "id_ed25519"), "kvm1")
    assert reach.look_at_all(PEERS) == {
        "kvm2": reach.UNKNOWN_HOST_KEY,
        "kvm3": reach.UNKNOWN_HOST_KEY,
    }
    (home / "known_hosts").write_text(f"kvm2.example.com {ED25519}\n")
    assert reach.look_at_all(PEERS) == {"kvm3": reach.UNKNOWN_HOST_KEY}
    # The port belongs to the name, and names may be hashed, as Debian does.
    (home / "global").write_text(f"10.0.0.3 {ED25519}\n")
    assert reach.look_at_all(PEERS) == {"kvm3": reach.UNKNOWN_HOST_KEY}
    (home / "global").write_text(f"[10.0.0.3]:2222 {ED25519}\n")
    subprocess.run(
        ["ssh-keygen", "-q", "-H", "-f", home / "global"], check=True, capture_output=True
    )
    assert "10.0.0.3" not in (home / "global").read_text()
    assert reach.look_at_all(PEERS) == {}


@pytest.mark.parametrize(
    "settings",
    [
        {"stricthostkeychecking": ["no"]},
        {"stricthostkeychecking": ["accept-new"]},
        {"verifyhostkeydns": ["yes"]},
        {"knownhostscommand": ["/usr/bin/x"]},
        {"userknownhostsfile": ["/x/%h"]},
    ],
)
def test_a_host_key_that_ssh_may_get_elsewhere_is_not_said_to_be_missing(settings):
    assert reach._knows({"hostname": ["kvm2"], "port": ["22"], **settings})
    assert not reach._knows(
        {
            "hostname": ["kvm2"],
            "port": ["22"],
            "stricthostkeychecking": ["ask"],
            "userknownhostsfile": ["none"],
        }
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"hostbasedauthentication": ["yes"]},
        {"pkcs11provider": ["/usr/lib/x.so"]},
        {"identityagent": ["/run/agent"]},
        {"identityfile": ["/etc/keys/%u"]},
    ],
)
def test_a_login_without_a_key_file_is_not_said_to_be_impossible(settings):
    assert reach._has_key({"pkcs11provider": ["none"], **settings})
    assert not reach._has_key({"identityfile": ["/nowhere/id"], "pkcs11provider": ["none"]})


def test_gssapi_counts_with_a_keytab(tmp_path, monkeypatch):
    monkeypatch.setattr(reach, "KEYTAB", str(tmp_path / "krb5.keytab"))
    assert not reach._has_key({"gssapiauthentication": ["yes"]})
    (tmp_path / "krb5.keytab").touch()
    assert reach._has_key({"gssapiauthentication": ["yes"]})


# libvirt 9.0's form of the last line of OpenSSH 9.2.
SAID = (
    "No SSH connection from kvm1 to libvirt at qemu+ssh://root@kvm2/system: Cannot recv data: {}:"
    " Connection reset by peer. Check with: virsh."
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (SAID.format("Host key verification failed."), reach.HOST_KEY),
        (SAID.format("root@kvm2: Permission denied (publickey)."), "its SSH refuses the key of "),
        (
            "libvirt at qemu+ssh://root@kvm2/system did not answer within 30 s.",
            "did not answer within 30 s",
        ),
        # A refusal of libvirt itself is not a refusal of SSH.
        (
            (
                "libvirt refused: Failed to connect socket to '/run/libvirt/libvirt-sock':"
                " Permission denied."
            ),
            "libvirt-sock",
        ),
    ],
)
def test_reasons_of_connections(message, expected):
    assert expected in reach.reason(message)


def test_a_connection_is_really_made():
    failures = reach.connect_all(
        [
            {"host": "a", "uri": "test:///default"},
            {"host": "b", "uri": "qemu+ssh://root@nowhere.invalid/system"},
        ]
    )
    assert list(failures) == ["b"] and "nowhere.invalid" in failures["b"]

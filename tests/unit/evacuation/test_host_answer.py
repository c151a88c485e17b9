# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The meaning of SSH's messages: an answer, silence, or unclear. TCP's evidence counts too."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies

from ansible_collections.drover.compute.plugins.plugin_utils._evacuation import host_answer
from ansible_collections.drover.compute.plugins.plugin_utils._evacuation.host_answer import (
    LOGIN,
    REFUSED,
    SILENT,
    UNCLEAR,
)

#: Messages of OpenSSH 9.2 as this project got them, from a host without a proxy.
DIRECT = {
    "ssh: connect to host kvm1 port 22: Connection refused": REFUSED,
    "ssh: connect to host kvm1 port 22: Connection reset by peer": REFUSED,
    "Connection timed out during banner exchange": REFUSED,
    "Connection timed out during banner exchange\r\nConnection to 192.0.2.1 port 22 timed out": REFUSED,
    "kex_exchange_identification: read: Connection reset by peer": REFUSED,
    "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 192.0.2.1 port 22": REFUSED,
    "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 192.0.2.1 port 22": REFUSED,
    "kex_exchange_identification: banner line contains invalid characters": REFUSED,
    "Connection closed by 192.0.2.1 port 22": REFUSED,
    "Connection reset by 192.0.2.1 port 22": REFUSED,
    "root@kvm1: Permission denied (publickey,password,keyboard-interactive).": REFUSED,
    "Received disconnect from 192.0.2.1 port 22:2: Too many authentication failures\nDisconnected from 192.0.2.1 port 22": REFUSED,
    "Unable to negotiate with 192.0.2.1 port 22: no matching host key type found. Their offer: ssh-rsa": REFUSED,
    "Unable to negotiate with 192.0.2.1 port 22: no matching key exchange method found. Their offer: curve25519-sha256": REFUSED,
    "No ED25519 host key is known for [192.0.2.1]:22 and you have requested strict checking.\nHost key verification failed.": REFUSED,
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.": REFUSED,
    "ssh: connect to host kvm1 port 22: Connection timed out": SILENT,
    "ssh: connect to host kvm1 port 22: Operation timed out": SILENT,
    "ssh: connect to host kvm1 port 22: No route to host": SILENT,
    "ssh: connect to host kvm1 port 22: Network is unreachable": SILENT,
    "Timeout, server 192.0.2.1 not responding.": SILENT,
    # No request was sent.
    "ssh: Could not resolve hostname kvm1: Name or service not known": UNCLEAR,
    "ssh: Could not resolve hostname kvm1: Temporary failure in name resolution": UNCLEAR,
    "Bad owner or permissions on /root/.ssh/config": UNCLEAR,
    "command-line: line 0: Bad configuration option: prxyjump": UNCLEAR,
    "mux_client_request_session: read from master failed: Broken pipe": UNCLEAR,
    "": UNCLEAR,
}
#: The connection goes through another host or a program. Messages of OpenSSH as this project got
#: them; messages of nc, ncat and socat as published.
PROXIED = {
    "channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\n"
    "Connection closed by UNKNOWN port 65535": REFUSED,
    "channel 0: open failed: connect failed: No route to host\r\nstdio forwarding failed\r\n"
    "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535": SILENT,
    "channel 0: open failed: connect failed: Connection timed out\r\nstdio forwarding failed\r\n"
    "Connection closed by UNKNOWN port 65535": SILENT,
    "channel 0: open failed: connect failed: Name or service not known\r\nstdio forwarding failed": UNCLEAR,
    "channel 0: open failed: administratively prohibited: open failed\r\nstdio forwarding failed": UNCLEAR,
    # Messages of ssh that do not name the reason of the failure.
    "stdio forwarding failed\r\nkex_exchange_identification: Connection closed by remote host": UNCLEAR,
    # The proxy did not answer, refused the login, or ended.
    "ssh: connect to host jump port 22: Connection timed out\r\nConnection closed by UNKNOWN port 65535": UNCLEAR,
    "ssh: connect to host jump port 22: Connection refused\r\nkex_exchange_identification: Connection closed by remote host\r\n"
    "Connection closed by UNKNOWN port 65535": UNCLEAR,
    "root@jump: Permission denied (publickey).\r\nConnection closed by UNKNOWN port 65535": UNCLEAR,
    "Connection closed by 192.0.2.9 port 22\r\nConnection closed by UNKNOWN port 65535": UNCLEAR,
    # ssh waits for a host that may be dead, or that accepted the connection and is silent.
    "Connection timed out during banner exchange\r\nConnection to UNKNOWN port 65535 timed out": UNCLEAR,
    "Received disconnect from UNKNOWN port 65535:2: Too many authentication failures": REFUSED,
    "mm_receive_fd: recvmsg: expected received 1 got 0\r\nproxy dialer did not pass back a connection": SILENT,
    "kvm1: Connection refused\r\nmm_receive_fd: recvmsg: expected received 1 got 0\r\nproxy dialer did not pass back a connection": REFUSED,
}
PROGRAMS = {
    "ssh: connect to host jump port 22: Connection refused\r\nkex_exchange_identification: Connection closed by remote host": UNCLEAR,
    "ssh: connect to host jump port 22: Connection timed out\r\nkex_exchange_identification: Connection closed by remote host": UNCLEAR,
    "kex_exchange_identification: Connection closed by remote host": UNCLEAR,
    "nc: connect to kvm1 port 22 (tcp) failed: Connection timed out\r\nkex_exchange_identification: Connection closed by remote host": SILENT,
    "nc: connect to kvm1 port 22 (tcp) failed: Connection refused\r\nkex_exchange_identification: Connection closed by remote host": REFUSED,
    "Ncat: TIMEOUT.\r\nkex_exchange_identification: Connection closed by remote host": SILENT,
    "Ncat: No route to host.\r\nkex_exchange_identification: Connection closed by remote host": SILENT,
    "socat[7] E connect(5, AF=2 192.0.2.1:22, 16): No route to host\r\nConnection closed by UNKNOWN port 65535": SILENT,
}
EVERY = {**DIRECT, **PROXIED, **PROGRAMS}
#: The messages inside the text of Ansible.
WRAPPED = [
    "Failed to connect to the host via ssh: {}",
    "Task failed: Failed to connect to the host via ssh: {}\r\n",
    'Data could not be sent to remote host "kvm1". Make sure this host can be reached over ssh: {}',
    "Failed to connect to the host via ssh: OpenSSH_9.2p1 Debian-2\r\ndebug1: connect to address ::1 port 22: Connection refused\r\n"
    "debug1: Connection closed by 192.0.2.3 port 22\r\n{}",
]


def unreachable(words):
    return {"unreachable": True, "changed": False, "msg": words}


def answer(result, tcp=None):
    return host_answer.judge(host_answer.read(result), tcp)


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("words", EVERY)
def test_safety_14_what_words_mean(words, wrapped):
    assert answer(unreachable(wrapped.format(words))) == EVERY[words]


@pytest.mark.parametrize("words", DIRECT)
def test_safety_14_an_answer_over_tcp_is_an_answer_whatever_ssh_says(words):
    assert answer(unreachable(words), tcp=True) == REFUSED
    # Silence of TCP does not count unless SSH reports silence too.
    assert answer(unreachable(words), tcp=False) == DIRECT[words]


@pytest.mark.parametrize("words", PROXIED)
def test_over_a_proxy_the_words_count_alone(words):
    """Seen from here, the address may belong to another machine."""
    said = host_answer.read(unreachable(words))
    assert said.settled and {host_answer.judge(said, tcp) for tcp in (True, False, None)} == {
        PROXIED[words]
    }


@given(strategies.text(), strategies.sampled_from([True, False, None]))
def test_words_that_nobody_knows_are_no_silence(words, tcp):
    known = ("timed out", "route", "unreachable", "down", "respond", "errno", "timeout", "dialer")
    if not any(each in words.lower() for each in known):
        assert answer(unreachable(words), tcp) != SILENT


@given(strategies.sampled_from(sorted(EVERY)), strategies.text())
def test_what_stands_around_them_makes_no_silence_of_an_answer(words, noise):
    """A host may write any text into its banner; no text makes it less alive. Only text before the
    silence counts."""
    if EVERY[words] == REFUSED and not any(
        each in noise for each in ("channel", "nc", "cat", "dialer", "UNKNOWN", "stdio", "kex")
    ):
        assert answer(unreachable(f"{words}\n{noise}")) == REFUSED


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": "YQ==", "changed": False}, (LOGIN, LOGIN, LOGIN)),
        # The module ran there, and failed.
        (
            {"failed": True, "msg": "file not found", "invocation": {"module_args": {}}},
            (LOGIN, LOGIN, LOGIN),
        ),
        (
            {"failed": True, "msg": "MODULE FAILURE", "module_stdout": "", "rc": 127},
            (LOGIN, LOGIN, LOGIN),
        ),
        # No request reached the host.
        (
            {"failed": True, "msg": "you must install the sshpass program"},
            (REFUSED, UNCLEAR, UNCLEAR),
        ),
        ({"failed": True, "msg": ""}, (REFUSED, UNCLEAR, UNCLEAR)),
        # The time limit of the task passed: the host is dead, or it hangs. The texts of
        # ansible-core 2.17 and 2.19.
        (
            {
                "failed": True,
                "msg": "The slurp action failed to execute in the expected time frame (30) and was terminated",
            },
            (REFUSED, SILENT, UNCLEAR),
        ),
        (
            {"failed": True, "msg": "Task failed: Timed out after 30 second(s)."},
            (REFUSED, SILENT, UNCLEAR),
        ),
        ({"failed": True, "msg": "", "timedout": {"frame": 30}}, (REFUSED, SILENT, UNCLEAR)),
    ],
)
def test_tasks_that_end_otherwise(result, expected):
    assert tuple(answer(result, tcp) for tcp in (True, False, None)) == expected


def test_every_answer_is_one_of_four():
    for words, tcp in itertools.product(EVERY, (True, False, None)):
        assert answer(unreachable(words), tcp) in (LOGIN, REFUSED, SILENT, UNCLEAR)


@pytest.mark.parametrize("tcp", [True, False, None])
def test_b2_the_answer_of_another_machine_says_nothing_of_the_host(tcp):
    reply = host_answer.read(
        {"failed": True, "not_this_host": True, "msg": "this is not kvm1", "invocation": {}}
    )
    assert host_answer.judge(reply, tcp) == host_answer.UNCLEAR and reply.settled

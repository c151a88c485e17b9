# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everyday questions: the list of instances, the host of one and the way to reach it; hosts that
are disabled and enabled."""

from __future__ import annotations

import datetime
import re

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.times import with_iso
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._report.instance import console
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import failure, playbook, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, domain, host, uuid_of

ADDRESSES = ["192.0.2.7", "2001:db8::7"]


@pytest.fixture
def url(prepared_url):
    web = domain(
        "web",
        interfaces=[{"addresses": ADDRESSES[:1]}, {"addresses": ADDRESSES[1:]}],
        project="shop",
    )
    fleets.discover(
        prepared_url,
        host("kvm1", web, domain("off", state="shutoff"), uri="qemu:///system"),
        host("kvm2", domain("db")),
    )
    return prepared_url


def moved(url, name, *ways):
    values = [
        {
            "uuid": uuid_of(f"{name}{number}"),
            "instance_uuid": uuid_of(name),
            "instance_name": name,
            "source": source,
            "destination": to,
            "type": "live-migration",
            "status": "completed",
            "created_at": NOW + number,
            "updated_at": NOW + number + 12,
        }
        for number, (source, to) in enumerate(ways)
    ]
    with Store.open(url).write() as connection:
        connection.execute(sa.insert(tables.migrations), values)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, ["db", "off", "web"]),
        ({"host": "kvm1"}, ["off", "web"]),
        ({"state": "shutoff"}, ["off"]),
        ({"host": "kvm2", "state": "shutoff"}, []),
    ],
)
def test_which_instances(url, wanted, names):
    found = run("instance_info", store_url=url, **wanted)
    assert [each["name"] for each in found["instances"]] == names
    assert [line.split()[0] for line in found["table"]] == (
        ["INSTANCE", *names] if names else ["No"]
    )


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("kvm9", "Host kvm9 is not in the store. Known hosts: kvm1, kvm2."),
        ("KVM1", "Host KVM1 is not in the store (did you mean kvm1?)."),
        ("kmv2", "Host kmv2 is not in the store (did you mean kvm2?)."),
        ("kvm1,kvm2", "kvm1,kvm2 names 2 hosts, and one host is wanted here."),
        (["kvm1", "kvm2"], "['kvm1', 'kvm2'] names 2 hosts, and one host is wanted here."),
        (5, "Host 5 is not in the store."),
        (True, "Host True is not in the store."),
    ],
)
def test_an_unknown_host_is_refused_as_for_hosts(url, wanted, sentence):
    said = failure("instance_info", host=wanted, store_url=url)
    assert sentence in said and said == failure("host_info", host=wanted, store_url=url)


@pytest.mark.long
def test_the_playbook_refuses_an_unknown_host(url, tmp_path):
    code, output = playbook("instances", url, folder=tmp_path, variables={"drover_host": "kvm9"})
    assert (
        code == 2
        and "Host kvm9 is not in the store." in " ".join(output.split())
        and "No instances." not in output
    ), output


def test_a_store_without_hosts(prepared_url):
    (line,) = run("host_info", store_url=prepared_url)["table"]
    assert line.startswith("The store has no hosts yet.")
    assert run("instance_info", store_url=prepared_url)["table"] == [line]
    assert run("instance_info", selector="tier=db", store_url=prepared_url)["table"] == [line]


def test_a_host_without_instances(url):
    fleets.discover(url, host("kvm3"))
    assert run("instance_info", host="kvm3", store_url=url)["table"] == ["No instances."]


def test_a_state_that_does_not_exist_is_refused(url):
    assert "value of state must be one of" in failure(
        "instance_info", state="runing", store_url=url
    )


def test_addresses(url):
    by_name = {
        each["name"]: each["addresses"] for each in run("instance_info", store_url=url)["instances"]
    }
    assert by_name == {"web": ADDRESSES, "off": [], "db": []}
    assert run("instance_info", host="kvm1", store_url=url)["table"][2].endswith(
        "192.0.2.7, 2001:db8::7"
    )


def test_where_an_instance_is(url):
    moved(url, "web", *[("kvm1", "kvm2"), ("kvm2", "kvm1")] * 3)
    variables = {"hostvars": {"kvm1": {"ansible_user": "root", "ansible_host": "198.51.100.1"}}}
    answer = run("instance_info", variables, instances=["web"], store_url=url)
    (instance,) = answer["instances"]
    # The newest five events.
    assert [each["created_at"] for each in instance["migrations"]] == [
        NOW + number for number in (5, 4, 3, 2, 1)
    ]
    text = "\n".join(answer["lines"])
    assert text.startswith(f"web ({uuid_of('web')})\n")
    assert re.search(r"^  state +running on kvm1 \(seen ", text, re.MULTILINE), text
    assert re.search(r"^  addresses +192\.0\.2\.7, 2001:db8::7$", text, re.MULTILINE), text
    assert "ssh -t root@198.51.100.1 'virsh -c qemu:///system console web'" in text
    assert re.search(
        r"^  \d{4}-\S+ \S+ UTC  live-migration  kvm2 -> kvm1  completed  12 s", text, re.MULTILINE
    ), text


def test_one_that_is_not_in_the_store(url):
    assert "No instance nobody is in the store" in failure(
        "instance_info", instances=["nobody"], store_url=url
    )


@pytest.mark.parametrize(
    ("name", "variables", "command"),
    [
        ("web1", {}, "ssh -t kvm1 'virsh -c qemu:///system console web1'"),
        (
            "web1",
            {"ansible_port": 2222, "ansible_user": "ops"},
            "ssh -t -p 2222 ops@kvm1 'virsh -c qemu:///system console web1'",
        ),
        # virsh reads a number as an id, and a shell reads special characters.
        ("7", {}, "ssh -t kvm1 'virsh -c qemu:///system console the-uuid'"),
        ("a; reboot", {}, "ssh -t kvm1 'virsh -c qemu:///system console the-uuid'"),
    ],
)
def test_console(name, variables, command):
    assert (
        console(
            {"name": name, "uuid": "the-uuid", "host": "kvm1", "uri": "qemu:///system"}, variables
        )
        == command
    )
    assert console({"name": name, "uuid": "the-uuid", "host": None, "uri": None}, variables) is None


def test_times_have_a_text_beside_them():
    row = {
        "created_at": 0,
        "ended_at": None,
        "hosts": [{"last_seen_up": 1795337314.238, "name": "kvm1"}],
        "format": 1,
        "at": 2,
        "is_at": True,
    }
    assert with_iso(row) == {
        "created_at": 0,
        "created_at_iso": "1970-01-01T00:00:00Z",
        "ended_at": None,
        "ended_at_iso": None,
        "hosts": [
            {
                "last_seen_up": 1795337314.238,
                "last_seen_up_iso": "2026-11-22T08:48:34Z",
                "name": "kvm1",
            }
        ],
        "format": 1,
        "at": 2,
        "is_at": True,
    }


def test_times_of_modules(url):
    seen, _other = run("host_info", store_url=url)["hosts"]
    assert datetime.datetime.fromisoformat(
        seen["last_seen_up_iso"].replace("Z", "+00:00")
    ).timestamp() == int(seen["last_seen_up"])
    event = run("_power_event", host="kvm1", action="reboot", driver="ssh", store_url=url)["event"]
    assert {"created_at_iso", "updated_at_iso"} <= set(event)


@pytest.mark.long
def test_the_playbooks(url, tmp_path):
    code, output = playbook(
        "instances",
        url,
        folder=tmp_path,
        variables={"drover_host": "kvm1", "drover_instance_state": "running"},
    )
    assert (
        code == 0
        and re.search(r"^web +running +kvm1 ", output, re.MULTILINE)
        and "\noff " not in output
    ), output
    code, output = playbook(
        "instance_show", url, folder=tmp_path, variables={"drover_instance": "db"}
    )
    assert code == 0 and re.search(r"^  state +running on kvm2 ", output, re.MULTILINE), output
    code, output = playbook("instance_show", url, folder=tmp_path)
    assert code != 0 and "Which instances? Set drover_instance" in " ".join(output.split()), output


def state(url):
    return {
        each["host"]: (each["status"], each["disabled_reason"])
        for each in run("host_info", store_url=url)["hosts"]
    }


@pytest.mark.long
def test_a_host_is_disabled_and_enabled(url, tmp_path):
    def play(name, *options, **variables):
        return playbook(
            name, url, *options, folder=tmp_path, variables={"drover_host": "kvm1", **variables}
        )

    code, output = play("host_disable", "--check", drover_reason="bad fan")
    assert (
        code == 0
        and "changed=1" in output
        and "kvm1 would be disabled" in output
        and state(url)["kvm1"] == ("enabled", None)
    ), output
    code, output = play("host_disable", drover_reason="bad fan")
    assert (
        code == 0
        and "kvm1 is disabled (bad fan): it gets no new" in output
        and state(url)["kvm1"] == ("disabled", "bad fan")
    ), output
    code, output = play("host_disable")
    assert code == 0 and "changed=0" in output, output
    code, output = play("host_enable")
    assert (
        code == 0
        and "kvm1 is enabled: it gets new instances." in output
        and state(url)["kvm1"] == ("enabled", None)
    ), output
    code, output = playbook("host_enable", url, folder=tmp_path)
    assert code != 0 and "Which host? Name one host" in output, output


@pytest.mark.long
def test_what_a_drain_did_is_not_undone(url, tmp_path):
    """The drain records the instances that it shut down, and maintenance is more than disabled."""
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm1", "draining", "new kernel")
    for name in ("host_disable", "host_enable"):
        code, output = playbook(name, url, folder=tmp_path, variables={"drover_host": "kvm1"})
        assert code == 2 and "drover.compute.undrain" in output, output
    assert run("host_info", host="kvm1", store_url=url)["hosts"][0]["drained"]
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm2", "maintenance", "new kernel")
    code, output = playbook("host_disable", url, folder=tmp_path, variables={"drover_host": "kvm2"})
    assert code == 2 and "kvm2 is in maintenance, so it is disabled already" in " ".join(
        output.split()
    ), output

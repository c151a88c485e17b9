# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``domain_power`` on libvirt's test driver."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import power  # noqa: E402
from ansible_collections.drover.compute.plugins.module_utils._domain import reboot as _reboot
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012d}"


@pytest.fixture
def host(fake_host, domain_xml):
    """A host with two domains that run."""
    return fake_host(domain_xml("one", 1), domain_xml("two", 2))


def states(connection):
    return {domain.name(): bool(domain.isActive()) for domain in connection.listAllDomains(0)}


def test_several_at_once(run_module, host):
    uri, connection = host
    arguments = {"uri": uri, "domains": [{"uuid": uuid(1), "name": "one"}, {"uuid": uuid(2)}]}
    dry_run = run_module(
        "domain_power", check_mode=True, diff_mode=True, state="stopped", **arguments
    )
    assert dry_run["changed"] is True and states(connection) == {"one": True, "two": True}
    done = run_module("domain_power", diff_mode=True, state="stopped", **arguments)
    assert (
        dry_run["diff"]
        == done["diff"]
        == {
            "before": "one: running\ntwo: running\n",
            "after": "one: shutoff\ntwo: shutoff\n",
        }
    )
    assert [
        (each["name"], each["changed"], each["domain"]["state"]) for each in done["domains"]
    ] == [
        ("one", True, "shutoff"),
        ("two", True, "shutoff"),
    ]
    assert run_module("domain_power", state="stopped", **arguments)["changed"] is False
    assert run_module("domain_power", state="running", **arguments)["changed"] is True
    assert states(connection) == {"one": True, "two": True}
    assert run_module("domain_power", state="running", **arguments)["changed"] is False


@pytest.mark.parametrize("check_mode", [False, True])
def test_safety_a_domain_that_libvirt_would_forget_is_not_shut_down(
    run_module, fake_host, domain_xml, check_mode
):
    """The domain is transient: a person made it with virsh create, or undefined it while it ran."""
    uri, connection = fake_host(domain_xml("one", 1))
    connection.createXML(domain_xml("two", 2), 0)
    arguments = {
        "uri": uri,
        "domains": [{"uuid": uuid(1)}, {"uuid": uuid(2)}],
        "check_mode": check_mode,
    }
    domains = run_module("domain_power", state="stopped", force=True, **arguments)["domains"]
    assert [(each["status"], each["changed"]) for each in domains] == [
        ("done", True),
        ("failed", False),
    ]
    assert (
        "is transient: libvirt forgets it once it is off, so it was not shut down"
        in domains[1]["message"]
    )
    assert states(connection)["two"] is True
    alone = {"uri": uri, "uuid": uuid(2), "check_mode": check_mode}
    refused = run_module("domain", state="stopped", **alone)
    assert (refused["rc"], refused["begun"]) == (1, False) and "virsh define two.xml" in refused[
        "msg"
    ]
    # A removal of the transient domain is allowed.
    assert run_module("domain", state="absent", force=True, timeout=0, **alone)["changed"] is True
    assert ("two" in states(connection)) is check_mode


def test_one_that_fails_stops_no_other(run_module, host):
    uri, connection = host
    domains = [{"uuid": uuid(1), "name": "wrong"}, {"uuid": uuid(2)}, {"uuid": uuid(9)}]
    result = run_module("domain_power", uri=uri, state="stopped", domains=domains)
    assert [each["status"] for each in result["domains"]] == ["failed", "done", "absent"]
    assert "is named 'one'" in result["domains"][0]["message"]
    assert states(connection) == {"one": True, "two": False}


def test_a_hard_reboot_starts_again_whatever_it_was(run_module, host):
    uri, connection = host
    connection.lookupByName("two").destroy()
    before = connection.lookupByName("one").ID()
    arguments = {
        "uri": uri,
        "domains": [{"uuid": uuid(1)}, {"uuid": uuid(2)}],
        "state": "rebooted",
        "hard": True,
    }
    told = run_module("domain_power", check_mode=True, **arguments)
    assert told["changed"] is True and connection.lookupByName("one").ID() == before
    assert run_module("domain_power", **arguments)["changed"] is True
    assert (
        states(connection) == {"one": True, "two": True}
        and connection.lookupByName("one").ID() != before
    )


def test_a_soft_reboot_wants_it_to_run(run_module, host):
    uri, connection = host
    connection.lookupByName("two").destroy()
    result = run_module(
        "domain_power", uri=uri, domains=[{"uuid": uuid(2)}], state="rebooted", timeout=1
    )
    assert result["domains"][0]["status"] == "failed"
    assert "start it, or reboot it hard" in result["domains"][0]["message"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"timeout": -1}, "timeout is -1"),
        ({"at_once": 0}, "at_once"),
        ({"domains": [{"uuid": "x"}]}, "not the uuid"),
    ],
)
def test_bad_arguments_are_told_in_words(run_module, more, words):
    given = {"uri": "test:///default", "state": "running", "domains": [{"uuid": uuid(1)}], **more}
    result = run_module("domain_power", **given)
    assert result["rc"] == 1 and words in result["msg"]


class Forgetful:
    """A connection and a domain of it. The soft reboot of the domain fails: the guest is off
    afterwards.

    :param tells: True if libvirt still reports the reset.
    :param dies: number of times that the domain goes off again after a start.
    """

    def __init__(self, tells, dies):
        self.tells, self.dies, self.created, self.looks, self.on = tells, dies, 0, 0, True

    def name(self):
        return "one"

    def isActive(self):
        return self.on

    def info(self):
        self.looks += 1
        # It runs at one more look, and then it is off.
        if self.tells and self.looks == 3:
            self.on = False
        if self.created and self.dies >= self.created:
            self.on = False
        return [libvirt.VIR_DOMAIN_RUNNING if self.on else libvirt.VIR_DOMAIN_SHUTOFF]

    def XMLDesc(self, flags):
        return "<domain><on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot></domain>"

    def isPersistent(self):
        return True

    def domainEventRegisterAny(self, domain, event, call, opaque):
        self.call = call
        return 1

    def domainEventDeregisterAny(self, number):
        return None

    def reboot(self, flags):
        if self.tells:
            self.call()
        else:
            self.on = False

    def hasManagedSaveImage(self, flags):
        return False

    def createWithFlags(self, flags):
        self.created += 1
        self.on = True


@pytest.mark.parametrize("tells", [True, False])
def test_a_guest_that_goes_off_in_a_reboot_is_started(tells):
    domain = Forgetful(tells, dies=0)
    _reboot.reboot(domain, domain, 5, False)
    assert domain.created == 1 and domain.on


def test_a_guest_that_does_not_come_up_after_a_reboot_is_told():
    domain = Forgetful(True, dies=9)
    with pytest.raises(binding.LibvirtProblem, match="is shutoff rather than running"):
        _reboot.reboot(domain, domain, 5, False)
    assert domain.created == 1


class Opposite(Forgetful):
    """A domain that restarts at a shutdown and ends at a reboot."""

    def XMLDesc(self, flags):
        return "<domain><on_poweroff>restart</on_poweroff><on_reboot>destroy</on_reboot></domain>"

    def shutdown(self):
        pytest.fail("it was asked to shut down, and libvirt would start it again")

    def reboot(self, flags):
        pytest.fail("it was asked to reboot, and libvirt would leave it off")

    def destroy(self):
        self.on = False


def test_f04_brothers_no_domain_is_asked_for_the_opposite():
    domain = Opposite(False, 0)
    for force in (False, True):
        with pytest.raises(
            power.LibvirtProblem, match="has on_poweroff restart: libvirt starts it again"
        ):
            power.stop(domain, 5, force)
    with pytest.raises(
        power.LibvirtProblem, match="has on_reboot destroy: libvirt does not start it again"
    ):
        _reboot.reboot(None, domain, 5, False)
    power.stop(domain, 0, True)
    assert not domain.on

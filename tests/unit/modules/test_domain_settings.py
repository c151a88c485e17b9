# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``_domain_settings`` on libvirt's test driver."""

from __future__ import annotations

import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import (
    definition,
    metadata,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.module_utils._orders.records import (
    Records,
)  # noqa: E402
from ansible_collections.drover.compute.plugins.plugin_utils._common import (
    labels as controller_labels,  # noqa: E402
)

SPACE = definition.METADATA_NAMESPACE
LIVE, CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012d}"


@pytest.fixture
def host(fake_host, domain_xml):
    """A host with two domains that run."""
    return fake_host(domain_xml("one", 1), domain_xml("two", 2))


@pytest.fixture
def change(run_module, host):
    uri, dummy = host

    def changed(labels, *numbers, **more):
        domains = [{"uuid": uuid(number)} for number in numbers or (1,)]
        return run_module("_domain_settings", uri=uri, domains=domains, labels=labels, **more)

    return changed


def write(domain, inner, place):
    element = f"<instance>{inner}</instance>"
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, element, "drover", SPACE, place)


def written(domain):
    """Return (settings of the running domain, settings of its definition)."""
    flags = (0, libvirt.VIR_DOMAIN_XML_INACTIVE)
    return tuple(definition.parse_domain(domain.XMLDesc(flag))["metadata"] for flag in flags)


def test_labels_are_set_changed_and_removed(change, host):
    domain = host[1].lookupByName("one")
    dry_run = change({"project": "web", "tier": "db"}, check_mode=True, diff_mode=True)
    assert dry_run["changed"] is True and written(domain) == ({}, {})
    done = change({"project": "web", "tier": "db"}, diff_mode=True)
    assert (
        dry_run["diff"]
        == done["diff"]
        == {
            "before": "one: \n",
            "after": "one: project=web,tier=db\n",
        }
    )
    assert (
        dry_run["domains"][0]["labels"]
        == done["domains"][0]["labels"]
        == {
            "project": "web",
            "tier": "db",
        }
    )
    assert written(domain) == ({"labels": "project=web,tier=db"},) * 2
    assert done["domains"][0]["domain"]["metadata"] == {"labels": "project=web,tier=db"}
    assert change({"project": "web"})["changed"] is False
    assert change({"tier": None, "never": None})["domains"][0]["labels"] == {"project": "web"}
    assert change({"tier": None})["changed"] is False
    assert change({"project": None})["changed"] is True
    assert written(domain) == ({}, {}) and "drover" not in domain.XMLDesc(0)


def test_other_metadata_stays(change, host):
    domain = host[1].lookupByName("one")
    domain.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        "<x>kept</x>",
        "app",
        "https://example.com/app",
        LIVE | CONFIG,
    )
    write(
        domain,
        "<project>a &amp; b</project><move>never</move><labels>old=1</labels>",
        LIVE | CONFIG,
    )
    assert change({"tier": "db"})["changed"] is True
    assert (
        written(domain) == ({"project": "a & b", "move": "never", "labels": "old=1,tier=db"},) * 2
    )
    assert domain.XMLDesc(0).count("https://example.com/app") == 1 and ">kept<" in domain.XMLDesc(0)
    change({"old": None, "tier": None})
    assert written(domain) == ({"project": "a & b", "move": "never"},) * 2


def test_the_running_domain_counts_and_its_definition_follows(change, host):
    """A person has changed one of the two forms with virsh metadata."""
    domain = host[1].lookupByName("one")
    write(domain, "<labels>tier=db</labels>", LIVE)
    write(domain, "<move>never</move><labels>tier=web</labels>", CONFIG)
    assert change({"a": "b"})["domains"][0]["labels"] == {"a": "b", "tier": "db"}
    assert written(domain) == (
        {"labels": "a=b,tier=db"},
        {"move": "never", "labels": "a=b,tier=db"},
    )
    write(domain, "<labels>tier=web</labels>", CONFIG)
    assert change({"a": "b"})["changed"] is True and written(domain)[1] == {"labels": "a=b,tier=db"}
    assert change({"a": "b"})["changed"] is False


@pytest.mark.parametrize("state", ["off", "transient"])
def test_a_domain_that_is_off_or_transient(change, host, domain_xml, state):
    domain = host[1].lookupByName("one")
    if state == "off":
        domain.destroy()
    else:
        domain.undefine()
    assert change({"a": "b"})["changed"] is True
    assert written(domain)[0] == {"labels": "a=b"} and change({"a": "b"})["changed"] is False


def test_what_cannot_be_read_stays_unless_it_is_named(change, host):
    domain = host[1].lookupByName("one")
    write(domain, "<labels>tier=d b, x=1 ,old=ä,old=2</labels>", LIVE | CONFIG)
    assert change({"x": "1"})["changed"] is False
    assert change({"a": "b"})["domains"][0]["labels"] == {"a": "b", "x": "1"}
    assert written(domain)[0] == {"labels": "a=b,x=1,old=2,old=ä,tier=d b"}
    assert change({"old": None, "tier": "db"})["domains"][0]["labels"] == {
        "a": "b",
        "tier": "db",
        "x": "1",
    }
    assert written(domain) == ({"labels": "a=b,tier=db,x=1"},) * 2


def test_one_that_fails_stops_no_other(run_module, host):
    uri, connection = host
    domains = [
        {"uuid": uuid(1), "name": "wrong"},
        {"uuid": uuid(2), "name": "two"},
        {"uuid": uuid(9)},
    ]
    result = run_module("_domain_settings", uri=uri, domains=domains, labels={"a": "b"})
    assert [(each["status"], each["changed"]) for each in result["domains"]] == [
        ("failed", False),
        ("done", True),
        ("absent", False),
    ]
    assert "is named 'one'" in result["domains"][0]["message"] and written(
        connection.lookupByName("one")
    ) == ({}, {})
    many = {f"k{number}": "x" for number in range(64)}
    answer = run_module("_domain_settings", uri=uri, domains=[{"uuid": uuid(2)}], labels=many)[
        "domains"
    ][0]
    assert (
        answer["status"] == "failed"
        and "would have 65 labels, and can have 64" in answer["message"]
    )


def test_a_domain_that_moves_is_left_alone(run_module, host):
    uri, connection = host
    lock = Records().lock(uuid(1))
    try:
        answer = run_module(
            "_domain_settings", uri=uri, domains=[{"uuid": uuid(1)}], labels={"a": "b"}, patience=0
        )["domains"][0]
    finally:
        os.close(lock)
    assert (
        answer["status"] == "failed"
        and "another call works on" in answer["message"]
        and written(connection.lookupByName("one")) == ({}, {})
    )


def test_libvirt_refuses_half_way(change, host, monkeypatch):
    """The definition has the label, the running domain has not: that is a failure, and the next run
    ends it.
    """
    domain = host[1].lookupByName("one")
    real = metadata.change

    def refuse(domain, place, name, value):
        if place == LIVE:
            raise libvirt.libvirtError("no")
        real(domain, place, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(metadata, "change", refuse)
        found = change({"a": "b"})
    assert found["domains"][0]["status"] == "failed" and written(domain) == ({}, {"labels": "a=b"})
    assert change({"a": "b"})["changed"] is True and written(domain) == ({"labels": "a=b"},) * 2


def test_saved_memory_would_bring_the_old_labels_back(change, host):
    domain = host[1].lookupByName("one")
    change({"a": "b"})
    domain.managedSave(0)
    before = written(domain)
    for check_mode in (True, False):
        answer = change({"a": "c"}, check_mode=check_mode)["domains"][0]
        assert (
            answer["status"] == "failed"
            and "has its memory saved, and would start with the metadata that it had then"
            in answer["message"]
        )
    assert written(domain) == before
    assert change({"a": "b"})["domains"][0]["status"] == "done", "nothing is to be changed"
    domain.managedSaveRemove()
    assert change({"a": "c"})["changed"] is True


@pytest.mark.parametrize(
    ("inner", "labels", "odd"),
    [
        ("<labels>a=b</labels><labels>c=d</labels>", {"c": "d"}, "<labels>a=b</labels>"),
        ("<labels>a=b,x=y</labels><labels/>", {}, "<labels>a=b x=y</labels>"),
        ("<labels>c=d<x>a=b</x></labels>", {"c": "d"}, "<x>a=b</x>"),
        ("<labels>c=d<x/>,e=f</labels>", {"c": "d", "e": "f"}, "<x></x>"),
    ],
)
def test_labels_of_an_odd_form_are_warned_of(change, host, inner, labels, odd):
    domain = host[1].lookupByName("one")
    write(domain, inner, LIVE | CONFIG)
    found, said = controller_labels.from_metadata(written(domain)[0], "Instance one")
    assert found == labels and len(said) == 1 and odd in said[0]
    # It stays until a label is changed, and is not lost then.
    assert change(labels or {"never": None})["changed"] is False
    assert change({"new": "1"})["domains"][0]["labels"] == {**labels, "new": "1"}
    assert [odd in each["labels"] for each in written(domain)] == [True, True]


def test_a_label_that_is_none_is_refused_before_anything(change, host):
    assert "is no label" in change({"a": "b c"})["msg"]

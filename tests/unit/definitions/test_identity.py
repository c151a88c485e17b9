# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Definitions: refusals with their place in the file, and the instance that each definition
means.
"""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    check,
    disk_files,
    document,
    identity,
)
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

try:
    from ansible.template import trust_as_template as trusted
except ImportError:
    # Before ansible-core 2.19 every text is a template.
    trusted = str

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def read(tmp_path):
    """Return a function text -> checked definitions of a file with that text."""

    def read_text(text):
        path = tmp_path / "fleet.yml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        found = document.Document(str(path))
        groups = check.server_groups(found.section("server_groups"), found.where)
        return to_plain(groups), to_plain(check.instances(found.section("instances"), found.where))

    return read_text


def instance(*lines):
    """Return a file with two good instances and one with these lines; its mapping starts at line
    8.
    """
    good = "".join(
        f"  - name: good{number}\n    vcpus: 1\n    memory_mb: 64\n" for number in (1, 2)
    )
    return "instances:\n" + good + "  - name: web\n" + "".join(f"    {line}\n" for line in lines)


def test_a_whole_definition(read):
    groups, instances = read("""---
server_groups:
  - {name: web, policy: anti-affinity, max_server_per_host: 2}
instances:
  - name: web1
    vcpus: 2
    memory_mb: 0x400
    disks:
      - size_gb: 10
        image: /images/debian.qcow2
      - {size_gb: 5}
    networks: [{network: default}, {bridge: br0, mac: "52:54:00:00:00:01"}]
    server_group: web
    hints: {different_host: [db1]}
    cloud_init:
      user_data: {users: [{name: ann, expiredate: 2032-09-01}]}
    autostart: true
    availability_zone: null
  - name: small
    memory_mb: 64
""")
    assert groups == [{"name": "web", "policy": "anti-affinity", "max_server_per_host": 2}]
    assert (instances[0]["memory_mb"], instances[0]["disk_gb"], len(instances[0]["disks"])) == (
        1024,
        15,
        2,
    )
    assert instances[0]["autostart"] is True
    # A date is not a text in YAML, but cloud-init gets it as it was written.
    assert instances[0]["cloud_init"]["user_data"]["users"][0]["expiredate"] == "2032-09-01"
    assert {key: instances[1][key] for key in ("vcpus", "disk_gb", "disks", "networks")} == {
        "vcpus": 1,
        "disk_gb": 0,
        "disks": [],
        "networks": [],
    }
    # Exactly these types: Ansible's tagged ones must not get into the store.
    assert instances[0]["vcpus"].__class__ is int
    assert instances[0]["name"].__class__ is str


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["memory_mb: -1"],
            (
                "memory_mb must be a whole number of MiB from 1 to 2147483647, or a size such as"
                " 512MiB, 4GiB or 2T, not -1"
            ),
        ),
        (["memory_mb: 0"], "memory_mb must be .*not 0"),
        (["memory_mb: 1.5"], "memory_mb must be a whole number"),
        (["memory_mb: 4x"], "memory_mb must be a whole number of MiB .*, not '4x'"),
        (
            ["memory_mb: true"],
            "memory_mb must be a whole number of MiB .*, or a size such as .*, not True",
        ),
        (["memory_mb: 99999999999"], "memory_mb must be .*not 99999999999"),
        (["vcpus: 1"], "memory_mb is missing. Give a size such as 4GiB, or a flavor"),
        (["memory_mb: 64", "vcpus: 0"], "vcpus must be .*not 0"),
        (["memory_mb: 64", "vcpus: false"], "vcpus must be a whole number, not False"),
        (["memory_mb: 64", "cpus: 2"], "unknown key cpus .did you mean vcpus... Known: .*vcpus"),
        (["memory_mb: 64", "2: 2"], "unknown key 2"),
        (["memory_mb: 64", "disks: 5"], "disks must be a list, not 5"),
        (["memory_mb: 64", "disks: [5]"], "disk 1: must be a mapping"),
        (
            ["memory_mb: 64", "disks: [{size_gb: 1}, {size_gb: -1}]"],
            "disk 2: size_gb must be .*not -1",
        ),
        (["memory_mb: 64", "disks: [{size: 1}]"], "disk 1: unknown key size"),
        (
            ["memory_mb: 64", "disks: [{}]"],
            "disk 1: size_gb is missing. Give a size such as 20 or 2T, or a flavor with a disk",
        ),
        (
            ["memory_mb: 64", "disks: [{size_gb: 1, path: here}]"],
            "disk 1: path must be absolute, not 'here'",
        ),
        (["memory_mb: 64", "networks: [default]"], "network 1: must be a mapping"),
        (
            ["memory_mb: 64", "networks: [{bridge: a, network: b}]"],
            "network 1: name either a bridge or",
        ),
        (["memory_mb: 64", "networks: [{model: virtio}]"], "network 1: name either a bridge or"),
        (["memory_mb: 64", "uuid: 1"], "uuid must be a text, not 1"),
        (["memory_mb: 64", "uuid: nothing"], "'nothing' is no uuid in lower case"),
        (
            ["memory_mb: 64", "uuid: 4678F48E-9E6E-53D3-9C13-DBD66056A5D1"],
            "is no uuid in lower case",
        ),
        (["memory_mb: 64", "autostart: 1"], "autostart must be true or false, not 1"),
        (["memory_mb: 64", "autostart: 'yes'"], "autostart must be true or false, not 'yes'"),
        (["memory_mb: 64", "hints: [a]"], "hints must be a mapping"),
        (["memory_mb: 64", "cloud_init: {userdata: x}"], "cloud_init: unknown key userdata"),
        (
            ["memory_mb: 64", "cloud_init: {user_data: [x]}"],
            "user_data must be a text or a mapping",
        ),
        (["memory_mb: 64", "server_group: [a]"], "server_group must be a text"),
        (["memory_mb: 64", "host: 2024-01-01"], "host must be a text"),
        (["memory_mb: 64", "domain_type: xen"], "domain_type must be kvm or qemu, not 'xen'"),
        (
            ["memory_mb: 64", "cpu: qemu64"],
            "cpu must be fleet, or a mapping with a mode or a model",
        ),
        (["memory_mb: 64", "labels: [a]"], "labels must be a mapping"),
        (["memory_mb: 64", "labels: {rack: 7}"], "the label rack cannot be 7.*Put it into quotes"),
        (["memory_mb: 64", "labels: {a b: c}"], "'a b' cannot be the key of a label"),
        (["memory_mb: 64", "labels: {old: null}"], "the label old cannot be None"),
        (["memory_mb: 64", "cpu: {mode: fast}"], "cpu: mode must be custom, .*not 'fast'"),
        (["memory_mb: 64", "cpu: {mode: custom}"], "cpu has a model with the mode custom"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(read, lines, message):
    with pytest.raises(DroverError, match=rf"fleet\.yml line 8: instance web.*{message}"):
        read(instance(*lines))


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        '"tab\\there"',
        '"\\u0000"',
        '"\\x7f"',
        "x" * 201,
        '" "',
        '""',
        "5",
        "true",
        "null",
        "[a]",
        "2024-01-01",
        '"\\ud800"',
        '"\\uFFFE"',
        '"\\u0085"',
        ".",
    ],
)
def test_names_that_cannot_be(read, name):
    with pytest.raises(DroverError, match=r"fleet\.yml,? line 2.* name"):
        read(f"instances:\n  - name: {name}\n    memory_mb: 64\n")


@pytest.mark.parametrize(
    "name",
    ["web-1", "Ünïcode 名前", "<b>&amp;'\\\"", "a b", "-x", "x" * 200, "%s", "{{ x }}", "a.b"],
)
def test_odd_names_that_can_be(read, name):
    quoted = (
        '"' + name.replace('"', "'") + '"'
        if "\\" not in name
        else "'" + name.replace("'", "''") + "'"
    )
    (found,) = read(f"instances:\n  - name: {quoted}\n    memory_mb: 64\n")[1]
    assert found["name"] == name


@pytest.mark.parametrize("name", ["é" * 121, "\U0001f600" * 61])
def test_a_name_has_to_fit_into_the_names_of_files(read, name):
    with pytest.raises(DroverError, match="at most 240 bytes in UTF-8"):
        read(f"instances:\n  - name: {name}\n    memory_mb: 64\n")


@pytest.mark.parametrize("name", ["a\\nb", "\\u202eb\\u0000", "a\\x1b[31m"])
def test_a_sentence_about_an_odd_name_stays_on_its_line(read, name):
    with pytest.raises(DroverError) as refused:
        read(f'instances:\n  - name: "{name}"\n    memory_mb: 64\n')
    assert str(refused.value).isprintable()


def test_two_with_one_name(read):
    text = instance("memory_mb: 64").replace("name: web", "name: good1")
    with pytest.raises(
        DroverError,
        match=r"line 8: instance good1: the name good1 stands twice; first at .* line 2",
    ):
        read(text)


def test_two_with_one_uuid(read):
    lines = f"    uuid: {uuid_of('web')}\n    memory_mb: 64\n"
    with pytest.raises(
        DroverError, match=r"line 5: instance b: the uuid .* stands twice; first at .* line 2"
    ):
        read(f"instances:\n  - name: a\n{lines}  - name: b\n{lines}")


@pytest.mark.parametrize(
    "spelling", ["/srv/one.qcow2", "//srv/one.qcow2", "/srv//./one.qcow2", "/srv/x/../one.qcow2"]
)
def test_safety_22_two_with_one_disk(read, spelling):
    text = "instances:\n  - {name: a, memory_mb: 64, disks: [{size_gb: 1, path: /srv/one.qcow2}]}\n"
    text += (
        "  - {name: b, memory_mb: 64, disks: [{size_gb: 1}, {size_gb: 1, path:"
        f" {spelling}}}]}}\n"
    )
    with pytest.raises(
        DroverError,
        match=(
            r"line 3: instance b, disk 2: the path /srv/one.qcow2 stands twice; first at .* line"
            r" 2.*a, disk 1"
        ),
    ):
        read(text)
    # An instance that must be removed leaves its disk to the other.
    assert len(read(text.replace("name: a,", "name: a, state: absent,"))[1]) == 2
    same = (
        "instances:\n  - {name: a, memory_mb: 64, disks: [{size_gb: 1, path: /srv/one.qcow2},"
        " {size_gb: 1, path: %s}]}\n"
    )
    with pytest.raises(DroverError, match="disk 2: the path .* stands twice"):
        read(same % spelling)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("web", "line 3.*each server group is a mapping"),
        (
            "{name: web}",
            "line 3: server group web: policy is missing. For example: policy: anti-affinity",
        ),
        (
            "{name: web, policy: soft}",
            (
                "line 3: server group web: policy must be affinity, anti-affinity, soft-affinity or"
                " soft-anti-affinity, not 'soft'"
            ),
        ),
        (
            "{name: web, policy: affinity, members: []}",
            "line 3: server group web: unknown key members",
        ),
        (
            "{name: web, policy: anti-affinity, max_server_per_host: 0}",
            "line 3: server group web: max_server_per_host",
        ),
        (
            "{name: web, policy: affinity, max_server_per_host: 2}",
            "line 3: server group web: max_server_per_host goes",
        ),
        ("{name: one, policy: affinity}", "line 3: server group one: the name one stands twice"),
        ("{name: [a], policy: affinity}", "line 3: each server group is a mapping with a name"),
    ],
)
def test_server_groups(read, text, message):
    with pytest.raises(DroverError, match=message):
        read("server_groups:\n  - {name: one, policy: affinity}\n  - " + text + "\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instances:\n  - name: web\n   vcpus: 1\n", "line 3, column 4"),
        ("instances: [\n", "line 2, column 1"),
        (
            "instances:\n  - name: web\n    name: db\n",
            'line 3, column 5: the key "name" stands twice. Remove one of them',
        ),
        ("instances: *nowhere\n", "line 1, column 12"),
        (
            "instances: []\n---\ninstances: []\n",
            (
                "line 2, column 1: a second document begins here, behind ---. Write all into one"
                " document. Nothing was changed"
            ),
        ),
        ("a: b\x07\n", "line 1.*character"),
        (b"a: b\n# \x00", "character"),
        ("a:\n- b\n-\tc: [\n", "line"),
        ("", "is empty. Give it the key instances"),
        ("# nothing\n", "is empty. Give it the key instances"),
        ("- name: web\n", "must be a mapping with the key instances"),
        (
            "instance: []\n",
            (
                "unknown key instance .did you mean instances... Known: instances, server_groups,"
                " flavors, images, aggregates"
            ),
        ),
        ("instances: {name: web}\n", "instances must be a list"),
        ("instances:\n  - web\n", "line 2.*each instance is a mapping with a name"),
        ("instances:\n  - [web]\n", "line 2.*each instance is a mapping with a name"),
        (
            "instances:\n  - memory_mb: 64\n",
            "line 2: each instance is a mapping with a name, and this one has none",
        ),
        (
            "instances:\n  - name: ' '\n",
            "line 2: each instance is a mapping with a name, and this one has none",
        ),
        ("instances:\n  - name: 2024-13-45\n", "month must be in 1..12"),
        (b"instances:\n  - name: \xff\n", "cannot be read: it is not UTF-8"),
        (
            "instances:\n  - name: web\n    cloud_init: {user_data: !vault x}\n",
            "line 3: the tag !vault is not understood",
        ),
        ("instances:\n  - name: !!str web\n", "line 2: the tag .* is not understood"),
    ],
)
def test_files_that_are_no_definitions(read, text, message):
    with pytest.raises(DroverError, match=f"(?s)fleet.yml.*{message}"):
        read(text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DroverError, match="nothing.yml cannot be read: No such file or directory"):
        document.Document(str(tmp_path / "nothing.yml"))
    with pytest.raises(DroverError, match="cannot be read: Is a directory"):
        document.Document(str(tmp_path))


def test_sections_may_be_empty_or_missing(read):
    assert read("instances:\n") == ([], [])
    assert read("server_groups: []\n") == ([], [])


# Identity


def known(name, **more):
    return {
        "uuid": uuid_of(name),
        "name": name,
        "host": "kvm1",
        "node": "kvm1",
        "state": "running",
        "definition": None,
        **more,
    }


def definition(name, **more):
    return {
        "name": name,
        "vcpus": 1,
        "memory_mb": 64,
        "disk_gb": 2,
        "disks": [],
        "networks": [],
        **more,
    }


def test_a_new_one_gets_a_uuid():
    (resolved,) = identity.resolve([definition("web")], [known("db")])
    assert (resolved["state"], resolved["host"], len(resolved["uuid"])) == ("new", None, 36)
    assert resolved["request"] == {
        "name": "web",
        "uuid": resolved["uuid"],
        "vcpus": 1,
        "memory_mb": 64,
        "disk_gb": 2,
    }
    (again,) = identity.resolve([definition("web")], [known("db")])
    assert again["uuid"] != resolved["uuid"]


@pytest.mark.parametrize(
    "more", [{}, {"uuid": uuid_of("web")}, {"host": "somewhere else", "uuid": uuid_of("web")}]
)
def test_one_that_is_there_is_found(more):
    (found,) = identity.resolve([definition("web", **more)], [known("web"), known("db")])
    assert (found["uuid"], found["host"], found["state"]) == (uuid_of("web"), "kvm1", "running")
    selection = found["selection"]
    assert (selection["host"], selection["resources"]) == (
        "kvm1",
        {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 2},
    )


def test_safety_22_a_path_that_another_ones_file_has_by_default():
    web = definition(
        "web 1", uuid=uuid_of("web"), disks=[{"size_gb": 1}, {"size_gb": 1, "path": "/srv/data"}]
    )
    for path in (
        f"/srv/web_1-{uuid_of('web')[:8]}-vda.qcow2",
        f"/other//web_1-{uuid_of('web')[:8]}-seed.iso",
    ):
        other = definition("db", disks=[{"size_gb": 1}, {"size_gb": 1, "path": path}])
        for definitions in ([web, other], [other, web]):
            with pytest.raises(
                DroverError,
                match=(
                    "Instance db, disk 2: .* is what a file of instance web 1 is called by itself"
                ),
            ):
                identity.resolve(definitions, [])
        # The instance is known by its name alone.
        without = {key: value for key, value in web.items() if key != "uuid"}
        with pytest.raises(DroverError, match="Instance db, disk 2"):
            identity.resolve([without, other], [{**known("web 1"), "uuid": uuid_of("web")}])
    # The second disk has its own path, so no other disk gets that path.
    free = definition(
        "db", disks=[{"size_gb": 1, "path": f"/srv/web_1-{uuid_of('web')[:8]}-vdb.qcow2"}]
    )
    assert len(identity.resolve([web, free], [])) == 2


def test_the_role_place_calls_files_what_is_looked_for():
    """The rule is in the role, which is YAML, and in the engine: both have the same text."""
    tasks = yaml.safe_load((ROOT / "roles/place/tasks/build.yml").read_text())
    block = next(task for task in tasks if "place_path" in task.get("vars", {}))
    claim = {"name": "wéb 1/<x>", "uuid": uuid_of("web"), "host": "kvm1"}
    variables = {"place_claim": claim, "hostvars": {"kvm1": {"drover_instances_path": "/srv"}}}
    texts = {}
    for name in ("place_folder", "place_path", "place_seed"):
        text = trusted(block["vars"][name].replace("place_claim.cloud_init | default({})", "true"))
        texts[name] = Templar(loader=DataLoader(), variables={**variables, **texts}).template(text)
    assert texts["place_path"].strip() == f"/srv/{disk_files.base(claim['name'], claim['uuid'])}"
    assert texts["place_seed"]["path"] == texts["place_path"] + disk_files.SEED


def test_a_uuid_of_its_own_is_kept():
    (found,) = identity.resolve([definition("web", uuid=uuid_of("x"))], [])
    assert (found["uuid"], found["request"]["uuid"], found["state"]) == (
        uuid_of("x"),
        uuid_of("x"),
        "new",
    )


@pytest.mark.parametrize(
    ("more", "instances", "message"),
    [
        ({"uuid": uuid_of("db")}, [known("db")], "its uuid .* belongs to db"),
        (
            {"uuid": uuid_of("x")},
            [known("web")],
            f"has an instance of this name with uuid {uuid_of('web')}",
        ),
        (
            {},
            [known("web"), known("web", uuid=uuid_of("y"), host="kvm2")],
            "several instances .* on kvm1, .* on kvm2",
        ),
    ],
)
def test_who_is_meant_is_not_guessed(more, instances, message):
    with pytest.raises(DroverError, match=f"Instance web: .*{message}"):
        identity.resolve([definition("web", **more)], instances)


@pytest.mark.parametrize(("ours", "theirs"), [("blue", None), (None, "blue")])
def test_one_without_a_project_is_not_taken_for_one_with(ours, theirs):
    recorded = known("web", project=theirs)
    message = (
        f"of {'project blue' if ours else 'no project'}: there is .* on kvm1, of"
        f" {'project blue' if theirs else 'no project'}"
    )
    with pytest.raises(
        DroverError, match=f"Instance web {message}.*write uuid: {uuid_of('web')} into it"
    ):
        identity.resolve([definition("web", project=ours)], [recorded])
    (found,) = identity.resolve([definition("web", project=ours, uuid=uuid_of("web"))], [recorded])
    assert (found["host"], found["state"]) == ("kvm1", "running")


def test_a_name_may_be_in_two_projects():
    recorded = [
        known("web", project="blue"),
        known("web", project="red", uuid=uuid_of("red"), host="kvm2"),
    ]
    (resolved,) = identity.resolve([definition("web", project="red")], recorded)
    assert resolved["host"] == "kvm2"
    (resolved,) = identity.resolve([definition("web", project="green")], recorded)
    assert resolved["state"] == "new"


def test_one_that_was_begun_is_claimed_with_all_that_decides_where_it_may_be():
    wanted = definition("web", availability_zone="z", project="p", user="u", server_group="g")
    (found,) = identity.resolve([wanted], [known("web", state="building", project="p")])
    selection = found["selection"]
    assert {
        key: selection[key] for key in ("availability_zone", "project", "user", "server_group")
    } == {
        "availability_zone": "z",
        "project": "p",
        "user": "u",
        "server_group": "g",
    }


def test_a_group_of_the_file_goes_with_the_request():
    group = {"name": "g", "policy": "affinity"}
    instances = identity.resolve(
        [definition("a", server_group="g"), definition("b", server_group="h")], [], [group]
    )
    assert [each["request"]["server_group"] for each in instances] == [group, "h"]

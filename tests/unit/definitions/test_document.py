# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writing host and uuid back into a definitions file, with every other byte kept."""

from __future__ import annotations

import difflib
import os
import pathlib
import shutil
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import document
from ansible_collections.drover.compute.tests.unit.store import fleets

NOBODY = 65534
UUID = fleets.uuid_of("web")


def rewritten(text, *values, folder=None):
    """Return the text of a file after setting values of its instances in order."""
    folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="drover-tests-"))
    try:
        path = folder / "fleet.yml"
        path.write_bytes(text.encode())
        definitions = document.Document(str(path))
        for number, each in enumerate(values):
            definitions.set(number, each)
        assert path.read_bytes() == text.encode()
        definitions.save()
        assert [entry.name for entry in folder.iterdir()] == ["fleet.yml"]
        return path.read_bytes().decode()
    finally:
        shutil.rmtree(folder)


def loaded(text, version="1.2"):
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    return to_plain(yaml.load(text))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- name: web\n", "- name: web\n  host: kvm1\n  uuid: {}\n"),
        ("- name: web", "- name: web\n  host: kvm1\n  uuid: {}"),
        ("- name: web # the shop\n", "- name: web # the shop\n  host: kvm1\n  uuid: {}\n"),
        ("- name: web\n  vcpus: 2\n", "- name: web\n  host: kvm1\n  uuid: {}\n  vcpus: 2\n"),
        (
            "-   vcpus: 2\n    name: 'web'\n",
            "-   vcpus: 2\n    name: 'web'\n    host: kvm1\n    uuid: {}\n",
        ),
        (
            "- host: old # was kvm9\n  name: web\n",
            "- host: kvm1 # was kvm9\n  name: web\n  uuid: {}\n",
        ),
        ('- name: web\n  host: "old"\n  uuid: x\n', "- name: web\n  host: kvm1\n  uuid: {}\n"),
        (
            "- name: web\n  host:\n  uuid: # to be filled in\n",
            "- name: web\n  host: kvm1\n  uuid: {} # to be filled in\n",
        ),
        ("- name: web\n  host: null\n  uuid: ~\n", "- name: web\n  host: kvm1\n  uuid: {}\n"),
        ("- name: web\n  host: ''\n", "- name: web\n  uuid: {}\n  host: kvm1\n"),
        ("- {name: web}\n", "- {name: web, host: kvm1, uuid: {}}\n"),
        (
            "- {name: web, vcpus: 2} # small\n",
            "- {name: web, host: kvm1, uuid: {}, vcpus: 2} # small\n",
        ),
        (
            "- {vcpus: 2,\n   name: web\n  }\n",
            "- {vcpus: 2,\n   name: web, host: kvm1, uuid: {}\n  }\n",
        ),
        ("- {name: web, host: , vcpus: 1}\n", "- {name: web, uuid: {}, host: kvm1 , vcpus: 1}\n"),
        ("- {name: web, host}\n", "- {name: web, uuid: {}, host: kvm1}\n"),
        ('- {"name":"web","host":"old"}\n', '- {"name":"web", uuid: {},"host":kvm1}\n'),
        (
            "-\n  # first\n  name: web\n\n  # then\n  vcpus: 2\n",
            "-\n  # first\n  name: web\n  host: kvm1\n  uuid: {}\n\n  # then\n  vcpus: 2\n",
        ),
    ],
)
def test_only_what_is_new_is_written(before, after):
    head = "# Ours.\n---\ninstances:\n"
    found = rewritten(head + before, {"host": "kvm1", "uuid": UUID})
    assert found == head + after.replace("{}", UUID)
    (instance,) = loaded(found)["instances"]
    assert (instance["host"], instance["uuid"], instance["name"]) == ("kvm1", UUID, "web")


@pytest.mark.parametrize(
    "before",
    [
        "- name: |-\n    web\n  disks:\n    - size_gb: 1\n",
        "- name: >-\n    web\n",
        '- name: "w\\\n    eb"\n  vcpus: 1\n',
        "- ? name\n  : web\n  ? vcpus\n  : 1\n",
        "- &x\n  name: web\n- *x\n",
        "- name: web\n  host: &h old\n- name: db\n  host: *h\n",
        "- name: db\n  host: &h old\n- name: web\n  host: *h\n",
        "- name: web\n  project: &p blue\n  user: *p\n",
        "- name: web\n  host: >-\n    old\n  vcpus: 1\n",
        "- name: web\n  host: |\n    old\n",
        "- name: web\n  host: old\n    name\n",
        "- name: web\n  <<: {vcpus: 2}\n",
        "[name: web]\n",
        "[{name: web}, name: db]\n",
    ],
)
def test_rare_yaml_is_written_right_or_not_at_all(before, tmp_path):
    text = "instances:\n" + before if before.startswith("-") else "instances: " + before
    path = tmp_path / "fleet.yml"
    path.write_text(text)
    expected = loaded(text)
    (tmp_path / "work").mkdir()
    number = next(
        number for number, item in enumerate(expected["instances"]) if item["name"].strip() == "web"
    )
    values = [{}] * number + [{"host": "kvm1", "uuid": UUID}]
    try:
        new_text = rewritten(text, *values, folder=tmp_path / "work")
    except DroverError as problem:
        assert "fleet.yml" in str(problem)
        assert "host: kvm1" in str(problem)
        return
    expected["instances"][number].update(host="kvm1", uuid=UUID)
    assert loaded(new_text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "null",
        "~",
        "true",
        "5",
        "0x10",
        "1e3",
        "1_000",
        "012",
        "12:30:45",
        "2024-01-01",
        "2024-13-45",
        "a: b",
        "a #b",
        "#a",
        "- a",
        "[a]",
        "{a}",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "'a",
        '"a',
        "a, b",
        "a]",
        "a}",
        "a{b",
        " a",
        "a ",
        "",
        "a\nb",
        "...",
        "---",
        "|",
        ">",
        "?",
        "? a",
        ":",
        "a:",
        "=",
        "<<",
        "ünï",
        "😀",
        "😀: x",
        "\x85",
        "\u2028",
        "\ufeffa",
        "a\tb",
        "\x07",
        "-",
        "kvm1.example.com",
        "::1",
        "1.2.3.4",
        ".inf",
    ],
)
@pytest.mark.parametrize(
    "style",
    ["- name: web\n", "- {name: web}\n", "- name: web\n  host: x\n", "- {name: web, host: x}\n"],
)
def test_a_text_stays_a_text_for_every_reader(text, style):
    found = rewritten("instances:\n" + style, {"host": text})
    for version in ("1.1", "1.2"):
        assert loaded(found, version) == {"instances": [{"name": "web", "host": text}]}


def test_plain_texts_are_not_quoted():
    for text in ("kvm1", "kvm1.example.com", UUID, "10.0.0.1", "ünï", "a b"):
        assert f"host: {text}\n" in rewritten("instances:\n- name: web\n", {"host": text})


# Anything around


words = st.text(st.sampled_from("abc #:,-'\"{}[]éß名🐏!&*%@`\\"), min_size=1, max_size=6)


@st.composite
def scalars(draw):
    """Return a text written in one of YAML's ways, on one line."""
    text = draw(st.one_of(st.sampled_from(["x", "10", "blue", "true", "ünï 名"]), words))
    way = draw(st.sampled_from("'\""))
    if way == "'":
        return "'" + text.replace("'", "''") + "'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


comments = st.one_of(
    st.just(""),
    st.text(st.sampled_from("abc é#:-{}[]'\"🐏"), max_size=8).map(lambda text: "  # " + text),
)


@st.composite
def files(draw):
    """Return a definitions file, and for each instance the values that must be written."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = draw(st.lists(st.sampled_from(["# é comment", "", "%YAML 1.2"]), max_size=2))
    lines = [line for line in lines if line != "%YAML 1.2"]
    if draw(st.booleans()):
        lines.append("---" + draw(comments))
    lines.append("instances:" + draw(comments))
    dash = draw(st.sampled_from(["- ", "  - ", "  -   "]))
    pad = " " * len(dash)
    values = []
    for number in range(draw(st.integers(1, 3))):
        quote = draw(st.sampled_from(["", "'", '"']))
        pairs = [("name", f"{quote}web{number}{quote}")]
        for key in draw(
            st.lists(st.sampled_from(["host", "uuid", "project", "user"]), unique=True)
        ):
            empty = key in ("host", "uuid") and draw(st.booleans())
            pairs.append(
                (key, draw(st.sampled_from(["", "null", "~"])) if empty else draw(scalars()))
            )
        pairs = draw(st.permutations(pairs))
        if draw(st.booleans()):
            inside = ", ".join(f"{key}: {value}" for key, value in pairs)
            lines.append(dash + "{" + inside + "}" + draw(comments))
        else:
            for position, (key, value) in enumerate(pairs):
                lines.append(
                    (pad if position else dash) + f"{key}: {value}".rstrip() + draw(comments)
                )
                if draw(st.booleans()):
                    lines.append(draw(st.sampled_from(["", "# between", pad + "# deep"])))
        values.append(
            draw(st.fixed_dictionaries({}, optional={"host": words, "uuid": st.just(UUID)}))
        )
    end = draw(st.sampled_from(["", newline, newline + newline, newline + "# end"]))
    return draw(st.sampled_from(["", "\ufeff"])) + newline.join(lines) + end, values


@settings(max_examples=50, deadline=None)
@given(files())
def test_every_other_byte_is_kept(generated):
    text, values = generated
    expected = loaded(text)
    new_text = rewritten(text, *values)
    for instance, each in zip(expected["instances"], values):
        instance.update(each)
    assert loaded(new_text) == expected
    # Without the inserted values, and with the old values back, the text is the text before.
    olds = {value for pair in values for value in pair}
    for kind, start, end, _dummy, _dummy2 in difflib.SequenceMatcher(
        None, text, new_text, autojunk=False
    ).get_opcodes():
        if kind == "delete":
            line = text[: start + 1].splitlines()[-1]
            assert any(key in text[text.rfind("\n", 0, start) + 1 : end] for key in olds), line
    assert [line for line in text.splitlines() if line.strip().startswith("#")] == [
        line for line in new_text.splitlines() if line.strip().startswith("#")
    ]
    assert ("\r\n" in new_text) == ("\r\n" in text)
    assert (
        new_text.count("\n") - text.count("\n") == new_text.count("\r\n") - text.count("\r\n")
        or "\r\n" not in text
    )
    # Again with the same values: nothing to do.
    assert rewritten(new_text, *values) == new_text


# The file itself


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "fleet.yml"
    found.write_text("instances:\n- name: web\n")
    return found


def test_a_file_that_somebody_changed_meanwhile_is_left_alone(path):
    definitions = document.Document(str(path))
    definitions.set(0, {"host": "kvm1"})
    path.write_text("instances:\n- name: web\n  vcpus: 2\n")
    with pytest.raises(DroverError, match="changed by somebody else.*Run again"):
        definitions.save()
    assert path.read_text() == "instances:\n- name: web\n  vcpus: 2\n"


def test_a_file_that_went_away_meanwhile(path):
    definitions = document.Document(str(path))
    definitions.set(0, {"host": "kvm1"})
    path.unlink()
    with pytest.raises(DroverError, match="fleet.yml cannot be .*: No such file"):
        definitions.save()
    assert list(path.parent.iterdir()) == []


def test_permissions_and_owner_are_kept(path):
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    before = path.stat()
    found = document.Document(str(path))
    found.set(0, {"host": "kvm1"})
    found.save()
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert "host: kvm1" in path.read_text()


def test_a_link_stays_a_link(path, tmp_path):
    link = tmp_path / "links" / "fleet.yml"
    link.parent.mkdir()
    link.symlink_to("../fleet.yml")
    found = document.Document(str(link))
    found.set(0, {"host": "kvm1"})
    found.save()
    assert link.is_symlink()
    assert "host: kvm1" in path.read_text()
    assert list(link.parent.iterdir()) == [link]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_or_folder_that_may_not_be_written(what):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="drover-tests-"))
    try:
        path = folder / "fleet.yml"
        path.write_text("instances:\n- name: web\n")
        folder.chmod(0o777 if what == "file" else 0o555)
        path.chmod(0o444 if what == "file" else 0o666)

        def work():
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            found = document.Document(str(path))
            found.set(0, {"host": "kvm1"})
            found.save()
            return "saved"

        (answer,) = fleets.race(work)
        assert answer.startswith(
            f"DroverError: The definitions file {path} cannot be written: Permission denied"
        )
        assert path.read_text() == "instances:\n- name: web\n"
        assert list(folder.iterdir()) == [path]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)

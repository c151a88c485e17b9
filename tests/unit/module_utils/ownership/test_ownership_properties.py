# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random hosts: a file that another domain needs is never removed, and an unambiguous disk of the
instance is.

The files are real; the domains, volumes and snapshots come from libvirt's test driver. The expected
result comes from the objects that the test made, not from their content.
"""

from __future__ import annotations

import json
import os
import pathlib
import tempfile

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._ownership import needs, ownership
from ansible_collections.drover.compute.tests.unit.module_utils.images import (
    disk,
    domain,
    qcow2,
    volume,
)
from ansible_collections.drover.compute.tests.unit.module_utils.ownership.test_ownership import (
    UUID,
    hypervisor,
    pool,
)

FOLDERS = ("a", "b", "c")
IMAGES = 4
#: The ways to name a backing file in an image, and to name an image in a domain.
NAMES = ("absolute", "relative", "json", "dotted", "file:", "by a link of its folder")
USES = (
    "file",
    "by a link of its folder",
    "by a link",
    "by another name",
    "volume",
    "snapshot",
    "raw",
)

images = st.lists(
    st.tuples(
        st.sampled_from(FOLDERS), st.none() | st.integers(0, IMAGES - 1), st.sampled_from(NAMES)
    ),
    min_size=2,
    max_size=IMAGES,
)
uses = st.lists(
    st.tuples(st.integers(0, IMAGES - 1), st.sampled_from(USES)),
    max_size=3,
    unique_by=lambda use: use[0],
)


class World:
    """A host of these images and domains.

    :param chosen: for each image its folder, the number of its backing file, and the way in which
        it is named.
    """

    def __init__(self, root, chosen):
        self.root = pathlib.Path(root)
        self.paths, self.behind = [], []
        for name in FOLDERS:
            (self.root / name).mkdir()
            os.symlink(self.root / name, self.root / f"link-{name}")
        for number, (folder, backing, how) in enumerate(chosen):
            # Only an earlier image can be the backing file, so there are no rings.
            backing = backing if backing is not None and backing < number else None
            self.behind.append(backing)
            self.paths.append(
                qcow2(self.root / folder / f"{number}.qcow2", self._named(folder, backing, how))
            )

    def _named(self, folder, backing, how):
        if backing is None:
            return None
        path = self.paths[backing]
        return {
            "absolute": path,
            "relative": os.path.relpath(path, self.root / folder),
            "json": (
                "json:"
                + json.dumps({"driver": "qcow2", "file": {"driver": "file", "filename": path}})
            ),
            "dotted": "json:" + json.dumps({"file.driver": "file", "file.filename": path}),
            "file:": f"file:{path}",
            "by a link of its folder": self._linked(path),
        }[how]

    def _linked(self, path):
        folder, name = os.path.split(path)
        return str(self.root / f"link-{os.path.basename(folder)}" / name)

    def chain(self, number):
        """Return the numbers of an image and of all behind it."""
        numbers = set()
        while number is not None:
            numbers.add(number)
            number = self.behind[number]
        return numbers

    def disk(self, number, how, letter):
        """Return (the ``<disk>`` of a domain, the ``<disk>`` of a snapshot of it)."""
        path, target = self.paths[number], f"vd{letter}"
        if how == "volume":
            return (
                volume(os.path.basename(os.path.dirname(path)), os.path.basename(path), target),
                "",
            )
        if how == "snapshot":
            return "", disk(path, target)
        if how in ("by a link", "by another name"):
            name = str(self.root / f"{how}-{letter}-{number}")
            if not os.path.lexists(name):
                (os.symlink if how == "by a link" else os.link)(path, name)
            return disk(name, target), ""
        named = self._linked(path) if how == "by a link of its folder" else path
        return disk(named, target, kind="raw" if how == "raw" else "qcow2"), ""


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(images, uses.filter(len), st.lists(st.tuples(uses.filter(len), st.booleans()), max_size=3))
def test_nothing_that_another_domain_needs_and_all_that_is_only_its_own(chosen, mine, others):
    with tempfile.TemporaryDirectory() as root:
        world = World(os.path.realpath(root), chosen)
        mine = [(number, how) for number, how in mine if number < len(chosen)]
        others = [
            ([(number, how) for number, how in each if number < len(chosen)], runs)
            for each, runs in others
        ]
        domains, snapshots = [], []
        for number, (uses_of_domain, runs) in enumerate([(mine, False), *others]):
            parts = [world.disk(*use, letter) for use, letter in zip(uses_of_domain, "abc")]
            name, serial = ("vm", 7) if number == 0 else (f"other{number}", 10 + number)
            text = domain(name, serial, "".join(part for part, dummy in parts))
            # The test driver does not start a domain with volumes in pools that do not exist yet.
            domains.append(
                (
                    text,
                    (
                        "running"
                        if runs and not any(how == "volume" for dummy, how in uses_of_domain)
                        else "shutoff"
                    ),
                )
            )
            if any(part for dummy, part in parts):
                snapshots.append(
                    (name, domain(name, serial, "".join(part for dummy, part in parts)))
                )
        with hypervisor(root, *domains) as connection:
            for folder in FOLDERS:
                pool(connection, folder, world.root / folder, *os.listdir(world.root / folder))
            for name, text in snapshots:
                text = f"<domainsnapshot><name>s</name><state>shutoff</state><creationTime>1</creationTime>{text}</domainsnapshot>"
                connection.lookupByName(name).snapshotCreateXML(
                    text, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE
                )
            candidates = ownership.candidates_of(
                connection, needs.texts_of(connection.lookupByUUIDString(UUID))
            )
            own_files = ownership.Ownership(connection, UUID, "vm", candidates)
            told = own_files.sort_out()
            own_files.remove()
        assert told == own_files.removed
        gone = {number for number, path in enumerate(world.paths) if not os.path.exists(path)}

        needed = {
            behind
            for each, dummy in others
            for number, dummy2 in each
            for behind in world.chain(number)
        }
        assert not gone & needed, f"removed though needed: {sorted(gone & needed)}"
        assert (
            not {world.behind[number] for number in range(len(chosen)) if number not in gone} & gone
        ), "an image nearby lost its base"
        assert gone <= {number for number, dummy in mine}
        # Only this instance has it, by one plain name, and no image has it as its base: the case is
        # clear.
        ambiguous = {
            number for each, dummy in others for number, how in each if how == "by another name"
        }
        plain = {
            number
            for number, how in mine
            if how in ("file", "raw", "by a link of its folder", "volume")
            and number not in world.behind
            and number not in needed | ambiguous
        }
        # From the folder of such a name, a relative name means another file: this makes every file
        # doubtful.
        doubtful = any(
            how in ("by a link", "by another name")
            and chosen[number][1] is not None
            and chosen[number][2] == "relative"
            for each, dummy in others
            for number, how in each
        )
        assert doubtful or plain <= gone, f"left: {sorted(plain - gone)}: {own_files.kept}"
        event(f"{len(gone)} removed, {len(own_files.kept)} kept")

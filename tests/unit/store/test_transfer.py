# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Export and import: no data are lost between the databases, and a broken file is not imported."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import random
import resource
import shutil
import sqlite3
import stat
import uuid

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.copies import (
    checksum,
    export_writer,
    transfer,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.copies.export_file import Export
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import schema, tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import (
    NOW,
    domain,
    host,
    selection,
    uuid_of,
)

TEXTS = (
    "",
    "plain",
    "two\nlines\t\"quoted\" 'and' \\slashed",
    "Żółć 漢字 \U0001f427",
    "\x01\x7f\\N",
    "x" * 200,
    "{{ 1 }}",
)
# No negative zero: SQLite keeps none in a column, and no time or ratio has this value.
FLOATS = (0.0, 0.1, 1 / 3, 1e-308, 5e-324, 1.7976931348623157e308, 1_800_000_000.123456, math.pi)


@pytest.fixture
def other_url(request, prepared_url, postgres, tmp_path):
    """Return an empty database of the other kind than prepared_url, without the schema."""
    if prepared_url.startswith("sqlite"):
        with postgres.database() as url:
            yield url
    else:
        yield f"sqlite:///{tmp_path / 'other.db'}"


@pytest.fixture
def fleet_url(prepared_url):
    """Fill a store with a fleet that has rows in most tables, made by the engine."""
    fleets.discover(
        prepared_url,
        host("kvm1", domain("web"), availability_zone="a", traits=["CUSTOM_X"]),
        host("kvm2"),
    )
    fleets.claim(
        prepared_url, selection("new", "kvm2", server_group={"name": "g", "policy": "affinity"})
    )
    with Store.open(prepared_url).write() as connection:
        migration_claims.begin(connection, uuid_of("web"), "kvm2", "kvm2", "live-migration", NOW)
    return prepared_url


@pytest.fixture(scope="module")
def exported(prepared_sqlite, tmp_path_factory):
    """Return the content of an export."""
    folder = tmp_path_factory.mktemp("exported")
    shutil.copyfile(prepared_sqlite, folder / "store.db")
    url = f"sqlite:///{folder / 'store.db'}"
    fleets.discover(url, host("kvm1", domain("web")), host("kvm2"))
    export(url, folder / "x")
    return (folder / "x").read_bytes()


def export(url, path, now=NOW, **options):
    with Store.open(url).read() as connection:
        return transfer.export(connection, str(path), now, **options)


def load(url, path, check_mode=False):
    with (
        Export(str(path)) as exported,
        Store.open(url, check_mode).write() as connection,
    ):
        return transfer.load(connection, exported)


@contextlib.contextmanager
def opened(path):
    """Open an export with SQLite alone, for changes that do not touch its checksum."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        yield file


def seal(path):
    """Give an export that was changed the right checksum, as somebody would who forges one."""
    with opened(path) as file:
        file.execute("UPDATE drover_export SET checksum = ?", (checksum.ZEROS,))
        page = checksum.page(file)
    checksum.seal(path, page)


def everything(url):
    """Return every row of every table in the order of its key, floats by their bits."""
    with Store.open(url).read() as connection:
        return {
            table.name: [
                [value.hex() if isinstance(value, float) else value for value in row]
                for row in connection.execute(
                    sa.select(table).order_by(
                        *(bulk.in_order(connection, each) for each in table.primary_key.columns)
                    )
                )
            ]
            for table in tables.EXPORTED
        }


def fill_at_random(url, seed, rows=40):
    """Write rows of any values into every table; the tables themselves give the columns, so later
    tables are covered too."""
    chance = random.Random(seed)
    with Store.open(url).write() as connection:
        for table in tables.EXPORTED:
            own = [
                column.name
                for column in table.columns
                if any(key.column.table is table for key in column.foreign_keys)
            ]
            made, seen = [], set()
            for number in range(rows):
                row = {
                    column.name: value_of(connection, chance, column, table, number)
                    for column in table.columns
                }
                row.update(dict.fromkeys(own))
                key = tuple(row[column.name] for column in table.primary_key.columns)
                references = tuple(
                    row[column.name]
                    for column in table.columns
                    if column.foreign_keys and not column.nullable
                )
                if key not in seen and (not references or references not in seen):
                    made.append(row)
                    seen |= {key, references}
            chance.shuffle(made)
            connection.execute(sa.insert(table), made)
            for row in made if own else ():
                # References go in any direction, so a row may refer to a later one.
                values = {
                    name: chance.choice([None, *(other["id"] for other in made)]) for name in own
                }
                connection.execute(sa.update(table).where(table.c.id == row["id"]).values(values))


def value_of(connection, chance, column, table, number):
    if column.foreign_keys:
        (key,) = column.foreign_keys
        if key.column.table is table or (column.nullable and chance.random() < 0.3):
            return None
        return chance.choice(connection.execute(sa.select(key.column)).scalars().all())
    if column.name == "id":
        return number * 7 + 3
    if column.nullable and chance.random() < 0.3:
        return None
    if isinstance(column.type, sa.JSON):
        # JSON is a mapping or a list, as everywhere in the store. (SQLite would take a bare number
        # for its own type.)
        return {"any": any_json(chance, 3)}
    if isinstance(column.type, sa.Boolean):
        return chance.random() < 0.5
    if isinstance(column.type, sa.BigInteger):
        return chance.choice([0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
    if isinstance(column.type, sa.Integer):
        return chance.choice([0, 1, -5, 2**31 - 1])
    if isinstance(column.type, sa.Float):
        return chance.choice([*FLOATS, chance.random() * 10 ** chance.randint(-300, 300)])
    if column.type.length == 36:
        return str(uuid.UUID(int=chance.getrandbits(128)))
    text = chance.choice(TEXTS)
    alone = any(index.unique and list(index.columns) == [column] for index in table.indexes)
    together = any(
        isinstance(each, sa.UniqueConstraint)
        and column in list(each.columns)
        and not any(other.foreign_keys for other in each.columns)
        for each in table.constraints
    )
    if column.unique or alone or together or column.name == "name":
        text = f"{number} {text}"
    return text[: column.type.length]


def any_json(chance, depth):
    if depth and chance.random() < 0.7:
        items = [any_json(chance, depth - 1) for dummy in range(chance.randint(0, 4))]
        return (
            items
            if chance.random() < 0.5
            else {chance.choice(TEXTS) + str(n): item for n, item in enumerate(items)}
        )
    return chance.choice(
        [True, False, 2**70, -1, chance.choice([*FLOATS, -0.0]), chance.choice(TEXTS)]
    )


@pytest.mark.parametrize("seed", range(3))
def test_there_and_back_nothing_is_lost(prepared_url, other_url, tmp_path, seed):
    """The test goes SQLite -> PostgreSQL -> SQLite and the reverse."""
    fill_at_random(prepared_url, seed)
    before = everything(prepared_url)
    assert all(before.values()), "a table without rows proves nothing"
    export_answer = export(prepared_url, tmp_path / "there")
    loaded = load(other_url, tmp_path / "there")
    assert (loaded["changed"], loaded["rows"], loaded["checksum"]) == (
        True,
        export_answer["rows"],
        export_answer["checksum"],
    )
    assert everything(other_url) == before
    back = export(other_url, tmp_path / "back")
    assert (back["rows"], back["checksum"]) == (export_answer["rows"], export_answer["checksum"])
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()
    assert load(other_url, tmp_path / "back")["changed"] is False
    fleets.empty(prepared_url)
    load(prepared_url, tmp_path / "back")
    assert everything(prepared_url) == before


def test_the_engine_goes_on_where_it_was(fleet_url, other_url, tmp_path):
    export(fleet_url, tmp_path / "x")
    load(other_url, tmp_path / "x")
    assert fleets.figures(other_url) == fleets.figures(fleet_url)
    assert fleets.holdings(other_url) == fleets.holdings(fleet_url)
    # New rows get new ids in each table.
    for url in (fleet_url, other_url):
        fleets.discover(
            url, host("kvm3", domain("more"), availability_zone="b", traits=["CUSTOM_Y"])
        )
        fleets.claim(
            url, selection("newer", "kvm3", server_group={"name": "h", "policy": "affinity"})
        )
    assert fleets.holdings(other_url) == fleets.holdings(fleet_url)


def test_the_file_is_a_private_database_that_says_what_it_is(fleet_url, tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_text("what was there")
    path.chmod(0o644)
    answer = export(fleet_url, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with opened(path) as file:
        (header,) = file.execute("SELECT * FROM drover_export")
        assert header == (1, schema.LATEST, NOW, answer["checksum"])
        assert file.execute("SELECT host FROM services ORDER BY id").fetchone() == ("kvm1",)
        for name, count in answer["rows"].items():
            assert file.execute(f'SELECT count(*) FROM "{name}"').fetchone() == (count,)
    assert set(answer["rows"]) == {table.name for table in tables.EXPORTED}
    data = path.read_bytes().replace(answer["checksum"].encode(), b"0" * 64)
    assert hashlib.sha256(data).hexdigest() == answer["checksum"]
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


# SQLite stores 1 without a byte of its own, so the checksum follows the digits of the revision.
@pytest.mark.parametrize("now", [NOW, 1.0])
def test_an_export_of_the_same_rows_is_left(fleet_url, tmp_path, now):
    path = tmp_path / "x"
    assert export(fleet_url, path, dry=True)["changed"] is True
    assert not path.exists()
    assert export(fleet_url, path, now)["changed"] is True
    before = path.read_bytes()
    assert export(fleet_url, path, now + 1)["changed"] is False
    assert path.read_bytes() == before
    fleets.discover(fleet_url, host("kvm9"))
    again = export(fleet_url, path, dry=True)
    assert (again["changed"], again["before"]["services"], again["rows"]["services"]) == (
        True,
        2,
        3,
    )
    assert path.read_bytes() == before
    assert export(fleet_url, path)["changed"] is True


def test_a_store_with_rows_is_refused_unless_they_are_the_same(fleet_url, tmp_path):
    export(fleet_url, tmp_path / "x")
    assert load(fleet_url, tmp_path / "x")["changed"] is False
    fleets.discover(fleet_url, host("kvm9"))
    before = fleets.snapshot(fleet_url)
    with pytest.raises(
        DroverError, match=r"not empty: it has \d+ rows \(.*services 3.*nothing was imported"
    ):
        load(fleet_url, tmp_path / "x")
    assert fleets.snapshot(fleet_url) == before


def test_a_row_that_is_there_twice_is_refused(fleet_url, tmp_path):
    """Two instances have one definition, which an index forbids, in a file with the right sum."""
    url = f"sqlite:///{tmp_path / 'other.db'}"
    export(fleet_url, tmp_path / "x")
    with opened(tmp_path / "x") as file:
        file.execute("DROP INDEX ix_instances_definition")
        file.execute("UPDATE instances SET definition = 'same'")
    seal(tmp_path / "x")
    with pytest.raises(
        DroverError,
        match=(
            "row of instances that the database refuses: UNIQUE constraint failed.*nothing was"
            " imported"
        ),
    ):
        load(url, tmp_path / "x")
    with pytest.raises(DroverError, match="discover"), Store.open(url).read():
        pytest.fail("nothing is there")


@pytest.mark.parametrize(
    "change, sentence",
    [
        ("DELETE FROM compute_nodes", "a row of \\w+ refers to a row that is missing"),
        ("DROP TABLE traits", "differ in tables: traits.*nothing was imported"),
        ("ALTER TABLE traits ADD COLUMN more INTEGER", "differ in tables: traits"),
        ("CREATE VIEW seen AS SELECT 1", "differ in tables: seen"),
        ("CREATE TRIGGER t AFTER INSERT ON traits BEGIN SELECT 1; END", "differ in tables: t"),
        ("DELETE FROM drover_export", "it has no checksum"),
        ("DROP TABLE drover_export", "is no export of a store"),
    ],
)
def test_a_file_that_is_no_export_is_refused_with_the_right_sum_too(
    fleet_url, tmp_path, change, sentence
):
    export(fleet_url, tmp_path / "x")
    with opened(tmp_path / "x") as file:
        file.execute(change)
    if "drover_export" not in change:
        seal(tmp_path / "x")
    with pytest.raises(DroverError, match=sentence):
        Export(str(tmp_path / "x"))


def test_a_store_itself_is_no_export(prepared_sqlite):
    with pytest.raises(DroverError, match="is no export of a store.*state=exported"):
        Export(str(prepared_sqlite))


def test_check_mode_tries_it_all_and_keeps_nothing(fleet_url, other_url, tmp_path):
    export(fleet_url, tmp_path / "x")
    assert load(other_url, tmp_path / "x", check_mode=True)["changed"] is True
    with pytest.raises(DroverError, match=r"discover"), Store.open(other_url).read():
        pytest.fail("nothing is there")


def change_row(path):
    with opened(path) as file:
        file.execute("UPDATE inventories SET total = total + 1")


def remove_row(path):
    with opened(path) as file:
        file.execute("DELETE FROM allocations WHERE id = (SELECT max(id) FROM allocations)")


def change_time(path):
    with opened(path) as file:
        file.execute("UPDATE drover_export SET exported_at = 1")


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def halve(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def append(path):
    path.write_bytes(path.read_bytes() + b"more")


def change_byte(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def wipe_page(path):
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [change_row, remove_row, change_time, cut, halve, append, change_byte, wipe_page],
)
def test_a_damaged_file_is_refused_before_anything_is_written(fleet_url, tmp_path, damage):
    export(fleet_url, tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    damage(tmp_path / "x")
    assert (tmp_path / "x").read_bytes() != before
    with pytest.raises(DroverError, match="not as it was exported: .*nothing was imported"):
        load(f"sqlite:///{tmp_path / 'new.db'}", tmp_path / "x")
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("seed", range(40))
def test_no_flipped_byte_is_imported(exported, tmp_path, seed):
    chance, data = random.Random(seed), bytearray(exported)
    data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(DroverError, match="not as it was exported|is no export|of format"):
        Export(str(tmp_path / "x"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 1000,
        b"garbage\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b'{"drover_store":3}\n',
        b"SQLite format 3\0",
        b"SQLite format 3\0" + bytes(5000),
        b"[" * 100000,
        b"\xff\xfe\n",
    ],
    ids=[
        "empty",
        "zeros",
        "garbage",
        "mapping",
        "list",
        "null",
        "number",
        "magic",
        "magic and zeros",
        "deep",
        "binary",
    ],
)
def test_garbage_is_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DroverError, match="is no export of a store|it is cut or edited"):
        Export(str(tmp_path / "x"))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("missing", "No such file"),
        ("folder", "no regular file"),
        ("pipe", "no regular file"),
        ("/dev/zero", "no regular"),
    ],
)
def test_what_is_no_file_cannot_be_imported(tmp_path, path, sentence):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DroverError, match=sentence):
        Export(str(tmp_path / path))


@pytest.mark.parametrize(
    ("revision", "advice"),
    [
        ("0023", "before 1.0.0.*discover into a new store"),
        ("9999", "newer version.*upgrade the coll"),
    ],
)
def test_another_revision_is_refused_with_what_to_do(
    fleet_url, tmp_path, monkeypatch, revision, advice
):
    with monkeypatch.context() as patched, Store.open(fleet_url).read() as connection:
        patched.setattr(schema, "LATEST", revision)
        transfer.export(connection, str(tmp_path / "x"), NOW)
    with pytest.raises(DroverError, match=f"schema {revision}.*{advice}.*nothing was imported"):
        load(f"sqlite:///{tmp_path / 'new.db'}", tmp_path / "x")


def test_another_format_is_refused(fleet_url, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(export_writer, "FORMAT", 3)
        export(fleet_url, tmp_path / "x")
    with pytest.raises(DroverError, match="format 3; this drover.compute reads 1"):
        Export(str(tmp_path / "x"))


@pytest.mark.parametrize("path", ["missing/x", "folder", "file/x"])
def test_a_path_that_cannot_be_written(fleet_url, tmp_path, path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for dry in (True, False):
        with pytest.raises(DroverError, match="cannot be written: .*Give a path"):
            export(fleet_url, tmp_path / path, dry=dry)


def test_a_full_disk_leaves_what_was_there(fleet_url, tmp_path):
    """A limit on the size of files fails a write just as a full disk does."""
    (tmp_path / "x").write_text("before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store.open(fleet_url).read() as connection:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
        try:
            with pytest.raises(DroverError, match="cannot be written: .*still there"):
                transfer.export(connection, str(tmp_path / "x"), NOW)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "x").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_row_that_the_database_refuses(fleet_url, postgres, tmp_path):
    """SQLite accepts the row and PostgreSQL does not: the row is named, and nothing is imported."""
    if not fleet_url.startswith("sqlite"):
        pytest.skip("only SQLite takes such rows")
    with Store.open(fleet_url).write() as connection:
        connection.execute(sa.update(tables.instances).values(project="x" * 300))
    export(fleet_url, tmp_path / "x")
    with postgres.database() as url:
        with pytest.raises(
            DroverError,
            match="row of instances that the database refuses: .*255.*nothing was imported",
        ):
            load(url, tmp_path / "x")
        with pytest.raises(DroverError, match="discover"), Store.open(url).read():
            pytest.fail("nothing is there")


def test_no_password_is_exported(fleet_url, tmp_path):
    export(fleet_url, tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    assert b"postgresql" not in data and b"password" not in data

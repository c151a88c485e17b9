# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common import sizes
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import MOST

UNITS = st.sampled_from([sizes.MIB, sizes.GIB])
LETTERS = "KMGTP"
BINARY = st.sampled_from(
    [
        f"{each}{end}"
        for letter in LETTERS
        for each in (letter, letter.lower())
        for end in ("", "iB", "ib", "IB")
    ]
)


def bytes_of(unit):
    """Return the bytes of a binary unit, computed in another way than the code."""
    return 2 ** (10 * " KMGTP".index(unit[0].upper()))


@given(st.integers(0, MOST), UNITS)
def test_a_number_is_in_the_unit(number, unit):
    assert (
        sizes.read("x", number, unit)
        == sizes.read("x", str(number), unit)
        == sizes.read("x", f" {number} {unit} ", unit)
        == number
    )


@given(st.integers(0, 2**40), BINARY, UNITS, st.sampled_from(["", " ", "  "]))
def test_a_size_is_what_it_is_in_bytes_or_refused(number, written, unit, blanks):
    size, rest = divmod(number * bytes_of(written), bytes_of(unit))
    text = f"{number}{blanks}{written}"
    if rest or size > MOST:
        with pytest.raises(DroverError, match="is not a whole number of|must be a whole number of"):
            sizes.read("x", text, unit)
    else:
        assert sizes.read("x", text, unit) == size


@given(st.integers(0, 2**20), st.integers(0, 1023))
def test_fractions_are_exact(whole, parts):
    """1.5G is 1536 MiB; a binary fraction with ten digits is too long, and is refused."""
    text = f"{whole + parts / 1024:.10f}".rstrip("0").rstrip(".")
    digits = len(text.partition(".")[2])
    if digits > 9:
        with pytest.raises(DroverError):
            sizes.read("x", f"{text}G", sizes.MIB)
    else:
        assert sizes.read("x", f"{text}G", sizes.MIB) == whole * 1024 + parts


@given(st.text(max_size=12), UNITS)
def test_anything_else_is_refused_with_a_sentence(text, unit):
    try:
        assert 0 <= sizes.read("x", text, unit) <= MOST
    except DroverError as problem:
        assert str(problem).startswith("x ") and unit in str(problem)


@pytest.mark.parametrize(
    "text, unit, size",
    [
        ("2G", sizes.MIB, 2048),
        ("4GiB", sizes.MIB, 4096),
        ("1.5g", sizes.MIB, 1536),
        ("2T", sizes.GIB, 2048),
        ("2048M", sizes.GIB, 2),
        ("0", sizes.GIB, 0),
        ("512MB", sizes.MIB, None),
        ("1073741824KB", sizes.GIB, 1000),
    ],
)
def test_examples(text, unit, size):
    if size is None:
        with pytest.raises(
            DroverError, match="which is not a whole number of MiB. Write 488MiB or 489MiB"
        ):
            sizes.read("x", text, unit)
    else:
        assert sizes.read("x", text, unit) == size


@pytest.mark.parametrize(
    "value",
    [None, True, 2.0, [], {}, -1, "-1", "", "G", "2 X", "1.2.3G", "٣G", "2G\n2", MOST + 1, "0.5K"],
)
def test_what_is_no_size(value):
    with pytest.raises(DroverError, match="whole number of MiB"):
        sizes.read("instance a: memory_mb", value, sizes.MIB)


def test_the_least():
    with pytest.raises(DroverError, match="from 1 to"):
        sizes.read("x", "0G", sizes.MIB, least=1)
    with pytest.raises(DroverError, match="Write 1GiB."):
        sizes.read("x", "512M", sizes.GIB, least=1)

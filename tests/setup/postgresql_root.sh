#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes the roots of other releases that have nothing but PostgreSQL: bullseye has 13, trixie has 17. The tests of the store then run on it:
#
#   postgresql_root.sh bullseye trixie
#   DROVER_POSTGRESQL=.cache/postgresql/bullseye .venv/bin/pytest tests/unit/store
#
# Needs root and the archives; half a minute and 0.3 GB each. They are in .cache/postgresql of the checkout.
set -eu
cd "$(dirname "$0")/../.."

[ $# -gt 0 ] || { echo "usage: postgresql_root.sh SUITE..." >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "postgresql_root: the root of a release needs root: run it with sudo." >&2; exit 4; }
umask 022
tests/setup/setup.sh bare
mkdir -p .cache/postgresql
for suite; do
    root=$PWD/.cache/postgresql/$suite
    [ ! -d "$root" ] || continue
    tests/setup/release.sh "$suite" "$root" postgresql >"$root.log" 2>&1 </dev/null || {
        tail -n 5 "$root.log" >&2
        echo "postgresql_root: $suite cannot be made; see $root.log." >&2
        exit 1
    }
done

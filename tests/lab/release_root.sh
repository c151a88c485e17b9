#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes the roots of hosts of other releases, for `tests/lab/lab up --host HOST=SUITE`: libvirt, QEMU and Python are that release's own.
# What the machine has installed stays as it is.
#
#   release_root.sh trixie bullseye     any release that debootstrap knows, and Ubuntu's jammy, noble and resolute
#
# Needs root and the archives; half a minute and 0.7 GB each. They are in .cache/releases of the checkout, or in DROVER_RELEASES.
set -eu
cd "$(dirname "$0")/../.."
. tests/setup/packages.sh

[ $# -gt 0 ] || { echo "usage: release_root.sh SUITE..." >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "release_root: the root of a release needs root: run it with sudo." >&2; exit 4; }
roots=${DROVER_RELEASES:-.cache/releases}
mkdir -p "$roots"
roots=$(cd "$roots" && pwd)
umask 022
tests/setup/setup.sh bare
for suite; do
    [ ! -d "$roots/$suite" ] || continue
    # shellcheck disable=SC2086
    tests/setup/release.sh "$suite" "$roots/$suite" $HYPERVISOR $DRIVERS sudo >"$roots/$suite.log" 2>&1 </dev/null || {
        tail -n 5 "$roots/$suite.log" >&2
        echo "release_root: $suite cannot be made; see $roots/$suite.log." >&2
        exit 1
    }
done

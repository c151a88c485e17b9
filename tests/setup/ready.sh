#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes the machine ready for the tests. Where no package can be installed, they run with what is there; see tests/parts.py.
# DROVER_SKIP_NOTHING=1: the machine must be able to run all parts.
set -eu
cd "$(dirname "$0")/../.."

rm -f .cache/left-out
status=0
tests/setup/setup.sh packages || status=$?
case $status${DROVER_SKIP_NOTHING:+-refuse} in
    0 | 0-refuse) ;;
    4) echo "ready: the tests run with what is installed." >&2 ;;
    *) exit "$status" ;;
esac
tests/setup/setup.sh env
[ -z "${DROVER_SKIP_NOTHING:-}" ] || tests/lab/lab possible

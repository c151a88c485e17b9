#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# `make demo`: sets the machine up, starts the lab and shows the collection at work on it.
# Where no lab can run it says why in one line and shows what works without one.
set -u
cd "$(dirname "$0")/../.."

# Run a step of the way to the lab. Status 4 means that it leads nowhere on this machine.
reach() {
    [ -z "$reason" ] || return 0
    status=0
    { reason=$("$@" 2>&1 >&3); } 3>&1 || status=$?
    case $status in
        0) [ -z "$reason" ] || echo "$reason" >&2; reason= ;;
        4) reason=${reason#*: } ;;
        *) echo "$reason" >&2; exit 1 ;;
    esac
}

reason=
reach tests/setup/setup.sh packages
tests/setup/setup.sh env || exit 1
reach tests/lab/lab up
exec .venv/bin/python tests/lab/demo.py ${reason:+--without-lab "$reason"}

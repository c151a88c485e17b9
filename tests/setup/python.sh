# shellcheck shell=sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The choice of the Python of .venv. setup.sh reads this file.

# Only where the newest Python is not the system's: they build libvirt's binding for it.
BUILD="libvirt-dev pkg-config gcc libc6-dev"

no_python() { fail "There is no Python 3.10 or later that can make a virtual environment; on Debian install python3 and python3-venv."; }

# The Python of .venv: the newest, if libvirt's binding can be had for it.
choose_python() {
    # shellcheck disable=SC2086
    if ! find_python $NEW_PYTHONS; then
        find_python $OLD_PYTHONS || no_python
        # The distribution has the binding for its own.
        find_system_python $OLD_PYTHONS
        return
    fi
    if has_libvirt "$python" || { [ "$(head -n 1 .venv/.stamp 2>/dev/null)" = "$python, $("$python" -V) in $(pwd)" ] && has_libvirt .venv/bin/python; }; then
        return
    fi
    can_build_libvirt "$python" || install_to_build || :
    if ! can_build_libvirt "$python"; then
        use_system_python "libvirt's binding cannot be built for it without $BUILD and the headers of that Python"
    elif [ "$(cat "$not_built" 2>/dev/null)" = "$(build_of "$python")" ]; then
        use_system_python "libvirt's binding did not build for it"
    fi
}

# Not where it takes a password: there is another Python.
install_to_build() {
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || return 1
    # shellcheck disable=SC2086
    (log=$(mktemp) && trap tidy_up EXIT && install_packages $BUILD)
}

use_system_python() {
    newer=$("$python" -V)
    find_system_python "${OLD_PYTHONS% *}" "${NEW_PYTHONS#* }" || no_python
    say "$newer is not used, because $1: the environment gets the system's, $("$python" -V)"
}

# What a build of libvirt's binding that failed was of: it is not tried again before that changes.
not_built=.cache/libvirt-binding-not-built
build_of() { echo "$1, $("$1" -V), libvirt $(pkg-config --modversion libvirt), $(cksum <"$CONSTRAINTS")"; }

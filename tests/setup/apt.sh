# shellcheck shell=sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The installation of Debian's packages. setup.sh reads this file, and has say, fail, cannot, quietly, $root, $policy, $units and $updated.

missing_packages() {
    for package; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            echo "$package"
        fi
    done | xargs
}

become_root() {
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null || cannot "packages need root or sudo: $1"
    if ! sudo -n true 2>/dev/null; then
        [ -t 0 ] || cannot "sudo wants a password that nobody can type; packages needed: $1"
        sudo -v || cannot "sudo refused; packages needed: $1"
    fi
    root="sudo -n"
}

install_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        cannot "this is neither Debian nor Ubuntu: packages cannot be installed here."
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    become_root "$missing"
    say "installing Debian packages: $missing"
    # Only the programs are wanted: no service is to start now, or when the machine boots.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        policy=yes
        printf '#!/bin/sh\nexit 101\n' | $root tee /usr/sbin/policy-rc.d >/dev/null
        $root chmod 755 /usr/sbin/policy-rc.d
    fi
    update_lists
    enabled_units >"$units"
    # shellcheck disable=SC2086
    quietly $root env DEBIAN_FRONTEND=noninteractive apt-get -qy \
        -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing ||
        fail "apt-get could not install: $missing"
    # shellcheck disable=SC2046
    set -- $(enabled_units | comm -13 "$units" -)
    [ $# = 0 ] || $root systemctl -q disable "$@" 2>/dev/null || say "these would start when the machine boots: $*"
}

enabled_units() {
    if [ -d /run/systemd/system ]; then
        systemctl list-unit-files --state=enabled --no-legend | cut -d ' ' -f 1 | LC_ALL=C sort
    fi
}

# A package source that does not answer matters only if something then cannot be found.
update_lists() {
    [ -z "$updated" ] || return 0
    quietly $root apt-get -q update || say "apt-get update failed, trying with what apt knows"
    updated=yes
}

# Print those of the packages that this release has. (An installed one is known without lists.)
known() {
    for package; do
        if LC_ALL=C apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then echo "$package"; fi
    done
}

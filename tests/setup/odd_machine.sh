#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs tests as on a machine where all is odd that no test may lean on: a test that fails here leans on it.
#
#   odd_machine.sh                              all of it at once, with the unit tests of make test-unit
#   odd_machine.sh umask locale                 these alone
#   odd_machine.sh memory -- tests/unit/store   in pytest's words
#
#   memory   temporary files are in memory      umask    everybody may write each new file
#   zone     Kathmandu, 5:45 ahead of UTC       locale   German, where it is installed, and variables that say so
#   ipv6     there is none                      name     the name of the machine does not resolve
#   config   ~/.ansible.cfg, ~/.gitconfig, the configuration of ssh and the environment are those of somebody else
#
# Needs root: the machine itself is changed in namespaces, which end with the tests. Exit status: that of pytest; 4 without root.
set -eu
cd "$(dirname "$0")/../.."

ALL="memory umask zone locale ipv6 name config"
chosen=
while [ $# -gt 0 ]; do
    case " $ALL " in
        *" $1 "*) chosen="$chosen $1" ;;
        *) [ "$1" = -- ] || { echo "odd_machine: there is no $1; there are $ALL." >&2; exit 2; }; shift; break ;;
    esac
    shift
done
[ $# -gt 0 ] || set -- -m 'not long' --one-in 8 tests/unit tests/properties
if [ -z "${ODD_INSIDE:-}" ]; then
    unshare --mount --net --uts true 2>/dev/null || { echo "odd_machine: namespaces need root." >&2; exit 4; }
    # shellcheck disable=SC2086
    ODD_INSIDE=yes exec unshare --mount --net --uts tests/setup/odd_machine.sh ${chosen:-$ALL} -- "$@"
fi
unset ODD_INSIDE
ip link set lo up

odd_memory() {
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    unset TMPDIR
}

odd_umask() { umask 000; }

odd_zone() { export TZ=Asia/Kathmandu; }

odd_locale() {
    export LANG=de_DE.UTF-8 LANGUAGE=de
    locale -a 2>/dev/null | grep -qi '^de_DE.utf-\?8$' || export LC_ALL=C
}

odd_ipv6() {
    for file in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >"$file"; done
}

odd_name() { hostname nowhere-1; }

odd_config() {
    home=$(mktemp -d)
    cat >"$home/.ansible.cfg" <<'END'
[defaults]
remote_user = somebody
inventory = /nowhere/inventory
stdout_callback = nowhere
forks = 1
[privilege_escalation]
become = true
become_user = somebody
END
    printf '[core]\n\tautocrlf = true\n[init]\n\ttemplateDir = /nowhere\n' >"$home/.gitconfig"
    printf 'Host *\n    Port 9\n    ProxyCommand false\n    User somebody\n' >"$home/ssh_config"
    [ ! -e /etc/ssh/ssh_config ] || mount --bind "$home/ssh_config" /etc/ssh/ssh_config
    export HOME="$home" XDG_CONFIG_HOME=/nowhere XDG_STATE_HOME=/nowhere
    export ANSIBLE_BECOME=true ANSIBLE_REMOTE_USER=somebody ANSIBLE_STDOUT_CALLBACK=nowhere ANSIBLE_INVENTORY=/nowhere ANSIBLE_VAULT_PASSWORD_FILE=/nowhere
    export DROVER_STORE_URL=sqlite:////nowhere/store.db PGHOST=nowhere.invalid PGUSER=somebody PGSERVICE=nowhere
    export LIBVIRT_DEFAULT_URI=qemu+ssh://nowhere.invalid/system GIT_DIR=/nowhere PYTHONPATH=/nowhere PIP_INDEX_URL=http://nowhere.invalid
    export http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9 COLUMNS=20 NO_COLOR=1 CDPATH=/ EDITOR=false
}

for each in $chosen; do "odd_$each"; done
status=0
.venv/bin/pytest -q -n 2 -p no:cacheprovider "$@" || status=$?
[ -z "${home:-}" ] || rm -rf "$home"
exit "$status"

#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs a command in a clone of this checkout on a fresh Debian that has nothing but git and make: the machine of a new user.
#
#   bare_root.sh trixie make demo               any release that debootstrap knows
#   bare_root.sh bookworm 'make demo && make test'
#   bare_root.sh trixie bash                    to look around
#
# The clone has what is committed. The root of the release is made once, in DROVER_BARE_ROOTS [~/.cache/bare-roots]. The command runs in
# a layer above it and in namespaces of its own, which end with it: neither a process nor a file is left. The machine gives the kernel,
# the devices and the network, and what it takes to get out: proxies, the settings of pip, certificates. Its host name resolves nowhere,
# there is no locale, and from Debian 13 on /tmp is in memory, as it is there by default.
#
# Exit status: that of the command; 1 if the root cannot be made, 4 if this machine has no root or no packages for it.
set -eu
cd "$(dirname "$0")/../.."

HAS="ca-certificates git make"
PASSED_ON="TERM http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE REQUESTS_CA_BUNDLE PIP_CERT PIP_INDEX_URL"
FOLDER=/root/drover.compute

[ $# -ge 2 ] || { echo "usage: bare_root.sh SUITE COMMAND..." >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "bare_root: a root of another release needs root: run it with sudo." >&2; exit 4; }
suite=$1
shift
roots=${DROVER_BARE_ROOTS:-$HOME/.cache/bare-roots}
base=$roots/$suite
umask 022

tests/setup/setup.sh bare
mkdir -p "$roots"
(
    flock 9
    # shellcheck disable=SC2086
    [ -d "$base" ] || tests/setup/release.sh "$suite" "$base" $HAS >"$base.log" 2>&1 || { tail -n 5 "$base.log" >&2; echo "bare_root: $suite cannot be made; see $base.log." >&2; exit 1; }
) 9>"$base.lock"

layer=$(mktemp -d "$roots/run.XXXXXX")
trap 'rm -rf --one-file-system "$layer"' EXIT
mkdir "$layer/files" "$layer/work" "$layer/root"
passed_on=
for name in $PASSED_ON; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || passed_on="$passed_on $name=$value"
done
exec 3<&0
# In the background, with the input of the terminal, for a shell heeds no signal while it waits for a command in the foreground.
# shellcheck disable=SC2016
env --default-signal=INT,QUIT unshare --mount --uts --ipc --pid --fork --kill-child sh -euc '
    layer=$1 base=$2 folder=$3 passed_on=$4 command=$5
    root=$layer/root
    # Nothing of the layer outlives the command: it is not written to the disk in time.
    mount -t overlay -o "lowerdir=$base,upperdir=$layer/files,workdir=$layer/work,volatile" overlay "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    . "$root/etc/os-release"
    [ "${VERSION_ID:-13}" -lt 13 ] || mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    hostname fresh-machine
    git clone -q . "$root$folder"
    chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin $passed_on \
        sh -c "cd $folder && exec sh -c \"\$1\"" - "$command"
' - "$layer" "$base" "$FOLDER" "$passed_on" "$*" <&3 &
trap 'kill -s KILL $!; exit 1' HUP INT TERM
status=0
wait $! || status=$?
exit "$status"

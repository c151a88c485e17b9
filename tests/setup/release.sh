#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes the root of a release of Debian or Ubuntu in a folder, with the packages of a list that the release has. No package starts a service.
#
#   release.sh SUITE FOLDER PACKAGE...
#
# The folder appears when all is done. A script of its own, because a failure in a function after || would not end it. It needs root.
set -eu

UBUNTU="jammy noble resolute"
UBUNTU_KEYS=/usr/share/keyrings/ubuntu-archive-keyring.gpg

# What the machine needs to reach the archives, the root needs too.
copy_settings() {
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
    apt-config dump | grep -E '^Acquire::(https?::Proxy|Check-)' >"$1/etc/apt/apt.conf.d/90machine" || :
    for file in /etc/pip.conf "$HOME/.config/pip/pip.conf"; do
        [ ! -f "$file" ] || install -D -m 644 "$file" "$1$file"
    done
    mkdir -p "$1/usr/local/share/ca-certificates"
    cp -r /usr/local/share/ca-certificates/. "$1/usr/local/share/ca-certificates/" 2>/dev/null || :
}

# Run apt-get in a root.
apt_get_in() {
    apt_root=$1
    shift
    chroot "$apt_root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qy "$@"
}

# The keys of Ubuntu's archive come from Debian, whose keys the machine has; not each release of Debian has the package.
make_ubuntu() {
    keys=$UBUNTU_KEYS
    if [ ! -f "$keys" ]; then
        rm -rf "$folder.keys"
        "$0" sid "$folder.keys" ubuntu-archive-keyring
        keys=$folder.keys$UBUNTU_KEYS
    fi
    # The script of the newest releases is that of all since gutsy.
    debootstrap --variant=minbase --keyring="$keys" --components=main,universe "$suite" "$folder.new" \
        http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy
    rm -rf "$folder.keys"
}

# Print those of the packages that a root's release has.
known_in() {
    known_root=$1
    shift
    for package; do
        if LC_ALL=C chroot "$known_root" apt-cache policy "$package" | grep -q 'Candidate: [^(]'; then echo "$package"; fi
    done
}

suite=$1 folder=$2
shift 2
echo "making $folder"
rm -rf "$folder" "$folder.new"
case " $UBUNTU " in
    *" $suite "*) make_ubuntu ;;
    *) debootstrap --variant=minbase "$suite" "$folder.new" ;;
esac
copy_settings "$folder.new"
printf '#!/bin/sh\nexit 101\n' >"$folder.new/usr/sbin/policy-rc.d"
chmod 755 "$folder.new/usr/sbin/policy-rc.d"
apt_get_in "$folder.new" update
# shellcheck disable=SC2046
apt_get_in "$folder.new" install --no-install-recommends $(known_in "$folder.new" "$@")
apt_get_in "$folder.new" clean
rm "$folder.new/usr/sbin/policy-rc.d"
mv "$folder.new" "$folder"

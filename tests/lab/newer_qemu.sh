#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Gets the QEMU of Debian's backports for `tests/lab/lab up --newer-qemu HOST`. The packages are unpacked into a folder, and installed nowhere:
# the machine's sources of packages, and what it has installed, stay as they are. Its libraries must be those of the release.
#
# Usage: tests/lab/newer_qemu.sh  (writes .cache/newer-qemu in the checkout)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
out=$here/.cache/newer-qemu
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
release=$codename-backports
# Where the machine has its own packages from.
site=$(apt-get indextargets --format '$(SITE) $(RELEASE)' | sed -n "s/ $codename\$//p" | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages" "$work/root"
cat > "$work/backports.sources" <<END
Types: deb
URIs: $site
Suites: $release
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END

apt() {
    apt-get -q -o Dir::Etc::sourcelist="$work/backports.sources" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$work/lists" \
        -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}

apt update
cd "$work/packages"
for name in qemu-system-x86 qemu-system-common qemu-system-data qemu-utils qemu-block-extra seabios; do
    apt download "$name/$release"
done
for file in *.deb; do dpkg-deb -x "$file" "$work/root"; done
"$work/root/usr/bin/qemu-system-x86_64" --version
rm -rf "$out"
mkdir -p "$out"
mv "$work/root/usr" "$out/usr"

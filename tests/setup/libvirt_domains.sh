#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Fetch the domains with which libvirt tests itself, from the source package of this machine's release: into .cache/libvirt-domains.
# They are libvirt's, and stay outside of the repository. Nothing of the machine is changed, and no root is needed.
set -eu
cd "$(dirname "$0")/../.."
TO=$PWD/.cache/libvirt-domains
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$WORK/parts" "$WORK/state/lists/partial" "$WORK/cache/archives/partial" "$TO"
for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" > "$WORK/parts/${file##*/}"
done
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$file" ] || sed -n 's/^deb /deb-src /p' "$file" > "$WORK/parts/${file##*/}.list"
done
cd "$WORK"
set -- -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$WORK/parts" -o Dir::State="$WORK/state" -o Dir::Cache="$WORK/cache"
set -- "$@" -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=2 -o Acquire::http::Timeout=30
apt-get "$@" update
apt-get "$@" source --download-only libvirt
rm -f ./*.asc
# Their folder has another name in later releases; another one has what libvirt makes of them.
tar --extract --file libvirt_*.orig.tar.* --strip-components=3 --directory "$TO" --exclude='*xml2xmlout*' --wildcards '*/tests/qemuxml*/*.xml'

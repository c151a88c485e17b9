#!/bin/sh
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds libvirt's split daemons (virtqemud and others) for `tests/lab/lab up --split HOST`, from the source of the machine's libvirt package.
# Debian 12 has them in no package. Needs root, Debian's archive and some 4 GiB of memory; takes some three minutes on two cores.
# The tools to build with are installed into an overlay in memory, which ends with this script: the machine stays as it is.
#
# Usage: tests/lab/split_daemons.sh  (writes .cache/split-daemons in the checkout)
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
out=$here/.cache/split-daemons
mkdir -p "$out"
# shellcheck disable=SC2016  # the version is for the script inside
export OUT="$out" LIBVIRT="$(dpkg-query --show --showformat '${source:Version}' libvirt0)"

exec timeout 3600 unshare --mount sh -euc '
work=$(mktemp -d)
mount -t tmpfs -o size=6g none "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount --rbind /proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mkdir -p "$work/root/build" "$work/root/out"
mount --bind "$OUT" "$work/root/out"
# No package may start a service.
printf "#!/bin/sh\nexit 101\n" > "$work/root/usr/sbin/policy-rc.d"
chmod 755 "$work/root/usr/sbin/policy-rc.d"
rm -f "$work/root/etc/apt/sources.list" "$work/root/etc/apt/sources.list.d/"*
cat > "$work/root/etc/apt/sources.list.d/debian.sources" <<END
Types: deb deb-src
URIs: http://deb.debian.org/debian
Suites: $(. /etc/os-release && echo "$VERSION_CODENAME $VERSION_CODENAME-updates")
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
chroot "$work/root" sh -euc "
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -yq --no-install-recommends dpkg-dev meson ninja-build gcc libc6-dev pkgconf gettext xsltproc python3-docutils rpcsvc-proto \
        libglib2.0-dev libgnutls28-dev libxml2-dev libxml2-utils libtirpc-dev libyajl-dev libpciaccess-dev libnl-3-dev libnl-route-3-dev \
        libdevmapper-dev libudev-dev libcap-ng-dev libacl1-dev libreadline-dev
    cd /build
    apt-get source -q --download-only libvirt=$LIBVIRT
    dpkg-source -x *.dsc source
    cd source
    meson setup build -Dsystem=true --prefix=/usr --libdir=lib/$(gcc -print-multiarch 2> /dev/null || echo x86_64-linux-gnu) \
        --sysconfdir=/etc --localstatedir=/var -Drunstatedir=/run -Ddocs=disabled -Dtests=disabled -Dnls=disabled -Dqemu_user=libvirt-qemu \
        -Dqemu_group=libvirt-qemu -Ddriver_remote=enabled -Ddriver_libvirtd=enabled -Ddriver_qemu=enabled -Ddriver_network=enabled \
        -Dstorage_dir=enabled -Dudev=enabled -Dpciaccess=enabled -Dyajl=enabled -Dlibnl=enabled -Ddriver_interface=disabled
    for name in virtqemud virtproxyd virtnodedevd virtnetworkd virtnwfilterd virtsecretd virtstoraged; do
        nice ninja -C build src/\$name
        strip -o /out/\$name build/src/\$name
    done
"
'

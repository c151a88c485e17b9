#!/usr/bin/env bash
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Builds the site into build/docs (build/docs/index.html): the pages of docs, the READMEs, and the reference of every
# module, plugin and role. A warning is a failure, but for labels of Ansible's own documentation, which is
# not asked. Needs .venv-lint; VENV_DOCS names another environment.

set -euo pipefail

ROOT=$(cd "$(dirname "$0")/../.." && pwd -P)
VENV=${VENV_DOCS:-$ROOT/.venv-lint}
TARGET=${1:-$ROOT/build/docs}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

[ -x "$VENV/bin/sphinx-build" ] || {
    echo "docs: no $VENV/bin/sphinx-build: run tests/setup/setup.sh lint first" >&2
    exit 2
}
# Links between the pages stay as they are: the tree is the checkout's.
mkdir -p "$WORK/collections/ansible_collections/drover" "$WORK/source/reference"
chmod 700 "$WORK/source/reference"
ln -s "$ROOT" "$WORK/collections/ansible_collections/drover/compute"
cd "$ROOT"
cp -R docs README.md CONTRIBUTING.md CODE_OF_CONDUCT.md CHANGELOG.rst COPYING "$WORK/source"
for role in roles/*/README.md; do
    mkdir -p "$WORK/source/${role%/*}"
    cp "$role" "$WORK/source/$role"
done
# The start page is docs/index.md too, seen from the top.
cp -R docs/pictures "$WORK/source"
mv "$WORK/source/docs/docsite/site/"* "$WORK/source"
rm -r "$WORK/source/docs/docsite"
export PATH="$VENV/bin:$PATH" ANSIBLE_COLLECTIONS_PATH="$WORK/collections"
antsibull-docs collection --use-current --squash-hierarchy --fail-on-error \
    --dest-dir "$WORK/source/reference" drover.compute
# Private modules and filters, which begin with "_", are in no index and no search. Their pages stay, as public pages link to them.
PRIVATE='_[a-z_]+_(module|filter)'
sed -i -E "/^\* :ansplugin:\`_/d; /^ +$PRIVATE\$/d" "$WORK/source/reference/index.rst"
sed -i 's/^:orphan:$/:orphan:\n:nosearch:/' "$WORK"/source/reference/_*_{module,filter}.rst
mkdir -p "$TARGET"
sphinx-build -q -E -b html -d "$WORK/doctrees" "$WORK/source" "$TARGET" 2>"$WORK/warnings.txt" || {
    cat "$WORK/warnings.txt" >&2
    exit 1
}
if grep -vE "undefined label: '(ansible_collections\.ansible|ansible:|[a-z_]*'( \[ref.ref\])?$)" \
    "$WORK/warnings.txt" | grep -E "WARNING|ERROR"; then
    exit 1
fi
if grep -HE "href=\"(reference/)?$PRIVATE\.html" "$TARGET"/{index,genindex,reference/index}.html ||
    ! "$VENV/bin/python" - "$TARGET/searchindex.js" <<'END'; then
import json, pathlib, re, sys

found = json.loads(re.search(r"\{.*\}", pathlib.Path(sys.argv[1]).read_text()).group())
private = {number for number, name in enumerate(found["docnames"]) if name.startswith("reference/_")}
sys.exit(any(place[0] in private for places in found["alltitles"].values() for place in places))
END
    echo "docs: private modules or filters are in an index of the site, or in its search" >&2
    exit 1
fi
echo "docs: $TARGET/index.html"

# shellcheck shell=bash
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The copies of the working tree, and the home folder of the tools. lint.sh reads this file.

# Names of the working tree's files, each ended by a zero byte; deleted ones are left out.
list_files() {
    cd "$ROOT"
    git ls-files -z --cached --others --exclude-standard --deduplicate -- \
        . ':!.venv' ':!.venv-lint' ':!.cache' ':!.lab' |
        xargs -0 -r sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\0" "$f"; fi; done' sh
}

# $1 gets an ansible_collections/drover/compute.
copy_tree() {
    mkdir -p "$1/ansible_collections/drover/compute"
    list_files | tar --create --file=- -C "$ROOT" --null --files-from=- |
        tar --extract --file=- -C "$1/ansible_collections/drover/compute"
    # ansible-test and ansible-lint ask git for the files. In a folder that the checkout ignores
    # git answers "none", and both are content with that: so each copy is a repository of its own.
    git -C "$1/ansible_collections/drover/compute" init --quiet
    git -C "$1/ansible_collections/drover/compute" add --all --force
}

# Set the home folder of the tools. ansible-test passes HOME to pip and nothing else, so pip's settings go into a file in it.
prepare_home() {
    local home=$CACHE/home
    mkdir -p "$home/.config/pip"
    "$VENV/bin/python" -m pip config list | "$VENV/bin/python" "$ROOT/tests/setup/lint/pip_conf.py" >"$home/.config/pip/pip.conf"
    export HOME=$home XDG_CACHE_HOME=$home/.cache ANSIBLE_HOME=$home/.ansible
    unset XDG_CONFIG_HOME ANSIBLE_CONFIG ANSIBLE_COLLECTIONS_PATH PYTHONPATH
    export NO_COLOR=1 ANSIBLE_NOCOLOR=1 PY_COLORS=0 PYTHONUNBUFFERED=1
}

# Make the copies: three, because each ansible-test writes into its own while the others read.
copy_trees() {
    rm -rf "$WORK"
    mkdir -p "$WORK/log" "$WORK/dist"
    copy_tree "$WORK/sanity"
    copy_tree "$WORK/pylint"
    copy_tree "$WORK/tree"
}

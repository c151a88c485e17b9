#!/usr/bin/env bash
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Every check that needs no running code of ours. All of them run, whatever the first ones say;
# the summary comes last, and the exit status is 1 if any of them failed.
#
#   tests/setup/lint.sh                     everything but pylint, which takes as long as all others
#   tests/setup/lint.sh sanity pylint       only those
#   tests/setup/lint.sh newest              everything with the newest of all packages, and more of sanity
#
# Works on a copy of the working tree (with what is not committed yet, without what git ignores)
# below .cache, because ansible-test wants a folder that really is named
# ansible_collections/drover/compute. The home folder of the tools is .cache/home: nothing is
# written outside the checkout.
#
# Needs .venv and .venv-lint, which tests/setup/setup.sh makes. "newest" needs .cache/core-newest and .cache/lint-newest: make lint-newest.

set -euo pipefail

ROOT=$(cd "$(dirname "$0")/../.." && pwd -P)
CACHE=$ROOT/.cache
WORK=$CACHE/lint
VENV=$ROOT/.venv
VENV_LINT=$ROOT/.venv-lint
# ansible-test's Python and those of hypervisors, beside the system's; HOME is another one below.
export PYENV_ROOT=${PYENV_ROOT:-$HOME/.pyenv}
USUAL="ruff mypy python sanity build importer ansible-lint docs changelog layering environment"
ALL="$USUAL pylint"

die() {
    echo "lint: $*" >&2
    exit 2
}

for word in "$@"; do
    case " $ALL newest " in
        *" $word "*) ;;
        *) die "there is no check '$word'; there are: $ALL newest" ;;
    esac
done
WANTED=" ${*:-$USUAL} "
if [ "$WANTED" = " newest " ]; then
    VENV=$CACHE/core-newest VENV_LINT=$CACHE/lint-newest
    # The check newest has sanity and pylint in it.
    WANTED=" ${USUAL/sanity /} newest "
fi
# The importer reads what the build made.
case $WANTED in *" importer "*) WANTED="$WANTED build " ;; esac

wanted() {
    case $WANTED in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

[ -x "$VENV/bin/ansible-test" ] || die "no $VENV: run tests/setup/setup.sh first"
[ -x "$VENV_LINT/bin/ansible-lint" ] || die "no $VENV_LINT: run tests/setup/setup.sh lint first"

# Where the collections are that ours depends on.
COLLECTIONS=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# --- the copies -------------------------------------------------------------------------------

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

rm -rf "$WORK"
mkdir -p "$WORK/log" "$WORK/dist"
# Three: each ansible-test writes into its own while the others read.
copy_tree "$WORK/sanity"
copy_tree "$WORK/pylint"
copy_tree "$WORK/tree"
COPY=$WORK/tree/ansible_collections/drover/compute

# --- the home folder --------------------------------------------------------------------------

# ansible-test passes HOME to pip and nothing else, so pip's settings go there as a file.
prepare_home() {
    local home=$CACHE/home
    mkdir -p "$home/.config/pip"
    "$VENV/bin/python" -m pip config list | "$VENV/bin/python" -c '
import ast, sys

sections = {}
for line in sys.stdin:
    key, _, value = line.rstrip("\n").partition("=")
    section, _, option = key.rpartition(".")
    section = {":env:": "global"}.get(section, section)
    sections.setdefault(section, {})[option] = ast.literal_eval(value)
for section, options in sections.items():
    print(f"[{section}]")
    for option, value in options.items():
        if option != "version":
            indented = str(value).replace("\n", "\n    ")
            print(f"{option} = {indented}")
' >"$home/.config/pip/pip.conf"
    export HOME=$home XDG_CACHE_HOME=$home/.cache ANSIBLE_HOME=$home/.ansible
    unset XDG_CONFIG_HOME ANSIBLE_CONFIG ANSIBLE_COLLECTIONS_PATH PYTHONPATH
}
prepare_home
export NO_COLOR=1 ANSIBLE_NOCOLOR=1 PY_COLORS=0 PYTHONUNBUFFERED=1

# --- the checks -------------------------------------------------------------------------------

# What ansible-test takes for pip's installer is below the name of the version that it wants. $1: its environment.
provide_pip() {
    local pinned
    pinned=$("$1/bin/python" - <<'EOF'
import pathlib
import re

import ansible_test

text = (pathlib.Path(ansible_test.__file__).parent / "_internal" / "python_requirements.py").read_text()
found = re.search(r"pip='([\d.]+)'", text)
print((found.group(1) if found else "24.2").replace(".", "_"))
EOF
    )
    mkdir -p "$HOME/.ansible/test/cache"
    cp "$ROOT/tests/setup/get_pip" "$HOME/.ansible/test/cache/get_pip_$pinned.py"
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# The copy $1 is for it alone: it writes into it. $2 is the environment of ansible-test, $3 the version of Python. The other words are ansible-test's.
ansible_test_sanity() {
    local copy=$1 env=$2 python=$3
    shift 3
    provide_pip "$env"
    cd "$WORK/$copy/ansible_collections/drover/compute"
    if compgen -G 'tests/sanity/ignore*' >/dev/null; then
        echo "tests/sanity holds an ignore file: repair what it hides"
        return 1
    fi
    PATH="$env/bin:$PATH" ansible-test sanity --local --python "$python" --color no "$@" 2>&1 |
        tee "$WORK/$copy.txt"
    if grep -q "All targets skipped" "$WORK/$copy.txt"; then
        echo "ansible-test saw no file at all"
        return 1
    fi
}

# Settings: pyproject.toml.
check_ruff() {
    cd "$COPY"
    "$VENV_LINT/bin/ruff" check --no-cache .
    "$VENV_LINT/bin/ruff" format --no-cache --check .
}

# Settings: pyproject.toml. NumPy and SQLAlchemy, whose types it reads, are in the other environment.
check_mypy() {
    cd "$WORK/tree"
    "$VENV_LINT/bin/mypy" --config-file "$COPY/pyproject.toml" --python-executable "$VENV/bin/python" --cache-dir "$CACHE/mypy" \
        --package ansible_collections.drover.compute.plugins
}

# The oldest Python of the controller, and that of hypervisors: what an import or a word of the language needs.
check_python() {
    cd "$COPY"
    "$VENV_LINT/bin/vermin" --quiet --no-tips --violations -t=3.10- plugins/action plugins/filter plugins/inventory plugins/lookup plugins/plugin_utils
    "$VENV_LINT/bin/vermin" --quiet --no-tips --violations -t=3.9- plugins/modules plugins/module_utils
}

# Without the import of each plugin by itself, which takes as long as the rest: the unit tests import all of them, and the check newest does.
check_sanity() {
    ansible_test_sanity sanity "$VENV" "$(version_of "$VENV/bin/python")" --skip-test pylint --skip-test import
}

# All of it on the newest Python; what depends on the Python of a hypervisor with each other one that is here.
check_newest() {
    local folder
    ansible_test_sanity sanity "$VENV" "$(version_of "$VENV/bin/python")"
    for folder in "$PYENV_ROOT"/versions/3.{9,10,11,12,13,14}.*/bin; do
        [ -x "$folder/python3" ] || continue
        PATH="$folder:$PATH" ansible_test_sanity sanity "$VENV" "$(version_of "$folder/python3")" --test compile --test import
    done
}

# What ships. The tests themselves, which take as long again, are for check_newest.
check_pylint() {
    ansible_test_sanity pylint "$VENV" "$(version_of "$VENV/bin/python")" --test pylint plugins/
}

check_build() {
    "$VENV/bin/ansible-galaxy" collection build "$ROOT" --output-path "$WORK/dist" --force
}

# Without its ansible-lint: the check of that name is stricter. Its exit status is 0 whatever it finds in the archive: a warning fails here.
check_importer() {
    local archive
    archive=$(find "$WORK/dist" -name '*.tar.gz' | head -n 1)
    [ -n "$archive" ] || {
        echo "there is no archive: the build failed"
        return 1
    }
    cd "$WORK/dist"
    PATH="$VENV_LINT/bin:$PATH" GALAXY_IMPORTER_CHECK_REQUIRED_TAGS=true GALAXY_IMPORTER_RUN_ANSIBLE_LINT=false \
        ANSIBLE_COLLECTIONS_PATH="$COLLECTIONS" \
        "$VENV_LINT/bin/python" -m galaxy_importer.main "$archive" 2>&1 | tee importer.txt
    if grep -qE '^(WARNING|ERROR)' importer.txt; then
        echo "a warning of galaxy-importer counts as a failure here"
        return 1
    fi
}

check_ansible-lint() {
    cd "$COPY"
    PATH="$VENV_LINT/bin:$PATH" ANSIBLE_COLLECTIONS_PATH="$WORK/tree:$COLLECTIONS" \
        ansible-lint --offline --profile production --nocolor --strict
}

check_docs() {
    cd "$COPY"
    PATH="$VENV_LINT/bin:$PATH" antsibull-docs lint-collection-docs \
        --plugin-docs --skip-rstcheck --validate-collection-refs=all .
}

check_changelog() {
    cd "$COPY"
    PATH="$VENV_LINT/bin:$PATH" antsibull-changelog lint
}

check_layering() {
    cd "$WORK/tree"
    PYTHONPATH="$WORK/tree" "$VENV/bin/lint-imports" --no-cache --no-logo --config "$COPY/.importlinter"
}

# The image for AWX: that its definition is accepted, and that another one with the collection in it gets
# what the collection needs. No image is built: that wants a container engine.
check_environment() {
    mkdir -p "$WORK/image"
    cp "$COPY/execution-environment.yml" "$WORK/image"
    "$VENV/bin/ansible-galaxy" collection build "$COPY" --output-path "$WORK/image/build" --force
    "$VENV_LINT/bin/ansible-builder" create --file "$WORK/image/execution-environment.yml" --context "$WORK/environment" \
        --output-filename Containerfile
    "$VENV_LINT/bin/ansible-builder" introspect "$WORK/tree" --write-pip "$WORK/pip.txt" --write-bindep "$WORK/bindep.txt"
    grep -q '^SQLAlchemy' "$WORK/pip.txt"
    grep -q '^openssh-clients' "$WORK/bindep.txt"
}

# Run the check $1 and note its verdict and its seconds.
run() {
    local begin=$SECONDS status
    # Not "( ... ) || status=$?": on the left of || bash forgets "set -e" in the parentheses too.
    set +e
    (
        set -euo pipefail
        "check_$1"
    ) >"$WORK/log/$1.txt" 2>&1 </dev/null
    status=$?
    set -e
    echo "$status $((SECONDS - begin))" >"$WORK/log/$1.status"
    echo "lint: $1 $([ "$status" = 0 ] && echo ok || echo FAILED) ($((SECONDS - begin)) s)"
}

# Two lanes that take about as long. The importer reads what the build has made.
lane() {
    local check
    for check in "$@"; do
        if wanted "$check"; then run "$check"; fi
    done
}
if wanted build; then run build; fi
lane pylint importer ansible-lint &
lane ruff mypy python sanity newest docs changelog layering environment
wait

# --- the summary ------------------------------------------------------------------------------

failed=""
for check in $ALL newest; do
    wanted "$check" || continue
    read -r status seconds <"$WORK/log/$check.status"
    if [ "$status" != 0 ]; then
        failed="$failed $check"
        printf '\n==== %s ====\n' "$check"
        cat "$WORK/log/$check.txt"
    fi
done
printf '\n==== summary ====\n'
for check in $ALL newest; do
    wanted "$check" || continue
    read -r status seconds <"$WORK/log/$check.status"
    printf '%-14s %-7s %4s s\n' "$check" "$([ "$status" = 0 ] && echo ok || echo FAILED)" "$seconds"
done
if [ -n "$failed" ]; then
    echo "lint: failed:$failed (the whole output: .cache/lint/log)"
    exit 1
fi
echo "lint: all clean"

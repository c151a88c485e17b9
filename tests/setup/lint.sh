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
# Works on copies of the working tree (with what is not committed yet, without what git ignores) below .cache, because ansible-test
# wants a folder that really is named ansible_collections/drover/compute. The home folder of the tools is .cache/home: nothing is
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
# The checks in two lanes that take about as long. The importer reads the result of the build.
LANE="pylint importer ansible-lint"
OTHER_LANE="ruff mypy python sanity newest docs changelog layering environment commits"
USUAL="build importer ansible-lint ruff mypy python sanity docs changelog layering environment commits"
ALL="$USUAL pylint newest"

for part in tree sanity checks; do . "$ROOT/tests/setup/lint/$part.sh"; done

die() {
    echo "lint: $*" >&2
    exit 2
}

for word in "$@"; do
    case " $ALL " in
        *" $word "*) ;;
        *) die "there is no check '$word'; there are: $ALL" ;;
    esac
done
WANTED=" ${*:-$USUAL} "
if [ "$WANTED" = " newest " ]; then
    VENV=$CACHE/core-newest VENV_LINT=$CACHE/lint-newest
    # The check newest has sanity and pylint in it.
    WANTED=" ${USUAL/sanity /} newest "
fi
case $WANTED in *" importer "*) WANTED="$WANTED build " ;; esac

[ -x "$VENV/bin/ansible-test" ] || die "no $VENV: run tests/setup/setup.sh first"
[ -x "$VENV_LINT/bin/ansible-lint" ] || die "no $VENV_LINT: run tests/setup/setup.sh lint first"

# The folder of the collections that ours depends on.
COLLECTIONS=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# The folder of the copy that the checks read.
COPY=$WORK/tree/ansible_collections/drover/compute
copy_trees
prepare_home

# Run those of the checks that are wanted, and note the verdict and the seconds of each.
run() {
    local check begin status
    for check in "$@"; do
        case $WANTED in *" $check "*) ;; *) continue ;; esac
        begin=$SECONDS
        # Not "( ... ) || status=$?": on the left of || bash forgets "set -e" in the parentheses too.
        set +e
        (
            set -euo pipefail
            "check_$check"
        ) >"$WORK/log/$check.txt" 2>&1 </dev/null
        status=$?
        set -e
        if [ "$status" = 0 ]; then status=$(grep '^left out: ' "$WORK/log/$check.txt" || echo ok); else status=FAILED; fi
        printf '%-14s %4s s  %s\n' "$check" $((SECONDS - begin)) "$status" | tee "$WORK/log/$check.status" | sed 's/^/lint: /'
    done
}
run build
# shellcheck disable=SC2086
run $LANE &
# shellcheck disable=SC2086
run $OTHER_LANE
wait

failed=$({ grep -l ' FAILED$' "$WORK"/log/*.status || :; } | xargs -r -n 1 basename -s .status | xargs)
for check in $failed; do
    printf '\n==== %s ====\n' "$check"
    cat "$WORK/log/$check.txt"
done
printf '\n==== summary ====\n'
cat "$WORK"/log/*.status
[ -z "$failed" ] || { echo "lint: failed: $failed (the whole output: .cache/lint/log)"; exit 1; }
echo "lint: all clean"

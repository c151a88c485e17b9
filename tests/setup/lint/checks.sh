# shellcheck shell=bash
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The other checks, each in a function. lint.sh reads this file. A check that succeeds and prints "left out: REASON" is left out.

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

# The checkout's own history: the copies have none.
check_commits() { "$VENV/bin/python" "$ROOT/tests/setup/lint/commits.py" "$ROOT"; }

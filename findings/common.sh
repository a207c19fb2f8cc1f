# shellcheck shell=bash
# Sourced by every finding: works in a temporary folder, which is removed at the end, and installs packages into it alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# Installs these Python packages, and makes `python` the one that has them.
install_python() {
    python3 -m venv venv
    PATH=$folder/venv/bin:$PATH
    python -m pip install -qq --disable-pip-version-check "$@"
}

# Installs these npm packages where a script in the temporary folder finds them.
install_node() {
    npm install --silent --no-fund --no-audit "$@" >npm.log 2>&1 || { cat npm.log >&2; exit 2; }
}

# Unpacks these packages of Debian; needs no root. Their programs are on PATH afterwards.
install_debian() {
    apt-get download -qq -o APT::Sandbox::User=root "$@"
    for package in ./*.deb; do dpkg-deb -x "$package" debian; done
    PATH=$folder/debian/usr/games:$folder/debian/usr/bin:$PATH
}

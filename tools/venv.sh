#!/usr/bin/env bash
# Makes the virtual environment DIR if it is not there and installs eagerflow into it, editable.
#   tools/venv.sh DIR EXTRAS        e.g. tools/venv.sh .venv dev,notebook
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=$1 extras=$2
python=$(tools/python.sh)
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# Debian and Ubuntu ship Python without the modules that make virtual environments.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  package="python$version-venv"
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing $package (system package)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
  else
    echo "$python cannot make virtual environments; install $package (or python3-venv) and run make again" >&2
    exit 1
  fi
fi

# An environment whose Python has gone away, or that was left half made, is made anew.
if ! "$dir/bin/python" -m pip --version >/dev/null 2>&1; then
  echo "making $dir with Python $version ($python)"
  rm -rf "$dir"
  "$python" -m venv "$dir"
fi

echo "installing eagerflow[$extras] into $dir (the first time takes a few minutes)"
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extras]"

#!/usr/bin/env bash
# Prints the first Python >= 3.11 on this machine: $PYTHON if set, else the usual names.
set -euo pipefail

for name in ${PYTHON:-python3.13 python3.12 python3.11 python3.14 python3 python}; do
  # a pyenv shim may exist without a Python behind it, so ask the interpreter itself
  if path=$("$name" -c 'import sys; print(sys.executable) if sys.version_info >= (3, 11) else sys.exit(1)' 2>/dev/null); then
    echo "$path"
    exit 0
  fi
done
echo "eagerflow needs Python 3.11 or newer and found none; on Debian and Ubuntu: apt-get install python3 python3-venv" >&2
exit 1

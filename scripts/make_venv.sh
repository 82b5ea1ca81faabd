#!/bin/sh
# Create the virtual environment "$1" with $PYTHON; on Debian as root, install python3-venv if it is missing.
set -eu
venv=$1
python=${PYTHON:-python3}

command -v "$python" >/dev/null || { echo "edgestill: no '$python' found; install Python 3.10 or newer, or set PYTHON=..." >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "edgestill: $("$python" --version) is too old; edgestill needs 3.10 or newer: make PYTHON=python3.11 ..." >&2
    exit 1
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
    else
        echo "edgestill: this Python has no venv module; install it: sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi
echo "creating $venv with $("$python" --version) ..."
"$python" -m venv "$venv"

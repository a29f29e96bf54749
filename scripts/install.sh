#!/bin/sh
# install.sh PYTHON ARGUMENTS: install packages into PYTHON's environment, with uv (seconds) or, where uv cannot be had, with pip (minutes).
# A uv on the PATH is used; otherwise .venv gets its own.
set -eu
target=$1
shift
own=$(dirname "$0")/../.venv/bin
uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    # an environment that some uv made has no pip
    [ -x "$own/uv" ] || "$own/python" -m pip --version >/dev/null 2>&1 || "$own/python" -m ensurepip >/dev/null
    if [ -x "$own/uv" ] || "$own/python" -m pip install --quiet --disable-pip-version-check uv; then uv=$own/uv; fi
fi
# uv compares every file with its SHA-256. pip would want a hash of the checkout, too, so it gets the same versions without hashes.
case " $* " in *' -c constraints.txt '*) hashes='-c constraints.hashes.txt' ;; *) hashes= ;; esac
# shellcheck disable=SC2086
if [ -n "$uv" ] && "$uv" pip install --quiet --python "$target" $hashes "$@"; then exit 0; fi
# uv reads neither pip's configuration (an index of one's own) nor the system's certificates
echo 'setup: without uv; pip takes minutes' >&2
"$own/python" -m pip --version >/dev/null 2>&1 || "$own/python" -m ensurepip >/dev/null
exec "$own/python" -m pip --python "$target" install --quiet --disable-pip-version-check --use-pep517 "$@"

# shellcheck shell=sh
# Read by the others: which anyrig is meant. $ANYRIG names one, else it is looked for on the PATH and
# in the environment that `make run` makes.
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
if [ -z "${ANYRIG:-}" ]; then
    if command -v anyrig >/dev/null 2>&1; then
        ANYRIG=anyrig
    elif [ -x "$root/.venv/bin/anyrig" ]; then
        ANYRIG=$root/.venv/bin/anyrig
    else
        echo "anyrig is not installed. Install it: pip install anyrig, or make run in $root" >&2
        exit 127
    fi
fi

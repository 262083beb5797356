#!/bin/sh
# Start the server, by the names that older start scripts had.
#   start-server.sh --list-gpus
#   start-server.sh --device cuda --gpu-index 1 --port 8080 --model FOLDER [options of anyrig serve]
set -eu
# shellcheck source=deploy/scripts/common.sh
. "$(dirname -- "$0")/common.sh"

device='' index='' list=''
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
        --list-gpus) list=yes ;;
        --device | --gpu-index | --model)
            if [ "$count" -eq 0 ]; then echo "$word needs a value" >&2; exit 2; fi
            case $word in
                --device) device=$1 ;;
                --gpu-index) index=$1 ;;
                --model) export ANYRIG_SPEECH_MODEL="$1" ;;
            esac
            shift
            count=$((count - 1))
            ;;
        --auto-clone) echo "--auto-clone: nothing is cloned; anyrig engines install NAME gets an engine" >&2 ;;
        *) set -- "$@" "$word" ;; # what is left is for anyrig, in its order
    esac
done

if [ -n "$list" ]; then exec "$ANYRIG" devices "$@"; fi
case $device in
    directml) device=dml ;;
esac
case $device:$index in
    :) ;;
    :* | auto:?*) set -- --gpu "$index" "$@" ;;
    cpu:* | *:) set -- --device "$device" "$@" ;;
    *) set -- --device "$device:$index" "$@" ;;
esac
exec "$ANYRIG" serve "$@"

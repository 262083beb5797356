#!/bin/sh
# Let this machine help a cluster.
#   start-worker.sh TOKEN                         the word after --join that the coordinator printed
#   start-worker.sh 192.168.1.5                   the coordinator's address; then also redis://... whole
#   COORDINATOR_IP=192.168.1.5 GPU_ID=0 WORKER_ID=w1 start-worker.sh
# Read from the environment: COORDINATOR_IP, REDIS_URL, GPU_ID, USE_GPU=auto|yes|no, WORKER_ID,
# NUM_WORKERS, CUDA_VISIBLE_DEVICES. Everything else is for anyrig worker: --device all, --strict, ...
set -eu
# shellcheck source=deploy/scripts/common.sh
. "$(dirname -- "$0")/common.sh"

case ${1:-} in
    '' | -*) ;;
    anyrig1_*) token=$1; shift; set -- --join "$token" "$@" ;;
    *) broker=$1; shift; set -- --broker "$broker" "$@" ;;
esac
exec "$ANYRIG" worker "$@"

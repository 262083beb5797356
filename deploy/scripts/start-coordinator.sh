#!/bin/sh
# Lead a cluster: a broker, the line that lets others join, and Flower.
#   start-coordinator.sh [options of anyrig coordinator]
# Read from the environment: REDIS_URL (a broker that runs), COORDINATOR_IP (what others call this
# machine), FLOWER_PORT.
set -eu
# shellcheck source=deploy/scripts/common.sh
. "$(dirname -- "$0")/common.sh"

set -- --flower "$@"
if [ -n "${FLOWER_PORT:-}" ]; then set -- --flower-port "$FLOWER_PORT" "$@"; fi
if [ -n "${COORDINATOR_IP:-}" ]; then set -- --address "$COORDINATOR_IP" "$@"; fi
exec "$ANYRIG" coordinator "$@"

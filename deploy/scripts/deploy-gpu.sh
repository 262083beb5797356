#!/bin/sh
# Build and start the server on this machine's GPUs in a container, and look whether they are seen.
#   deploy-gpu.sh [nvidia|amd|intel] [options of docker compose up]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)

vendor=nvidia
case ${1:-} in
    nvidia | amd | intel) vendor=$1; shift ;;
esac
group() { getent group "$1" | cut -d: -f3; }
case $vendor in
    nvidia) file=docker-compose.gpu.yml ;;
    amd)
        file=docker-compose.rocm.yml
        RENDER_GROUP=${RENDER_GROUP:-$(group render)} VIDEO_GROUP=${VIDEO_GROUP:-$(group video)}
        export RENDER_GROUP VIDEO_GROUP
        ;;
    intel)
        file=docker-compose.xpu.yml
        RENDER_GROUP=${RENDER_GROUP:-$(group render)}
        export RENDER_GROUP
        ;;
esac
docker compose -f "$root/deploy/docker/$file" up -d --build --wait "$@"
docker exec anyrig anyrig doctor
echo "The key of the server, shown at its first start: docker logs anyrig"

#!/bin/sh
# Build the image of deploy/docker, which is the same for servers, coordinators and workers.
#   build-worker-image.sh [cpu|cuda|rocm|xpu] [options of docker build]
#   TORCH_VERSION=cuda126 build-worker-image.sh
# TORCH_VERSION (cpu, cuda126, cuda130, rocm7.2, xpu) names the target too, where none is named.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)

target=''
case ${1:-} in
    cpu | cuda | rocm | xpu) target=$1; shift ;;
esac
if [ -z "$target" ]; then
    case ${TORCH_VERSION:-cpu} in
        none | cpu) target=cpu ;;
        cuda*) target=cuda ;;
        rocm*) target=rocm ;;
        xpu) target=xpu ;;
        *) echo "TORCH_VERSION=$TORCH_VERSION belongs to no target: cpu, cuda, rocm, xpu" >&2; exit 2 ;;
    esac
fi
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$root/src/anyrig/version.py")
if [ -n "${TORCH_VERSION:-}" ]; then set -- --build-arg "TORCH_VERSION=$TORCH_VERSION" "$@"; fi
exec docker build -f "$root/deploy/docker/Dockerfile" --target "$target" \
    -t "anyrig:$version-$target" "$@" "$root"

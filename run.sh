#!/usr/bin/env bash
# Builds libmla (installing what is missing) and runs its main job:
#   ./run.sh [arguments of `mla run`]     e.g. ./run.sh --model deepseek-v3 --requests 512,17,1000+2048
# The program stays at build/release/bin/mla. Only its own output goes to stdout.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$ROOT/build"
# shellcheck source=scripts/setup.sh
. "$ROOT/scripts/setup.sh"

need_packages "$BUILD_PACKAGES"

log="$ROOT/build/run.log"
options=()
[ -f "$ROOT/build/release/CMakeCache.txt" ] || options=(-DMLA_BUILD_TESTS=OFF)
say "Building build/release/bin/mla ..."
if ! { configure release "${options[@]}" && build release mla_cli; } </dev/null >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  die "The build failed; its whole output is in build/run.log"
fi
exec "$ROOT/build/release/bin/mla" run "$@"

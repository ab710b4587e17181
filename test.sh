#!/usr/bin/env bash
# Sets up everything and runs every test of libmla, stage by stage; a stage that fails does not keep
# the others from running. The last line is the total: "N passed, N failed[, N skipped]".
#   ./test.sh                   all stages but integrations
#   ./test.sh --integrations    these too: PyTorch, Transformers, vLLM (about 5 GB are downloaded)
#   ./test.sh STAGE...          only these: format build unit clang lint asan tsan fuzz neon python
#                               integrations
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$ROOT" || exit 1
mkdir -p build/logs
# shellcheck source=scripts/setup.sh
. scripts/setup.sh
# shellcheck source=scripts/stages.sh
. scripts/stages.sh

stages="format build unit clang lint asan tsan fuzz neon python"
case ${1-} in
  "") ;;
  --integrations) stages="$stages integrations" ;;
  -*) sed -n '2,7s/^# \{0,1\}//p' "$0"; [ "$1" = --help ]; exit ;;
  *) stages="$*" ;;
esac

need_packages "$BUILD_PACKAGES$TEST_PACKAGES"
for stage in $stages; do
  declare -F "stage_$stage" >/dev/null || die "test.sh: no stage '$stage'"
  run_stage "$stage"
done
finish

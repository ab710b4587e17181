# shellcheck shell=bash disable=SC2034
# Sourced by run.sh and test.sh: installs what is missing and configures builds. Messages go to
# stderr, so that stdout is the program's own. Nothing is asked; nothing is downloaded when nothing
# is missing.

# Debian packages for building the program, one a line: package, then how to see that it is there (a
# command, a header in "<>", or "-": only the package itself tells).
BUILD_PACKAGES="
g++ g++
cmake cmake
ninja-build ninja
libfmt-dev <fmt/format.h>
nlohmann-json3-dev <nlohmann/json.hpp>
libcli11-dev <CLI/CLI.hpp>
libbenchmark-dev <benchmark/benchmark.h>
"

# What the tests need beyond that.
TEST_PACKAGES="
git git
libgtest-dev <gtest/gtest.h>
libgmock-dev <gmock/gmock.h>
googletest -
clang clang++
libclang-rt-dev -
libomp-dev -
llvm llvm-symbolizer
clang-format clang-format
clang-tidy clang-tidy
g++-aarch64-linux-gnu aarch64-linux-gnu-g++
qemu-user qemu-aarch64
valgrind valgrind
python3-venv -
python3-dev -
"

say() { printf '%s\n' "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# is_there PACKAGE PROBE
is_there() {
  case $2 in
    "<"*) printf '#include %s\n' "$2" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
    -) ! command -v dpkg-query >/dev/null 2>&1 ;;
    *) command -v "$2" >/dev/null 2>&1 ;;
  esac || [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages LIST: as root installs what is missing; otherwise says how and stops.
need_packages() {
  local missing="" package probe
  while read -r package probe; do
    [ -z "$package" ] || is_there "$package" "$probe" || missing="$missing $package"
  done <<<"$1"
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null 2>&1 ||
    die "Missing (by their Debian names):$missing. Install them and start again."
  if [ "$(id -u)" -ne 0 ]; then
    say "Missing packages. Run this as root, then start again:"
    die "apt-get update && apt-get install -y --no-install-recommends$missing"
  fi
  say "Installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  # shellcheck disable=SC2086  # a list of words
  { apt-get update -q && apt-get install -y -q --no-install-recommends $missing; } \
    </dev/null >"$ROOT/build/setup.log" 2>&1 ||
    { tail -n 20 "$ROOT/build/setup.log" >&2; die "apt-get failed; its output is in build/setup.log"; }
}

# Whether ccache is installed and can write where it keeps its objects (not so without a home).
has_ccache() {
  local folder
  command -v ccache >/dev/null 2>&1 && folder=$(ccache --get-config cache_dir 2>/dev/null) &&
    mkdir -p "$folder/tmp" 2>/dev/null && [ -w "$folder/tmp" ]
}

# configure PRESET [OPTION...]: with ccache where it works.
configure() {
  local preset=$1
  shift
  if has_ccache; then
    set -- -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"
  else
    set -- -UCMAKE_CXX_COMPILER_LAUNCHER "$@"
  fi
  (cd "$ROOT" && cmake --preset "$preset" "$@")
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  cmake --build "$ROOT/build/$preset" -j "$(nproc)" ${1+--target "$@"}
}

# shellcheck shell=bash
# Sourced by test.sh: the stages, and how they are counted. A stage is a function stage_NAME that
# returns non-zero when it fails; its output goes to build/logs/NAME.log. Tests inside a stage are
# counted one by one from the JUnit files; a stage without tests counts as one.

PASSED=0 FAILED=0 SKIPPED=0 FAILED_STAGES=""

# The number in attribute $1 of the first testsuite element of file $2; 0 where there is none.
junit_number() {
  local value
  value=$(tr '\n\t' '  ' <"$2" | grep -o "<testsuite [^>]*" | head -n 1 |
    grep -o " $1=\"[0-9]*\"" | grep -o '[0-9]*')
  echo "${value:-0}"
}

# Adds what a JUnit file counts.
count_junit() {
  local tests failed skipped
  [ -s "$1" ] || return 1
  tests=$(junit_number tests "$1")
  failed=$(($(junit_number failures "$1") + $(junit_number errors "$1")))
  skipped=$(($(junit_number skipped "$1") + $(junit_number disabled "$1")))
  PASSED=$((PASSED + tests - failed - skipped))
  FAILED=$((FAILED + failed))
  SKIPPED=$((SKIPPED + skipped))
}

# run_stage NAME
run_stage() {
  local name=$1 log="$ROOT/build/logs/$1.log" begun=$SECONDS status=0
  local passed=$PASSED failed=$FAILED skipped=$SKIPPED
  SKIP_REASON=""
  "stage_$name" </dev/null >"$log" 2>&1 || status=1
  if [ $((PASSED + FAILED + SKIPPED)) -eq $((passed + failed + skipped)) ]; then
    if [ -n "$SKIP_REASON" ]; then
      SKIPPED=$((SKIPPED + 1))
    elif [ $status -eq 0 ]; then
      PASSED=$((PASSED + 1))
    fi
  fi
  [ $status -eq 0 ] || [ "$FAILED" -gt "$failed" ] || FAILED=$((FAILED + 1))
  printf '%-13s %5d passed %4d failed %4d skipped %5d s%s\n' "$name" $((PASSED - passed)) \
    $((FAILED - failed)) $((SKIPPED - skipped)) $((SECONDS - begun)) \
    "${SKIP_REASON:+   ($SKIP_REASON)}"
  [ $status -eq 0 ] && return 0
  FAILED_STAGES="$FAILED_STAGES $name"
  tail -n 60 "$log"
  return 1
}

# The total, as the last line; the exit status says whether all is well.
finish() {
  printf '%-13s %42d s\n' total "$SECONDS"
  for stage in $FAILED_STAGES; do
    echo "test.sh: stage '$stage' failed; its whole output is in build/logs/$stage.log"
  done
  if [ "$SKIPPED" -gt 0 ]; then
    echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
  else
    echo "$PASSED passed, $FAILED failed"
  fi
  [ "$FAILED" -eq 0 ]
  exit
}

# run_ctest PRESET [ctest options]
run_ctest() {
  local preset=$1 junit="$ROOT/build/logs/ctest-$1.xml" status=0
  shift
  rm -f "$junit"
  (cd "$ROOT" && ctest --preset "$preset" -j "$(nproc)" --no-tests=error --timeout 600 \
    --output-junit "$junit" "$@") || status=1
  count_junit "$junit" || status=1
  return $status
}

cxx_files() { git -C "$ROOT" ls-files '*.cc' '*.h'; }

stage_format() {
  # Another version formats otherwise.
  if ! clang-format --version | grep -q 'version 14\.'; then
    SKIP_REASON="needs clang-format 14"
    return 0
  fi
  cxx_files | xargs clang-format --dry-run --Werror
}

stage_build() { configure release -DMLA_BUILD_TESTS=ON && build release; }

stage_unit() { run_ctest release; }

# The kernels, whose code depends most on the compiler; asan builds everything by clang.
stage_clang() { configure clang && build clang tests_kernels && run_ctest clang -L kernels; }

# With clang's own flags, and the header that its build generates.
stage_lint() {
  configure clang && build clang mla_cli_html &&
    run-clang-tidy -quiet -p "$ROOT/build/clang" -j "$(nproc)" "$ROOT/(src|cli)/.*\.cc\$"
}

stage_asan() { configure asan && build asan && run_ctest asan -LE "slow|fuzz"; }

stage_tsan() { configure tsan && build tsan tests_threads && run_ctest tsan -L threads; }

stage_fuzz() { configure asan && build asan && run_ctest asan -L fuzz; }

# Under an emulator ten times as slow, which gives each instruction a time of its own: without the
# tests of the test suite itself, of tables that are the same code on every architecture, of peaks.
stage_neon() {
  configure neon && build neon &&
    run_ctest neon -LE slow -E "emulated|RightImplementation|WrongImplementation|KernelsTest.*portable|ProbeTest"
}

# The Python package, installed into .venv as a user would install it.
venv_install() {
  [ -x "$ROOT/.venv/bin/python" ] || python3 -m venv "$ROOT/.venv" || return 1
  if has_ccache; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
  "$ROOT/.venv/bin/python" -m pip install -q "${ROOT}[test]"
}

# run_pytest NAME [arguments of pytest]
run_pytest() {
  local junit="$ROOT/build/logs/pytest-$1.xml" status=0
  shift
  rm -f "$junit"
  timeout 3000 "$ROOT/.venv/bin/python" -m pytest -q -rs --junitxml="$junit" "$@" || status=1
  count_junit "$junit" || status=1
  return $status
}

stage_python() {
  venv_install && run_pytest python tests/python --ignore=tests/python/integrations
}

# What the tests of the integrations take on two busy cores, and the most their installation may.
INTEGRATION_TESTS=1500 INTEGRATION_INSTALL=1500

# Skipped, with the reason, where the packages cannot be had; what fails after that, fails. With
# TEST_SECONDS (CI's limit) there must also be time left for the installation and the tests.
stage_integrations() {
  local status=0 limit=$INTEGRATION_INSTALL log="$ROOT/build/logs/integrations-install.log" left
  venv_install || return 1
  if [ -n "${TEST_SECONDS-}" ]; then
    left=$((TEST_SECONDS - SECONDS - INTEGRATION_TESTS))
    [ "$left" -ge "$limit" ] || limit=$left
    if [ "$limit" -lt 60 ]; then
      SKIP_REASON="$((TEST_SECONDS - SECONDS)) s left of $TEST_SECONDS"
      return 0
    fi
  fi
  timeout "$limit" tests/python/integrations/install.sh .venv/bin/python >"$log" 2>&1 || status=$?
  cat "$log"
  case $status in
    0) run_pytest integrations tests/python/integrations ;;
    3) SKIP_REASON=$(tail -n 1 "$log") ;;
    124) SKIP_REASON="the packages were not installed in $limit s" ;;
    *) return 1 ;;
  esac
}

# Sourced by the tests of this folder, which define `fail`.
# To the end of the input: grep -q leaves sooner, and pipefail tells of the writer that finds nobody there.
matches() { grep "$@" > /dev/null; }
# until_true SECONDS COMMAND...: what waits for another process waits for its effect.
until_true() {
  local end=$((SECONDS + $1)); shift
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "never came true: $*"
    read -rt 0.1 <> <(:) || true  # leaves the processors to what is waited for
  done
}
# Of a test of the controller that failed: the ends of its programs' logs, and what is served where.
show_logs() {
  local log
  for log in "$work"/*.log "$work"/host?/*.log; do [ ! -e "$log" ] || { echo "--- $log" >&2; tail -40 "$log" >&2; }; done
  model list --json >&2 || true
}

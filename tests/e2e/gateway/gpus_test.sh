#!/usr/bin/env bash
# `spillway lab gpus` in miniature: jobs on two hosts under three policies, in network namespaces where it is root's and
# without, and nothing left behind, however it ends. Arguments: the folder of the programs.
set -euo pipefail
. "$(dirname "$0")/waiting.sh"
bin=$1
work=$(mktemp -d)
lab=
ours() { ps -e -o pid=,args= | grep -- "-c $work/[b]ed/" | awk '{print $1}'; }
cleanup() {
  trap '' PIPE
  [ -z "$lab" ] || kill -9 "$lab" 2>/dev/null || true
  for pid in $(ours); do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "gpus_test: $*" >&2; cat "$work"/*.err "$work"/bed/*.log >&2 2>/dev/null || true; exit 1; }

cat > "$work/jobs.yaml" <<EOF
hosts: 2
gpus: 2
compress: 1200
jobs:
  - {at: 0h, for: 1h, share: 0.5}
  - {at: 0h, for: 4h, share: 0.5}
  - {at: 0h, for: 1h, share: 0.5}
  - {at: 0h, for: 4h, share: 0.5}
EOF
gpus() { "$bin/spillway-lab" gpus "$@" --folder "$work/bed"; }

sed 's/share: 0.5/share: 5/' "$work/jobs.yaml" > "$work/bad.yaml"
code=0; gpus "$work/bad.yaml" > /dev/null 2> "$work/bad.err" || code=$?
[ $code = 2 ] && grep -q "bad.yaml:5: jobs\[#1\].share: expected" "$work/bad.err" || fail "bad file: $code, $(cat "$work/bad.err")"

gpus "$work/jobs.yaml" --json --out "$work/out" > "$work/report.json" 2> "$work/run.err" || fail "exit code $?"
network=loopback; ! unshare -n true 2> /dev/null || network=namespaces
python3 - "$work/report.json" $network <<'EOF' || fail "$(cat "$work/report.json")"
import json, sys
rows = {row["policy"]: row for row in json.load(open(sys.argv[1]))["rows"]}
assert list(rows) == ["no-sharing", "first-fit", "spillway"], list(rows)
network = sys.argv[2]
for row in rows.values():
    assert row["network"] == network, row
    assert row["requests"] > 0 and row["requests_lost"] == 0, row
    assert row["moves_failed"] == 0, row
assert [rows[p]["gpus_most"] for p in rows] == [4, 2, 2], rows
assert rows["no-sharing"]["moves"] == rows["first-fit"]["moves"] == 0, rows
assert rows["no-sharing"]["p99_ms_during_move"] is None, rows
assert rows["spillway"]["moves"] >= 1, rows
# Two of four hours of two GPUs are at stake; what starts and ends take is far below.
assert rows["spillway"]["gpu_hours"] < rows["first-fit"]["gpu_hours"] < rows["no-sharing"]["gpu_hours"], rows
EOF
for policy in no-sharing first-fit spillway; do
  grep -q "Slices over time: $policy" "$work/out/report.html" || fail "no picture of $policy"
done
[ -z "$(ours)" ] || fail "left: $(ours)"

# Ctrl-C ends all; what a run leaves that is killed, the next one ends.
interrupted() {  # SIGNAL
  "$bin/spillway-lab" gpus "$work/jobs.yaml" --folder "$work/bed" > /dev/null 2> "$work/run.err" & lab=$!
  until_true 20 eval 'ps -e -o args= | matches "[s]pillway-executor -c $work/bed/"'
  kill -"$1" "$lab"
  code=0; wait "$lab" || code=$?
  lab=
}
interrupted INT
[ $code = 130 ] && [ -z "$(ours)" ] || fail "Ctrl-C: exit code $code, left: $(ours)"
interrupted KILL
until_true 20 eval '[ "$(ps -e -o args= | grep -c "[s]pillway-node -c $work/bed/")" = 0 ]'
[ -n "$(ours)" ] || fail "a killed run's executors are gone already: this shows nothing"
gpus "$work/jobs.yaml" --quick --loopback > /dev/null 2> "$work/run.err" || fail "after a killed run"
[ -z "$(ours)" ] || fail "left of a killed run: $(ours)"

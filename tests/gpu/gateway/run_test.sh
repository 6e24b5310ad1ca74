#!/usr/bin/env bash
# tests/gpu/run, without a GPU, and with programs that stand for a machine that has one. Arguments: the programs' folder,
# and a Python to read JSON with.
set -euo pipefail
bin=$1 python=$2
run=$(dirname "$(readlink -f "$0")")/../run
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "gpu_run: FAILED: $*"; exit 1; }
# expect CODE COMMAND...: it exits so; what it says is in `said`.
expect() {
  local code=$1 got=0; shift
  "$@" > said 2>&1 || got=$?
  [ $got -eq "$code" ] || { cat said; fail "exit code $got, expected $code: $*"; }
}
says() { grep -q -- "$1" said || { cat said; fail "expected: $1"; }; }
# result FILE STEP: "RESULT REASON"
result() {
  "$python" -c 'import json, sys
for step in json.load(open(sys.argv[1]))["steps"]:
    if step["step"] == sys.argv[2]: print(step["result"], step["reason"])' "$1" "$2"
}

expect 0 "$run" --help
says "--dry-run"
expect 2 "$run" --bogus
says "unknown option --bogus"
expect 2 "$run" --only card,bogus
says "unknown step bogus"
expect 0 "$run" --dry-run --programs "$bin" --out dry
for step in machine check card torch placed bench mps mig rdma; do says "^$step: would"; done
says "spillway-bench gateway --engine cuda --json"
[ ! -e dry ] || fail "a dry run wrote results"
expect 1 "$run" --programs "$work/nowhere" --out nowhere
says "spillway-executor: missing"

# This machine; where there is a GPU, the steps would take minutes.
if "$bin/spillway-executor" --list-devices > devices 2>&1; then
  echo "there is a GPU: not run on it here"
else
  expect 77 "$run" --programs "$bin" --out absent
  says "^machine  ran"
  for step in check card torch placed bench mps mig rdma; do says "^$step  *skipped: no NVIDIA driver: "; done
  grep -q "^| card | skipped | no NVIDIA driver: " absent/README.md || fail "README.md"
  [ "$(result absent/results.json machine)" = "ran " ] || fail "results.json"
  expect 2 "$run" --programs "$bin" --out absent
  says "is there already"
fi

# Programs as on a machine with a GPU.
mkdir card
program() { cat > "card/$1"; chmod +x "card/$1"; }
program spillway-executor <<'STUB'
#!/bin/sh
case "$*" in
  --version) echo "spillway-executor 9.9" ;;
  --list-devices) cat "$(dirname "$0")/devices" ;;
  *--check) echo ok ;;
esac
STUB
program gateway_test <<'STUB'
#!/bin/sh
echo "$SPILLWAY_CUDA_DEVICE $*" >> "$(dirname "$0")/asked"
cat "$(dirname "$0")/tests"
exit "$(cat "$(dirname "$0")/code")"
STUB
program spillway-bench <<'STUB'
#!/bin/sh
echo '{"bench": "gateway"}'
STUB
for name in spillway spillway-gateway spillway-node; do cp card/spillway-bench card/$name; done
echo "0    GPU-11111111-2222-3333-4444-555555555555 NVIDIA \"Big\" GPU 81559 MiB" > card/devices
echo "[       OK ] CudaCardTest.One (1 ms)" > card/tests
echo 0 > card/code
expect 0 "$run" --programs card --out good --only machine,check,card,bench,mig
for step in machine check card bench; do says "^$step  *ran"; done
says "^mig  *skipped: no GPU is in MIG mode"
grep -q '^# Spillway on NVIDIA "Big" GPU 81559 MiB' good/README.md || fail "the card's name: $(head -1 good/README.md)"
[ "$(result good/results.json bench)" = "ran " ] || fail "results.json"
[ "$(cat good/bench.json)" = '{"bench": "gateway"}' ] || fail "bench.json"
grep -q '^0 .*CudaCardTest' card/asked || fail "the card that was asked: $(cat card/asked)"

echo 3 > card/code
expect 1 "$run" --programs card --out bad --only card,bench
says "^card  *FAILED: exit code 3"
says "^bench  *ran"
echo 0 > card/code
printf '%s\n' "cuda_card_test.cc:40: Skipped" "no GPU in this build" "[  SKIPPED ] CudaCardTest.One (0 ms)" > card/tests
expect 0 "$run" --programs card --out skips --only card
says "^card  *skipped: no GPU in this build"

# Here PyTorch has no GPU, if it is here.
expect 0 "$run" --programs card --python "$work/nowhere" --out torchless --only torch,placed
for step in torch placed; do says "^$step  *skipped: "; done

# One that is cut: nothing is asked of the whole.
echo "[       OK ] CudaCardTest.One (1 ms)" > card/tests
{
  echo "0    GPU-11111111-2222-3333-4444-555555555555 Big GPU 81559 MiB (cut into the instances below)"
  echo "     MIG-00000000-0000-0000-0000-000000000001 Big GPU MIG 1g.10gb 9856 MiB"
} > card/devices
: > card/asked
expect 0 "$run" --programs card --out cut --only check,card,torch,placed,bench,mps,mig
for step in card torch placed bench mps; do says "^$step  *skipped: every GPU is in MIG mode"; done
says "^mig  *ran"
grep -q "^MIG-00000000-0000-0000-0000-000000000001 .*CudaCardTest" card/asked || fail "the instance: $(cat card/asked)"

expect 0 "$run" --programs card --pack packed
[ -x packed/run ] && [ -x packed/bin/gateway_test ] || fail "--pack"
cp card/devices packed/bin/
expect 0 packed/run --out carried --only card
says "^card  *skipped: every GPU is in MIG mode"
echo "gpu_run: passed"

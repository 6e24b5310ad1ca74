#!/usr/bin/env bash
# A program in C (c_client.c) through a window of this host and by frames over TCP. Arguments: the build folder's bin, the
# program.
set -euo pipefail
bin=$1 client=$2
work=$(mktemp -d)
gateway= executor=
trap 'for pid in $gateway $executor; do kill -9 "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
fail() { echo "c_test: $*" >&2; cat "$work"/*.log >&2; exit 1; }
cat > "$work/gateway.yaml" <<END
frames: ["unix:$work/frames.sock", "127.0.0.1:0"]
executors: $work/executors.sock
END
cat > "$work/executor.yaml" <<END
gateway: $work/executors.sock
name: e
gpus: [{name: g, slices: [{name: s, gflop_per_s: 100}]}]
models: [{name: echo, kind: echo, row_bytes: 64}, {name: digits, kind: mlp, layers: [784, 10], seed: 1}]
END
wait_for() { for _ in $(seq 500); do grep -q "$1" "$work/gateway.log" && return; read -rt 0.02 <> <(:) || true; done; fail "never said: $1"; }
"$bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
wait_for ready
"$bin/spillway-executor" -c "$work/executor.yaml" 2> "$work/executor.log" & executor=$!
wait_for "executor e: joined"
"$client" "unix:$work/frames.sock" 65536 window || fail "the window"
"$client" "unix:$work/frames.sock" 0 frames || fail "frames, asked for"
"$client" "127.0.0.1:$(sed -n 's/.*frames on 127.0.0.1:0, port \([0-9]*\).*/\1/p' "$work/gateway.log")" 65536 frames || fail "frames"
# The example, as its first lines say to compile it.
root=$(cd "$(dirname "$0")/../../.." && pwd)
cc -Wall -Wextra -Werror -I "$root/c" "$root/examples/c/client.c" -o "$work/client" -L "$bin/../lib" -lspillway_client -Wl,-rpath,"$bin/../lib"
[ "$("$work/client" "unix:$work/frames.sock" | wc -l)" = 10 ] || fail "examples/c/client.c"
echo passed

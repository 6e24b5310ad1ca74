#!/usr/bin/env bash
# The Python examples, served through a gateway; a client's tensors in the window. Arguments: the build folder, and
# the Python that the module was built for.
set -euo pipefail
build=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../../examples/python
work=$(mktemp -d)
gateway= program=
trap 'for pid in $gateway $program; do kill -9 "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
fail() { echo "python_test: $*" >&2; cat "$work"/*.log >&2; exit 1; }
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import numpy' 2> /dev/null || { echo "skipped: this Python has no NumPy"; exit 77; }

cat > "$work/gateway.yaml" <<EOF
http: 127.0.0.1:0
frames: ["unix:$work/frames.sock", "127.0.0.1:0"]
executors: $work/executors.sock
EOF
"$build/bin/spillway-gateway" -c "$work/gateway.yaml" 2> "$work/gateway.log" & gateway=$!
wait_for() { for _ in $(seq 500); do grep -q "$1" "$work/gateway.log" && return; read -rt 0.02 <> <(:) || true; done; fail "never said: $1"; }
wait_for ready
SPILLWAY_GATEWAY=$work/executors.sock "$python" "$examples/serve_numpy.py" 2> "$work/program.log" & program=$!
wait_for "executor serve_numpy-.*: joined"
# Over TCP, without RDMA at the gateway: in frames, and it says so.
tcp=127.0.0.1:$(sed -n 's/.*frames on 127.0.0.1:0, port \([0-9]*\).*/\1/p' "$work/gateway.log")
"$python" - "$tcp" "unix:$work/frames.sock" <<'EOF' || fail "the client over TCP"
import sys
import numpy
import spillway
client, here = spillway.Client(sys.argv[1]), spillway.Client(sys.argv[2])
assert (client.way, here.way, here.why_frames) == ("frames", "window", ""), (client.way, here.way, here.why_frames)
assert "rdma" in client.why_frames.lower(), client.why_frames
x = client.tensor((1, 16), "float32")
x[:] = numpy.arange(16)
wide = numpy.arange(32, dtype="float32").reshape(1, 32) / 2
for given in x, wide[:, ::2]:
    assert numpy.allclose(client.infer("serve_numpy", given), here.infer("serve_numpy", given))
client.free(x)
def raises(kind, call):
    try:
        call()
    except kind:
        return
    raise SystemExit(f"expected {kind.__name__}")
raises(spillway.BadArgument, lambda: client.free(x))
raises(spillway.BadArgument, lambda: client.infer("serve_numpy", numpy.zeros((1, 15), "float32")))
raises(spillway.Error, lambda: spillway.Client(sys.argv[1], rdma=True))
raises(spillway.BadArgument, lambda: spillway.Client(sys.argv[1], token="a-wrong-token", tenant="nobody"))
assert spillway.Client(sys.argv[1], rdma=False).why_frames == "rdma=False"
EOF
"$python" - "unix:$work/frames.sock" <<'EOF' || fail "the client's checks"
import sys
import numpy
import spillway
client = spillway.Client(sys.argv[1])
random = numpy.random.default_rng(1)
weights = random.standard_normal((16, 4)).astype("float32")
x = client.tensor((1, 16), "float32")
assert x.flags.writeable and not x.flags.owndata, "a copy"
for seed in range(20):
    x[:] = numpy.random.default_rng(seed).standard_normal((1, 16))
    y = client.infer("serve_numpy", x)
    hidden = numpy.maximum(x @ weights, 0)
    assert numpy.allclose(y, hidden / (1 + hidden.sum())), (seed, y)
# Views of a tensor in the window are what they show, not what lies at their address.
wide = client.tensor((1, 32), "float32")
wide[:] = numpy.arange(32)
every_second = wide[:, ::2]
assert numpy.allclose(client.infer("serve_numpy", every_second), client.infer("serve_numpy", every_second.copy()))
client.free(wide)
# What is not in the window is copied there.
assert numpy.allclose(client.infer("serve_numpy", numpy.array(x)), y)
def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert isinstance(error, spillway.Error) and text in str(error) and "\n" not in str(error), error
        return
    raise SystemExit(f"expected {kind.__name__}: {text}")
infer = client.infer
raises(ValueError, "model serve_numpy: expected shape [1, 16], got [1, 15]",
       lambda: infer("serve_numpy", numpy.zeros((1, 15), "float32")))
raises(spillway.BadArgument, "model serve_numpy: expected dtype float32, got float64",
       lambda: infer("serve_numpy", numpy.zeros((1, 16))))
raises(spillway.BadArgument, "expected an array or a tensor, got list", lambda: infer("serve_numpy", [1]))
raises(spillway.BadArgument, "no executor has a model nobody", lambda: infer("nobody", x))
raises(spillway.BadArgument, "model: expected a text, got 3", lambda: infer(3, x))
for wrong in -1, "1", float("nan"):
    raises(spillway.BadArgument, "deadline_s: expected seconds", lambda: infer("serve_numpy", x, wrong))
raises(spillway.BadArgument, "bla: expected unix:PATH or ADDRESS:PORT", lambda: spillway.Client("bla"))
raises(spillway.GatewayGone, "127.0.0.1:1: ", lambda: spillway.Client("127.0.0.1:1"))
raises(spillway.BadArgument, "rdma: expected None, True or False", lambda: spillway.Client(sys.argv[1], rdma=True))
raises(spillway.BadArgument, "address: expected a text, got 3", lambda: spillway.Client(3))
raises(spillway.BadArgument, "window: expected a number of bytes", lambda: spillway.Client(sys.argv[1], window=-1))
raises(spillway.BadArgument, "token: expected a text", lambda: spillway.Client(sys.argv[1], token=b"x"))
raises(spillway.BadArgument, "dtype: expected one of bool", lambda: client.tensor((1,), "text"))
raises(spillway.BadArgument, "shape: expected a tuple of extents", lambda: client.tensor(5))
raises(MemoryError, "bytes do not fit into what is free of the window's", lambda: client.tensor((1 << 40,), "uint8"))
client.free(x)
raises(spillway.BadArgument, "not freed yet", lambda: client.free(x))
raises(spillway.BadArgument, "call tensor() first", lambda: spillway.answer(y))
raises(spillway.BadArgument, "SPILLWAY_GATEWAY", lambda: spillway.tensor((1, 2)))
raises(ConnectionError, "/none", lambda: spillway.Client("unix:/none"))
raises(spillway.GatewayGone, "/none", lambda: spillway.tensor((1, 2), gateway="/none"))
EOF
# The program's end is the model's: what is asked now waits, and is refused at its deadline.
kill $program; wait $program 2> /dev/null || true; program=
"$python" - "unix:$work/frames.sock" <<'EOF' || fail "a request that nobody can run"
import sys
import numpy
import spillway
try:
    spillway.Client(sys.argv[1]).infer("serve_numpy", numpy.zeros((1, 16), "float32"), deadline_s=0.05)
except spillway.Refused as error:
    assert error.status == "no_slice" and "no living slice has the model" in str(error), error
else:
    raise SystemExit("was answered by nobody")
EOF
if "$python" -c 'import torch' 2> /dev/null; then
  SPILLWAY_GATEWAY=$work/executors.sock "$python" "$examples/serve_torch.py" 2> "$work/program.log" & program=$!
  wait_for "executor serve_torch-.*: joined"
  "$python" -c 'import sys, spillway, torch
c = spillway.Client(sys.argv[1]); x = c.tensor((1, 16), torch.float32); x[:] = 1
assert c.infer("serve_torch", x).shape == (1, 4)' "unix:$work/frames.sock" || fail "torch"
fi
# The gateway's end is the program's: it says so.
SPILLWAY_GATEWAY=$work/executors.sock "$python" "$examples/serve_numpy.py" 2> "$work/last.log" & last=$!
wait_for "joined.*"
for _ in $(seq 500); do [ "$(grep -c 'executor serve_numpy-.*joined' "$work/gateway.log")" = 2 ] && break; read -rt 0.02 <> <(:) || true; done
kill -9 $gateway; wait $gateway 2> /dev/null || true; gateway=
if wait $last; then fail "the program did not notice the gateway's end"; fi
grep -q "GatewayGone: the gateway has gone" "$work/last.log" || fail "$(cat "$work/last.log")"
# The wheel, of the module that is built already, installed where nothing else of us is.
if "$python" -c 'import pip, setuptools, wheel' 2> /dev/null; then
  quiet="-q --no-index --no-deps --disable-pip-version-check"
  before=$(git -C "$here" status --porcelain 2> /dev/null || true)
  SPILLWAY_MODULE=$(echo "$build"/python/spillway/_spillway*.so) \
    "$python" -m pip wheel $quiet --no-build-isolation -w "$work/wheels" "$here/../../../python" || fail "pip wheel"
  "$python" -m pip install $quiet --root-user-action ignore --target "$work/site" "$work"/wheels/spillway-*.whl || fail "pip install"
  PYTHONPATH=$work/site "$python" -c '
import spillway, sys
assert spillway.__file__.startswith(sys.argv[1]), spillway.__file__
assert spillway._spillway.__file__.startswith(sys.argv[1])' "$work/site" || fail "the installed wheel"
  [ "$before" = "$(git -C "$here" status --porcelain 2> /dev/null || true)" ] || fail "the source tree was written to"
fi
echo passed

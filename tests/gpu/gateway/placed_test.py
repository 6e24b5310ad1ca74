#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The controller and a node agent with a real card: models are added, moved, and begun anew there. Arguments: the folder
of the programs and the one of the module `spillway`. Exits with 77 where there is no GPU, or PyTorch finds none.
An emulated host stands beside the card's, so that there is somewhere to move to."""
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import urllib.error
import urllib.request

from with_torch import module, programs

import numpy
import spillway
import torch
from serving_bed import PATIENCE, environment_of, expect

ENVIRONMENT = environment_of(programs)
A, B = [[1, 2, 3], [4, 5, 6]], [[1, 0], [0, 1], [1, 1]]
PRODUCT = [4.0, 5.0, 10.0, 11.0]


def first_card():
    """UUID and MiB of the first GPU that is not cut."""
    said = subprocess.run([programs / "spillway-executor", "--list-devices"], env=ENVIRONMENT, capture_output=True, text=True)
    for line in said.stdout.splitlines():
        found = re.match(r"\d+ +(GPU-\S+) .* (\d+) MiB", line)
        if found and "cut into the instances" not in line:
            return found.group(1), int(found.group(2))
    print(f"skipped: no whole GPU: {said.stdout}{said.stderr}")
    sys.exit(77)


UUID, MIB = first_card()
if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
    expect(visible == UUID, f"CUDA_VISIBLE_DEVICES: expected {UUID} or nothing, got {visible}")


class Fleet:
    """A gateway, the node agent of the card, `card`, and that of an emulated host, `other`."""

    def __init__(self, work, isolation):
        self.work = pathlib.Path(work)
        self.running = {}
        (self.work / "gateway.yaml").write_text(textwrap.dedent(f"""
            http: 127.0.0.1:0
            frames: ["unix:{work}/frames.sock"]
            executors: {work}/executors.sock
            isolation: {isolation}
            controller: {{socket: {work}/control.sock, state: {work}/fleet.json, moves: false, start: 90s, silent_after: 2s}}
            """))
        (self.work / "product.yaml").write_text("model: {name: product, kind: product, m: 2, k: 3, n: 2}\nshare: 0.25\n")
        # The program of docs/models.md, with what it found around it.
        (self.work / "cats.py").write_text(textwrap.dedent(f"""
            import json, os, spillway, torch
            model = torch.jit.load("{work}/cats.pt").cuda().eval()
            found = {{name: os.environ.get(name) for name in
                     ("CUDA_VISIBLE_DEVICES", "SPILLWAY_GPU", "SPILLWAY_MODEL", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")}}
            found |= {{"devices": torch.cuda.device_count(), "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count}}
            with open(f"{work}/found-{{os.getpid()}}", "w") as file:
                json.dump(found, file)
            with torch.inference_mode():
                spillway.serve(model, (1, 3, 224, 224), "float32", output_shape=(1, 1000), device="cuda")
            """))
        run = ["/usr/bin/env", f"LD_LIBRARY_PATH={os.environ.get('LD_LIBRARY_PATH', '')}",
               f"PYTHONPATH={module}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"), sys.executable, f"{work}/cats.py"]
        self.write_host("card", f"{{name: gpu0, device: {UUID}, memory: {MIB * 9 // 10}MiB, gflop_per_s: 60000}}",
                        f"programs: [{{name: resnet50, run: {json.dumps(run)}}}]")
        self.write_host("other", "{name: gpu0, gflop_per_s: 1}")
        self.start_gateway()
        said = subprocess.run([programs / "spillway-node", "--check", "-c", self.work / "card.yaml"], env=ENVIRONMENT, capture_output=True, text=True)
        expect(said.returncode == 0, f"--check: {said.stderr}")
        for host in "card", "other":
            self.start_node(host)
        self.until(lambda: {name for name, host in self.list()[1].items() if host["up"]} == {"card", "other"}, "both hosts up")

    def write_host(self, name, gpu, rest=""):
        (self.work / f"{name}.yaml").write_text(f"name: {name}\ncontroller: {self.work}/control.sock\n"
                                                f"gateway: {self.work}/executors.sock\nstate: {self.work}/{name}\ngpus: [{gpu}]\n{rest}\n")

    def start(self, name, program):
        log = open(self.work / f"{name}.log", "w")
        self.running[name] = subprocess.Popen([programs / program, "-c", self.work / f"{name}.yaml"], env=ENVIRONMENT, stderr=log)

    def start_node(self, host):
        self.start(host, "spillway-node")

    def start_gateway(self):
        self.start("gateway", "spillway-gateway")
        self.until(lambda: "ready" in (self.work / "gateway.log").read_text(), "the gateway ready")
        self.http = "127.0.0.1:" + re.search(r"http on .*port (\d+)", (self.work / "gateway.log").read_text()).group(1)

    def kill(self, name):
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()

    def end(self):
        for name in "card", "other", "gateway":  # node agents end what they began
            if self.running[name].poll() is None:
                self.running[name].terminate()
            self.running[name].wait(timeout=PATIENCE)

    def show(self):
        for log in sorted(self.work.rglob("*.log")):
            print(f"--- {log.relative_to(self.work)}", *log.read_text(errors="replace").splitlines()[-30:], sep="\n", file=sys.stderr)

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            expect(time.monotonic() < end, f"never came true: {what}")
            time.sleep(0.02)

    def model(self, *words):
        said = subprocess.run([programs / "spillway", "model", *words, "--gateway", self.work / "control.sock"], env=ENVIRONMENT,
                              capture_output=True, text=True)
        expect(said.returncode == 0, f"model {words[0]}: {said.stdout}{said.stderr}")
        return said.stdout

    def list(self):
        fleet = json.loads(self.model("list", "--json"))
        return {one["name"]: one for one in fleet["models"]}, {one["name"]: one for one in fleet["hosts"]}

    def instances(self, name):
        return self.list()[0][name]["instances"]

    def put_on_the_card(self, name):
        if self.instances(name)[0]["gpu"] != "card/gpu0":
            self.model("move", name, "--to", "card/gpu0", "--wait")

    def ask_product(self):
        body = {"inputs": [{"name": "a", "datatype": "FP32", "shape": [2, 3], "data": A}, {"name": "b", "datatype": "FP32", "shape": [3, 2], "data": B}]}
        request = urllib.request.Request(f"http://{self.http}/v2/models/product/infer", json.dumps(body).encode())
        try:
            answer = json.load(urllib.request.urlopen(request, timeout=PATIENCE))
        except urllib.error.HTTPError as error:
            raise SystemExit(f"product: {error.code} {error.read().decode()}") from None
        expect(answer["outputs"][0]["data"] == PRODUCT, f"product: {answer}")

    def metrics(self):
        return urllib.request.urlopen(f"http://{self.http}/metrics", timeout=PATIENCE).read().decode()

    def found(self):
        """What each program that began found around it."""
        return [json.loads(path.read_text()) for path in sorted(self.work.glob("found-*")) if path.stat().st_size]

    def executors(self):
        """Processes of node agent `card`'s instances: their command lines name the state folder."""
        said = subprocess.run(["pgrep", "-f", f"spillway-executor .*{self.work}/card/"], capture_output=True, text=True)
        return [int(pid) for pid in said.stdout.split()]


class Asker:
    """Asks for the model `product` until it is ended; counts and times."""

    def __init__(self, fleet):
        self.times, self.errors, self.enough = [], [], False
        self.thread = threading.Thread(target=self.run, args=(fleet,))
        self.thread.start()

    def run(self, fleet):
        while not self.enough:
            begin = time.monotonic()
            try:
                fleet.ask_product()
            except BaseException as error:
                self.errors.append(str(error))
            self.times.append((time.monotonic() - begin) * 1e3)

    def end(self):
        self.enough = True
        self.thread.join()
        expect(not self.errors, f"{len(self.errors)} of {len(self.times)} requests failed: {self.errors[:1]}")
        return f"{len(self.times)} requests, none failed, p50 {statistics.median(self.times):.2f} ms, max {max(self.times):.1f}"


def timed(step):
    begin = time.monotonic()
    step()
    return time.monotonic() - begin


def test_a_model_runs_on_the_card_and_moves_away_and_back_while_it_is_asked():
    with started("fraction") as fleet:
        seconds = timed(lambda: fleet.model("add", str(fleet.work / "product.yaml"), "--wait"))
        fleet.put_on_the_card("product")
        fleet.ask_product()
        expect(f'spillway_gateway_gpu_slices{{gpu_id="{UUID}"}} 1' in fleet.metrics(), "the card's UUID among the metrics")
        asker = Asker(fleet)
        moves = {}
        for to in ["other/gpu0", "card/gpu0"] * 3:
            moves.setdefault(to, []).append(timed(lambda: fleet.model("move", "product", "--to", to, "--wait")))
            expect(fleet.instances("product")[0]["gpu"] == to, f"it is to be on {to}")
        print(f"  {asker.end()}; add {seconds:.2f} s; a move to the card {statistics.median(moves['card/gpu0']):.2f} s, "
              f"from it {statistics.median(moves['other/gpu0']):.2f} s")
        gpu = fleet.list()[1]["card"]["gpus"][0]
        expect("lost" not in gpu and "trouble" not in gpu, f"the card is called {gpu}")


def test_what_is_killed_is_begun_anew_or_taken_over():
    with started("fraction") as fleet:
        fleet.model("add", str(fleet.work / "product.yaml"), "--wait")
        fleet.put_on_the_card("product")
        fleet.until(lambda: len(fleet.executors()) == 1, "one executor on the card")
        executor, = fleet.executors()
        asker = Asker(fleet)
        fleet.kill("card")
        fleet.until(lambda: not fleet.list()[1]["card"]["up"], "the host is known to be silent")
        fleet.start_node("card")
        fleet.until(lambda: fleet.list()[1]["card"]["up"] and fleet.list()[0]["product"]["ready"] == 1, "the next node agent has it")
        expect(fleet.executors() == [executor], "the next node agent keeps the executor")
        os.kill(executor, signal.SIGKILL)
        fleet.until(lambda: executor not in fleet.executors() and fleet.list()[0]["product"]["ready"] == 1, "begun anew")
        print(f"  {asker.end()}")


def test_a_program_in_pytorch_is_placed_on_the_card():
    with started("fraction") as fleet:
        network = write_network(fleet)
        (fleet.work / "cats.yaml").write_text("program: resnet50\nname: cats\nshare: 0.5\nmemory: 8GiB\n")
        seconds = timed(lambda: fleet.model("add", str(fleet.work / "cats.yaml"), "--wait"))
        client = spillway.Client(f"unix:{fleet.work}/frames.sock", window=16 << 20)
        times = []
        for seed in range(50):
            x = numpy.random.default_rng(seed).standard_normal((1, 3, 224, 224), "float32")
            begin = time.monotonic()
            answer = client.infer("cats", x, deadline_s=PATIENCE / 2)
            times.append((time.monotonic() - begin) * 1e3)
            with torch.inference_mode():
                right = network(torch.from_numpy(x).cuda()).cpu().numpy()
            expect(abs(answer - right).max() <= 0.01 * abs(right).max(), "the card's answer")
        print(f"  ready after {seconds:.1f} s, p50 {statistics.median(times):.2f} ms")
        found, = fleet.found()
        expect((found["CUDA_VISIBLE_DEVICES"], found["SPILLWAY_GPU"], found["SPILLWAY_MODEL"], found["devices"]) == (UUID, UUID, "cats", 1),
               f"what it found: {found}")
        expect(f'spillway_gateway_gpu_slices{{gpu_id="{UUID}"}} 1' in fleet.metrics(), "the card's UUID among the metrics")
        fleet.model("remove", "cats", "--wait")


def test_under_mps_two_programs_have_their_shares_of_one_card():
    if not shutil.which("nvidia-cuda-mps-control"):
        print("  not run: no nvidia-cuda-mps-control here")
        return
    with started("none", mps=True) as fleet:
        write_network(fleet)
        (fleet.work / "cats.yaml").write_text("program: resnet50\nname: cats\nshare: 0.5\nmemory: 8GiB\nreplicas: 2\n")
        fleet.model("add", str(fleet.work / "cats.yaml"), "--wait")
        expect({one["gpu"] for one in fleet.instances("cats")} == {"card/gpu0"}, "both on the card")
        fleet.until(lambda: len(fleet.found()) == 2, "both have begun")
        whole = torch.cuda.get_device_properties(0).multi_processor_count
        for found in fleet.found():
            expect(found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50", f"what it found: {found}")
            expect(0.4 * whole <= found["multiprocessors"] <= 0.55 * whole, f"of {whole} multiprocessors it has {found['multiprocessors']}")
        print(f"  {[found['multiprocessors'] for found in fleet.found()]} of {whole} multiprocessors")
        client = spillway.Client(f"unix:{fleet.work}/frames.sock", window=16 << 20)
        client.infer("cats", numpy.ones((1, 3, 224, 224), "float32"), deadline_s=PATIENCE / 2)


def write_network(fleet):
    """cats.pt: a small network; returns it, on the card."""
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 7, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(),
                                  torch.nn.Linear(32 * 64, 1000)).eval()
    torch.jit.script(network).save(str(fleet.work / "cats.pt"))
    return network.cuda()


class started:
    """A fleet, and an MPS daemon of its own where one is asked for; both end with the block."""

    def __init__(self, isolation, mps=False):
        self.isolation, self.mps = isolation, mps

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        if self.mps:
            pipes = pathlib.Path(self.folder.name) / "mps"
            pipes.mkdir()
            ENVIRONMENT.update(CUDA_MPS_PIPE_DIRECTORY=str(pipes), CUDA_MPS_LOG_DIRECTORY=str(pipes))
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
        self.fleet = Fleet(self.folder.name, self.isolation)
        return self.fleet

    def __exit__(self, kind, error, trace):
        if kind:
            self.fleet.show()
        self.fleet.end()
        if self.mps:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", env=ENVIRONMENT, text=True, stdout=subprocess.DEVNULL)
            for name in "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY":
                del ENVIRONMENT[name]
        self.folder.cleanup()


failed = False
for name, test in [entry for entry in globals().items() if entry[0].startswith("test_")]:
    print(name, flush=True)
    try:
        test()
    except SystemExit as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        failed = True
print("failed" if failed else "passed")
sys.exit(failed)

# SPDX-License-Identifier: Apache-2.0
"""A gateway and the Python programs that serve models for it, as tests of them need both."""
import os
import pathlib
import queue
import subprocess
import sys
import textwrap
import threading
import urllib.request

import numpy
import spillway

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
PATIENCE = 100  # seconds until this test gives up on something
# As far as the module asks of it: tensors in "device memory" that know where they are.
TORCH = '''
import os, numpy
float32 = "torch.float32"
class cuda:
    is_available = staticmethod(lambda: device_count() > 0)
    device_count = staticmethod(lambda: device_count())
def device_count(): return int(os.environ.get("DOUBLE_GPUS", "0"))
class Tensor:
    def __init__(self, array, device): self.array, self.device = array, device
    def to(self, device): return Tensor(self.array.copy(), device)
    def detach(self): return self
    def cpu(self): return Tensor(self.array, "cpu")
    def numpy(self):
        assert self.device == "cpu", "the host cannot read a GPU's memory"
        return self.array
def from_numpy(array): return Tensor(array, "cpu")
'''


def environment_of(programs):
    """For Spillway's programs alone: with the libraries that `tests/gpu/run --pack` carried along, where it did."""
    environment = dict(os.environ)
    carried = pathlib.Path(programs).parent / "lib"
    if carried.is_dir():
        environment["LD_LIBRARY_PATH"] = f"{carried}:{environment.get('LD_LIBRARY_PATH', '')}".strip(":")
    return environment


class Bed:
    def __init__(self, work, programs, python):
        """work: an empty folder; programs: the one of spillway-gateway; python: the one of the module."""
        self.work = pathlib.Path(work)
        self.python = python
        (self.work / "double").mkdir()
        (self.work / "double" / "torch.py").write_text(TORCH)
        (self.work / "hidden").mkdir()
        (self.work / "hidden" / "torch.py").write_text("raise ImportError('none here')\n")
        config = self.work / "gateway.yaml"
        config.write_text(f'http: 127.0.0.1:0\nframes: ["unix:{self.work}/frames"]\nexecutors: {self.work}/executors\n')
        self.gateway = subprocess.Popen([pathlib.Path(programs) / "spillway-gateway", "-c", config], env=environment_of(programs),
                                        stderr=subprocess.PIPE, text=True)
        self.programs = []
        self.log = queue.Queue()
        threading.Thread(target=lambda: [self.log.put(line) for line in self.gateway.stderr], daemon=True).start()
        self.http = "127.0.0.1:" + self.await_line("http on").rsplit(" ", 1)[1].strip()
        self.await_line("ready")

    def end(self):
        for program in self.programs + [self.gateway]:
            program.kill()
            program.wait()

    def write(self, name, text):
        path = self.work / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        return path

    def start(self, program, *arguments, torch="hidden", **environment):
        """A program; joined, or ended, when this returns."""
        paths = [self.python, self.work / torch] + [path for path in [os.environ.get("PYTHONPATH")] if path]
        environment = {**os.environ, "PYTHONPATH": ":".join(str(path) for path in paths), "PYTHONDONTWRITEBYTECODE": "1",
                       "SPILLWAY_GATEWAY": f"{self.work}/executors", "OPENBLAS_NUM_THREADS": "1", **environment}
        running = subprocess.Popen([sys.executable, program, *arguments], env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.programs.append(running)
        return running

    def await_line(self, *words):
        """Of the gateway's log, from where it was last read. Fails when the gateway, or the last program, has ended."""
        while True:
            try:
                line = self.log.get(timeout=1)
            except queue.Empty:
                for one in self.programs[-1:] + [self.gateway]:
                    if one.poll():  # with an error
                        said = one.stderr.read() if one is not self.gateway else ""
                        raise SystemExit(f"{one.args} ended with {one.returncode}: {said}") from None
                continue
            if all(word in line for word in words):
                return line

    def await_join(self, name):
        self.await_line(f"executor {name}-", "joined")

    def client(self, window=16 << 20):
        return spillway.Client(f"unix:{self.work}/frames", window=window)

    def ask(self, model, x):
        return self.client().infer(model, x, deadline_s=PATIENCE / 2)

    def refused(self, model, x=None):
        try:
            answer = self.ask(model, numpy.ones((1, 4), "float32") if x is None else x)
        except spillway.Refused as error:
            return f"{error.status} {error}"
        raise SystemExit(f"{model}: expected an error, got {answer}")

    def metric(self, name):
        text = urllib.request.urlopen(f"http://{self.http}/metrics", timeout=PATIENCE).read().decode()
        return float(next(line for line in text.splitlines() if line.startswith(f"spillway_gateway_{name} ")).split()[1])


def expect(condition, what):
    if not condition:
        raise SystemExit(what)

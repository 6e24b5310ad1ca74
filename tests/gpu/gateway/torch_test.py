#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python programs on a card, with PyTorch as it is: device="cuda". Arguments: the folder of spillway-gateway and the one
of the module `spillway`. Exits with 77 where PyTorch finds no GPU."""
import concurrent.futures
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

from with_torch import module, programs

import numpy
import spillway
from serving_bed import EXAMPLES, PATIENCE, Bed, expect


def test_a_tensor_lies_in_the_cards_memory_and_its_answer_comes_back(bed):
    bed.start(bed.write("doubled", '''
        import spillway
        while True:
            x = spillway.tensor((1, 4096), "float32", device="cuda")
            assert x.is_cuda and x.device.index == 0, x.device
            spillway.answer(x * 2)
        '''), torch="none")
    bed.await_join("doubled")
    for seed in range(20):
        x = numpy.random.default_rng(seed).standard_normal((1, 4096), "float32")
        expect((bed.ask("doubled", x) == 2 * x).all(), "the card's answer")


def test_the_gateway_knows_the_program_by_its_cards_uuid(bed):
    bed.start(bed.write("known", '''
        import spillway
        spillway.serve(lambda x: x + 1, (1, 4), device="cuda:0")
        '''), torch="none")
    bed.await_join("known")
    x = numpy.ones((1, 4), "float32")
    expect((bed.ask("known", x) == 2).all(), "its answer")
    uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
    if uuid is None:
        print("  its name was not compared: this PyTorch does not tell it")
        return
    uuid = f"GPU-{uuid}"
    text = urllib.request.urlopen(f"http://{bed.http}/metrics", timeout=PATIENCE).read().decode()
    expect(f'spillway_gateway_gpu_slices{{gpu_id="{uuid}"}} 1' in text,
           f"expected {uuid} among " + "; ".join(line for line in text.splitlines() if "gpu_slices" in line))


def test_of_a_batch_each_gets_its_own_answer_and_an_exception_its_line(bed):
    bed.start(bed.write("batched", '''
        import spillway
        def model(x):
            if (x < 0).any():
                raise ValueError("negative")
            return x @ x.new_ones((4, 2))
        spillway.serve(model, (1, 4), "float32", output_shape=(1, 2), device="cuda", max_batch=4, max_delay=1)
        '''), torch="none")
    bed.await_join("batched")
    inputs = [numpy.full((1, 4), value, "float32") for value in (1, -2, 3, 4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda x: (bed.refused if x[0, 0] < 0 else bed.ask)("batched", x), inputs))
    for x, answer in zip(inputs, answers):
        if x[0, 0] < 0:
            expect("batched.py:5: ValueError" in answer, answer)
        else:
            expect((answer == 4 * x[0, 0]).all(), f"another's answer: {x}, {answer}")


def test_a_gpu_that_is_not_there_is_named(bed):
    path = bed.write("absent", 'import spillway\nspillway.tensor((1, 4), device="cuda:64")\n')
    _, errors = bed.start(path, torch="none").communicate(timeout=PATIENCE)
    expect('absent.py:2: device="cuda:64": expected a GPU number below' in errors, errors)


def test_the_example_of_resnet50s_shape(bed):
    bed.start(EXAMPLES / "serve_resnet50_torch.py", torch="none")
    bed.await_join("serve_resnet50_torch")
    images = [numpy.random.default_rng(seed).standard_normal((1, 3, 224, 224), "float32") for seed in range(48)]
    client = bed.client()
    client.infer("serve_resnet50_torch", images[0], deadline_s=PATIENCE / 2)  # the first chooses its kernels
    alone, times = [], []
    for image in images:
        begin = time.monotonic()
        alone.append(client.infer("serve_resnet50_torch", image, deadline_s=PATIENCE / 2))
        times.append((time.monotonic() - begin) * 1e3)
    own = threading.local()  # a client is one thread's

    def begin_client():
        own.client = bed.client(2 << 20)

    with concurrent.futures.ThreadPoolExecutor(16, initializer=begin_client) as pool:
        def ask(image):
            return own.client.infer("serve_resnet50_torch", image, deadline_s=PATIENCE / 2)

        together = list(pool.map(ask, images))  # chooses kernels again, for each size of batch
        list(pool.map(ask, images * 10))
        begin = time.monotonic()
        list(pool.map(ask, images * 20))
        seconds = time.monotonic() - begin
    for one, batched in zip(alone, together):
        expect(one.shape == (1, 1000) and one.std() > 0, "its scores")
        # Other kernels for other batches, in TF32: a 10-bit mantissa through 50 layers.
        expect(abs(one - batched).max() < 0.05 * one.std(), f"a batch's scores differ by {abs(one - batched).max()}")
    expect(abs(alone[0] - alone[1]).max() > 0, "two images, the same scores")
    print(f"  one at a time: p50 {statistics.median(times):.2f} ms, max {max(times):.2f}; 16 at once: "
          f"{20 * len(images) / seconds:.0f} requests/s")


for name, test in [entry for entry in globals().items() if entry[0].startswith("test_")]:
    print(name, flush=True)
    with tempfile.TemporaryDirectory() as work:
        bed = Bed(work, programs, module)
        try:
            test(bed)
        finally:
            bed.end()
print("passed")

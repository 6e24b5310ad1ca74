#!/usr/bin/env python3
"""Python programs that serve models, as their authors run them, right and wrong: what the program is told and what its
clients are. Argument: the build folder. Starts a gateway of its own; needs no privileges."""
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source tree stays as it is
try:
    import numpy
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(77)
build = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(build / "python"))
from serving_bed import EXAMPLES, PATIENCE, Bed, expect


def test_a_program_of_one_line_is_told_of_the_request_that_it_left(bed):
    program = bed.start(bed.write("one_line", '''
        import spillway
        x = spillway.tensor((1, 4), "float32")
        print(x.sum())
        '''))
    bed.await_join("one_line")
    told = bed.refused("one_line")
    expect(told.startswith("failed ") and "one_line.py:3: the program exited without answering" in told, told)
    program.communicate(timeout=PATIENCE)


def test_a_program_that_takes_the_next_request_without_answering_ends_with_its_line(bed):
    program = bed.start(bed.write("never", '''
        import spillway
        while True:
            x = spillway.tensor((1, 4), "float32")
        '''))
    bed.await_join("never")
    told = bed.refused("never")
    expect("never.py:4: the program took the next request without answering this one" in told, told)
    _, errors = program.communicate(timeout=PATIENCE)
    expect(program.returncode == 1, program.returncode)
    expect("Unanswered: never.py:4: the program took the next request without answering" in errors, errors)


def test_a_block_answers_or_is_told_its_line(bed):
    program = bed.start(bed.write("block", '''
        import spillway
        for turn in range(2):
            with spillway.request((1, 4), "float32") as x:
                if turn == 0: spillway.answer(x + 1)
        '''))
    bed.await_join("block")
    expect((bed.ask("block", numpy.ones((1, 4), "float32")) == 2).all(), "the block's answer")
    told = bed.refused("block")
    expect("block.py:4: the block ended without answering this request" in told, told)
    _, errors = program.communicate(timeout=PATIENCE)
    expect("Unanswered: block.py:4: " in errors, errors)


def test_an_exception_in_a_block_reaches_who_asked_with_its_line_and_type(bed):
    program = bed.start(bed.write("raises", '''
        import spillway
        with spillway.request((1, 4), "float32") as x:
            raise ValueError("no cat in it")
        '''))
    bed.await_join("raises")
    told = bed.refused("raises")
    expect("raises.py:4: ValueError" in told and "cat" not in told, told)
    _, errors = program.communicate(timeout=PATIENCE)
    expect("ValueError: no cat in it" in errors, errors)


def test_serve_answers_with_the_models_output_and_outlives_its_exceptions(bed):
    program = bed.start(bed.write("served", '''
        import spillway
        def model(x):
            if x.min() < 0:
                raise ValueError("negative")
            return x.sum(axis=1, keepdims=True)
        spillway.serve(model, (1, 4), "float32", output_shape=(1, 1))
        '''))
    bed.await_join("served")
    x = numpy.ones((1, 4), "float32")
    expect(bed.ask("served", x) == 4, "its answer")
    told = bed.refused("served", -x)
    expect("served.py:5: ValueError" in told and "negative" not in told, told)
    expect(bed.ask("served", x) == 4, "its answer after an exception")
    line = program.stderr.readline()
    expect(line == "served.py:5: ValueError: negative\n", line)


def test_an_exceptions_text_is_one_short_printable_line_on_stderr(bed):
    program = bed.start(bed.write("shown", '''
        import spillway
        def model(x):
            raise ValueError("\\x1b[2J, \\u202e, " + "x" * 1000)
        spillway.serve(model, (1, 4), "float32")
        '''))
    bed.await_join("shown")
    bed.refused("shown")
    line = program.stderr.readline()
    expect(line == "shown.py:4: ValueError: ?[2J, ?, " + "x" * 291 + "\n", repr(line))


def test_requests_that_wait_come_as_one_batch_and_each_gets_its_own_answer(bed):
    program = bed.start(bed.write("batched", '''
        import sys, numpy, spillway
        def model(x):
            sys.stdin.readline()
            return numpy.concatenate([x * 2, numpy.full((len(x), 1), len(x), "float32")], axis=1)
        spillway.serve(model, (1, 4), "float32", output_shape=(1, 5), max_batch=4)
        '''))
    bed.await_join("batched")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        inputs = [numpy.full((1, 4), i, "float32") for i in range(8)]
        asked = [pool.submit(bed.ask, "batched", x) for x in inputs]
        while bed.metric("running_requests") < 8:
            pass
        program.stdin.write("\n" * 8)
        program.stdin.flush()
        answers = [one.result(PATIENCE) for one in asked]
    for x, y in zip(inputs, answers):
        expect((y[0, :4] == 2 * x[0]).all(), f"another's answer: {x}, {y}")
    sizes = [int(y[0, 4]) for y in answers]
    expect(max(sizes) == 4 and sizes.count(4) >= 4, f"batches of {sizes}")


def test_of_a_batch_only_the_requests_fail_that_the_model_raises_for(bed):
    bed.start(bed.write("mixed", '''
        import spillway
        def model(x):
            x *= 2
            if x.min() < 0:
                raise ValueError(f"negative: {x.tolist()}")
            return x
        spillway.serve(model, (1, 4), "float32", max_batch=4, max_delay=60)
        '''))
    bed.await_join("mixed")
    inputs = [numpy.full((1, 4), i, "float32") for i in (1, -2, 3, 4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(bed.refused if x[0, 0] < 0 else bed.ask, "mixed", x) for x in inputs]
        answers = [one.result(PATIENCE) for one in asked]
    for x, answer in zip(inputs, answers):
        if x[0, 0] < 0:
            expect(answer.startswith("failed ") and "mixed.py:6: ValueError" in answer and "negative" not in answer, answer)
        else:
            expect((answer == 2 * x).all(), f"{x}: {answer}")


def test_of_two_programs_nearly_all_requests_go_to_the_quicker_one(bed):
    for name, seconds in (("slow", 0.2), ("quick", 0.02)):  # the slow one is there first
        bed.start(bed.write(name, f'''
            import time, spillway
            def model(x):
                time.sleep({seconds})
                return x * 0 + {seconds}
            spillway.serve(model, (1, 1), "float32", model="either")
            '''))
        bed.await_join("either")
    client = bed.client()
    answers = [client.infer("either", numpy.zeros((1, 1), "float32"), deadline_s=PATIENCE / 2)[0, 0] for _ in range(60)]
    slow = sum(answer > 0.1 for answer in answers)
    expect(1 <= slow <= 6, f"{slow} of 60 went to the slow one")


def test_device_cuda_says_what_is_missing_and_where(bed):
    path = bed.write("on_card", '''
        import spillway
        x = spillway.tensor((1, 4), "float32", device="cuda:1")
        assert x.device == "cuda:1", x.device
        spillway.answer(x)
        ''')
    for torch, gpus, text in (("hidden", 0, "expected PyTorch, which puts the tensor into the GPU's memory"),
                              ("double", 0, "expected a GPU; PyTorch finds none"),
                              ("double", 1, "expected a GPU number below 1, as PyTorch finds no more")):
        _, errors = bed.start(path, torch=torch, DOUBLE_GPUS=str(gpus)).communicate(timeout=PATIENCE)
        last = errors.splitlines()[-1]
        expect(last.startswith("spillway.errors.BadArgument: on_card.py:3: device=\"cuda:1\": ") and text in last, errors)
    program = bed.start(path, torch="double", DOUBLE_GPUS="2", CUDA_VISIBLE_DEVICES="")
    bed.await_join("on_card")
    x = numpy.arange(4, dtype="float32").reshape(1, 4)
    expect((bed.ask("on_card", x) == x).all(), "from a GPU's memory and back")
    _, errors = program.communicate(timeout=PATIENCE)
    expect(program.returncode == 0, errors)


def test_wrong_arguments_are_named(bed):
    for asked, text in (('device="tpu"', 'device: expected "cpu", "cuda" or "cuda:NUMBER", got \'tpu\''),
                        ("max_batch=0", "max_batch: expected a whole number from 1 to 128, got 0"),
                        ("max_delay=-1", "max_delay: expected seconds from 0 to 60, got -1")):
        path = bed.write("wrong", f'import spillway\nspillway.tensor((1, 4), {asked})\n')
        _, errors = bed.start(path).communicate(timeout=PATIENCE)
        expect(text in errors.splitlines()[-1], errors)


def test_the_example_of_resnet50s_shape_in_numpy(bed):
    bed.start(EXAMPLES / "serve_resnet50_numpy.py", "4")
    bed.await_join("serve_resnet50_numpy")
    sys.path.insert(0, str(EXAMPLES))
    import serve_resnet50_numpy
    model = serve_resnet50_numpy.ResNet50(4)
    images = [numpy.random.default_rng(i).standard_normal((1, 3, 224, 224), "float32") for i in range(3)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda image: bed.ask("serve_resnet50_numpy", image), images))
    for image, answer in zip(images, answers):
        expect(answer.shape == (1, 1000) and answer.std() > 0, "its scores")
        expect(numpy.allclose(answer, model(image), rtol=1e-3, atol=1e-4), "other scores than the model's")


def test_the_example_of_resnet50s_shape_in_pytorch(bed):
    if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        print("  skipped: this Python has no PyTorch")
        return
    bed.start(EXAMPLES / "serve_resnet50_torch.py", torch="none")
    bed.await_join("serve_resnet50_torch")
    expect(bed.ask("serve_resnet50_torch", numpy.ones((1, 3, 224, 224), "float32")).shape == (1, 1000), "its scores")


for name, test in [entry for entry in globals().items() if entry[0].startswith("test_")]:
    print(name, flush=True)
    with tempfile.TemporaryDirectory() as work:
        bed = Bed(work, build / "bin", build / "python")
        try:
            test(bed)
        finally:
            bed.end()
print("passed")

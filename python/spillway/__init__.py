# SPDX-License-Identifier: Apache-2.0
"""Requests of a Spillway gateway as NumPy or PyTorch tensors, without a copy.

The one line: where a program that serves a model made its input tensor, it says

    x = spillway.tensor((1, 784), "float32")

and x is the next request's data, in the memory into which the gateway delivered it. The program goes on as
before; `spillway.answer(y)` sends y back through the gateway. A request that is left without an answer is an error, which
names the line that took it. Where there is nothing between the model and its answer,

    spillway.serve(model, (1, 784), "float32", output_shape=(1, 10), max_batch=8, max_delay=0.002)

answers every request with what the model returns, and `with spillway.request((1, 784)) as x:` sees to it that the block
answers.

A client on the gateway's host writes its requests where the gateway reads them:

    client = spillway.Client("unix:/run/spillway-gateway/frames.sock")
    x = client.tensor((1, 784), "float32")
    x[:] = ...
    y = client.infer("digits", x)

Client("192.0.2.1:8001", token=...) is one of another machine: where both machines have RDMA it writes its requests where
the gateway reads them, too, and else sends them; client.way says which.

Tensors are row-major. dtypes are bool, (u)int8 to (u)int64, float16, float32 and float64, by NumPy's names or as
torch.float32 and its like. Errors are spillway.Error's subclasses: BadArgument, Unanswered, GatewayGone, WindowFull,
Refused.
The functions may not be called by two threads at a time; threads may share a Client.
"""
import atexit
import os
import re
import sys

import numpy

from . import _spillway
from ._tensors import _NUMPY, _shape, _view, _wants_torch, _word
from .client import Client
from .errors import BadArgument, Error, GatewayGone, Refused, Unanswered, WindowFull, WrongShape

__all__ = ["BadArgument", "Client", "Error", "GatewayGone", "Refused", "Unanswered", "WindowFull", "WrongShape",
           "answer", "refuse", "request", "serve", "tensor"]


def _line(frame=None):
    """Where the program called this package: "FILE:LINE"."""
    frame = frame or sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


class _Device:
    """Where a tensor goes: `torch` is None for the host's memory, `number` counts what CUDA shows the program."""

    def __init__(self, device):
        self.torch, self.name, self.number = None, str(device), 0
        if device is None or self.name == "cpu":
            return
        what = f'{_line()}: device="{self.name}":'
        parsed = re.fullmatch(r"cuda(?::([0-9]{1,3}))?", self.name)
        if parsed is None:
            raise BadArgument(f'{_line()}: device: expected "cpu", "cuda" or "cuda:NUMBER", got {device!r}')
        self.number = int(parsed[1] or 0)
        try:
            import torch
        except ImportError:
            raise BadArgument(f"{what} expected PyTorch, which puts the tensor into the GPU's memory; {sys.executable} "
                              "has none") from None
        if not torch.cuda.is_available():
            raise BadArgument(f"{what} expected a GPU; PyTorch finds none that it can use (torch.cuda.is_available())")
        if self.number >= torch.cuda.device_count():
            raise BadArgument(f"{what} expected a GPU number below {torch.cuda.device_count()}, as PyTorch finds no more")
        self.torch = torch

    def place(self, array):
        return array if self.torch is None else self.torch.from_numpy(array).to(self.name)


class _Serving:
    """This program's slice, made by the first tensor()."""
    program = None
    asked = None
    output = None
    line = None  # that took the requests in hand
    batch = 0    # how many those are
    taken = None  # their inputs, each by itself, and what makes them what tensor() returns


def _leave_unanswered(why):
    text = f"{_Serving.line}: {why}"
    _Serving.program.refuse(text)
    return Unanswered(text)


# Of a program that fails, the gateway gives what it has in hand to another, if there is one.
@atexit.register
def _at_end():
    if _Serving.program is not None and _Serving.program.in_hand() and not hasattr(sys, "last_type"):
        _leave_unanswered("the program exited without answering this request: expected spillway.answer(y)")


def _token(path):
    if not path:
        return ""
    try:
        with open(path, encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o7777
            if mode & 0o077:
                raise BadArgument(f"token_file: expected a file that only its owner may read, such as mode 0600, "
                                  f"got {path} of mode {mode:04o}")
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgument(f"token_file: expected a readable file with the gateway's token, got {path}: {error}") from error


def tensor(shape, dtype="float32", *, output_shape=None, output_dtype=None, model=None, gateway=None,
           token_file=None, gpu=None, device=None, max_batch=1, max_delay=0.0):
    """Waits for the next request, and returns its input where the gateway delivered it, without a copy.

    The first call offers the model to the gateway; later ones name the same.

    shape, dtype: of the input, such as (1, 784) and "float32". The extents are fixed: a request has them all.
    output_shape, output_dtype: of what answer() sends; the input's where not given.
    device: "cpu", or "cuda" or "cuda:NUMBER": the tensor is a torch.Tensor in that GPU's memory, a copy. Needs PyTorch.
    max_batch: requests that are taken together, 1 to 128. The tensor's first extent is then shape's times as many as came,
        and the answer's output_shape's times as many. Where more than one came it is a copy.
    max_delay: seconds, 0 to 60, for which more are waited for once there is one.
    model: the name under which clients ask; where not given $SPILLWAY_MODEL, which the controller sets for programs that
        it has begun (no other name is possible then), and without that the program's file name, without .py.
    gateway: the path of the gateway's socket for executors, or, of a gateway on another machine such as the
        SmartNIC, "rdma:ADDRESS:PORT"; $SPILLWAY_GATEWAY where not given.
        A program with "rdma:..." must not fork afterwards (multiprocessing: start method "spawn").
    token_file: a file that others than its owner and group may not read, with the gateway's token for executors; $SPILLWAY_TOKEN_FILE where
        not given. "rdma:..." needs one; a socket does where the gateway's executors.users has not this user.
    gpu: the GPU that the program uses, by which the gateway keeps tenants apart under `isolation: gpu`: an index as in
        nvidia-smi, "GPU-UUID", "MIG-UUID", or "none"; $SPILLWAY_GPU where not given, and where neither is, the one of
        `device`, or the first that CUDA shows the program.

    Returns a NumPy array of that shape, or a torch.Tensor for a torch dtype or a device of CUDA's. It is valid, and
    writable, until the next call.
    Raises BadArgument (an argument, or another tensor than in the first call), Unanswered (the request before it was not
    answered), GatewayGone (it is not there, or ended while this waited), Refused (it did not take the offer).
    """
    place = _Device(device)
    shape = _shape(shape)
    word = _word(dtype)
    out_shape = _shape(output_shape, "output_shape") if output_shape is not None else shape
    out_word = _word(output_dtype) if output_dtype is not None else word
    if not isinstance(max_batch, int) or not 1 <= max_batch <= 128:
        raise BadArgument(f"max_batch: expected a whole number from 1 to 128, got {max_batch!r}")
    if not isinstance(max_delay, (int, float)) or not 0 <= max_delay <= 60:
        raise BadArgument(f"max_delay: expected seconds from 0 to 60, got {max_delay!r}")
    asked = (shape, word, out_shape, out_word, model, gateway, token_file, gpu, place.name, max_batch)
    if _Serving.program is None:
        path = gateway or os.environ.get("SPILLWAY_GATEWAY")
        if not path:
            raise BadArgument("gateway: expected here or in $SPILLWAY_GATEWAY the path of the gateway's socket for executors")
        token = _token(token_file or os.environ.get("SPILLWAY_TOKEN_FILE"))
        if path.startswith("rdma:") and not token:
            raise BadArgument("token_file: expected here or in $SPILLWAY_TOKEN_FILE a file with the gateway's token for "
                              "executors")
        named = str(gpu if gpu is not None else os.environ.get("SPILLWAY_GPU", ""))
        own = os.path.splitext(os.path.basename(sys.argv[0] or "program"))[0] or "program"
        placed = os.environ.get("SPILLWAY_MODEL")
        if model and placed and model != placed:
            raise BadArgument(f"model: expected {placed}, for which the controller started the program ($SPILLWAY_MODEL), or "
                              f"none, got {model}")
        name = model or placed or own
        instance = os.environ.get("SPILLWAY_INSTANCE") or f"{name}-{os.getpid()}"
        _Serving.program = _spillway.Program(path, token, instance, name, word, list(shape),
                                             out_word, list(out_shape), named, place.number,
                                             max_batch)
        _Serving.asked = asked
        _Serving.output = (out_shape, out_word)
    elif _Serving.asked != asked:
        raise BadArgument(f"tensor: expected the same arguments as before, {_Serving.asked}, got {asked}: a program "
                          "serves one model")
    if _Serving.program.in_hand():
        raise _leave_unanswered("the program took the next request without answering this one: expected spillway.answer(y)")
    taken = _Serving.program.take(round(max_delay * 1e6))
    _Serving.line, _Serving.batch = _line(), len(taken)
    arrays = [_view(memory, shape, word) for memory in taken]
    _Serving.taken = arrays, place, dtype
    return _placed(arrays[0] if len(arrays) == 1 else numpy.concatenate(arrays), place, dtype)


def _placed(array, place, dtype):
    if place.torch is None and _wants_torch(dtype):
        import torch
        return torch.from_numpy(array)
    return place.place(array)


def answer(output):
    """Sends `output` to whom the request in hand is from; of several, each its part.

    output: an array or torch.Tensor (on any device) of tensor()'s output_shape, whose first extent is times as many as
    there are requests in hand; other dtypes are converted to output_dtype.
    Raises BadArgument: another shape, no tensor() before, or the request was answered already.
    """
    if _Serving.program is None:
        raise BadArgument("answer: call tensor() first")
    _Serving.program.answer(_bytes(output, max(_Serving.batch, 1)))


def _bytes(output, requests):
    if output is None:
        raise WrongShape(f"answer: expected an array of shape {_Serving.output[0]}, got None")
    if hasattr(output, "detach"):
        output = output.detach().cpu().numpy()
    shape, word = _Serving.output
    shape = (shape[0] * requests, *shape[1:])
    output = numpy.ascontiguousarray(output, dtype=_NUMPY[word])
    if output.shape != shape:
        raise WrongShape(f"answer: expected shape {shape}, got {output.shape}")
    return output.view(numpy.uint8).reshape(-1)


class request:
    """The next request for the length of a block, which is to answer it:

        with spillway.request((1, 784), output_shape=(1, 10)) as x:
            spillway.answer(model(x))

    Takes what tensor() takes. A block that ends without answer() or refuse() raises Unanswered; one that ends by an
    exception sends its line and type to who asked (`failed`), and raises it.
    """

    def __init__(self, shape, dtype="float32", **options):
        self._asked = (shape, dtype, options)

    def __enter__(self):
        shape, dtype, options = self._asked
        return tensor(shape, dtype, **options)

    def __exit__(self, kind, error, trace):
        if _Serving.program is None or not _Serving.program.in_hand():
            return False
        if error is None:
            raise _leave_unanswered("the block ended without answering this request: expected spillway.answer(y)")
        if isinstance(error, Exception):
            refuse(_told(error))
        return False


def _told(error):
    """Of an exception, its line of the program and its type: its text may quote what another client sent, unless it is
    this module's."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") != __name__:
            where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}: "
        trace = trace.tb_next
    if isinstance(error, WrongShape):  # this module's own text, which quotes nobody
        return f"{where or _Serving.line + ': '}{error}"
    return f"{where}{type(error).__name__}"


def _said(error):
    """The same; on stderr with the beginning of its text, which may quote a client: no terminal's commands, no flood."""
    told = _told(error)
    if isinstance(error, WrongShape):
        print(told, file=sys.stderr, flush=True)
        return told
    text = (str(error).splitlines() or [""])[0][:300]
    print(f"{told}: {''.join(c if c.isprintable() else '?' for c in text)}", file=sys.stderr, flush=True)
    return told


def serve(model, /, shape, dtype="float32", **options):
    """Answers every request with what `model` returns for it, for ever. Takes what tensor() takes (`model="NAME"` is the
    name under which clients ask).

    An exception of the model is the answer to the request it was called for (`failed`, with its line and type), and a line
    with its text on stderr; the next are served. Of several that were taken together the model is called again for each by
    itself, and only those fail that raise. What it returns must have the shape that answer() expects: BadArgument ends it,
    as all else does.
    """
    while True:
        with request(shape, dtype, **options) as x:
            try:
                y = model(x)
            except Exception as error:  # of these requests alone, as far as can be told
                if _Serving.batch > 1:
                    _serve_apart(model)
                else:
                    refuse(_said(error))
                continue
            answer(y)


def _serve_apart(model):
    arrays, place, dtype = _Serving.taken
    for array in arrays:
        try:
            y = model(_placed(array, place, dtype))
        except Exception as error:
            _Serving.program.refuse_first(_said(error))
            continue
        _Serving.program.answer_first(_bytes(y, 1))


def refuse(text):
    """Sends the request in hand back as an error (`failed`) with that text, of which 256 bytes arrive. Without a
    request in hand nothing happens."""
    if _Serving.program is not None:
        _Serving.program.refuse(str(text))

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

Tensors are row-major. dtypes are bool, (u)int8 to (u)int64, float16, float32 and float64, by NumPy's names or as
torch.float32 and its like. Errors are spillway.Error's subclasses: BadArgument, Unanswered, GatewayGone, WindowFull,
Refused.
Neither the functions nor a Client may be used by two threads at a time.
"""
import atexit
import os
import re
import sys

import numpy

from . import _spillway
from .errors import BadArgument, Error, GatewayGone, Refused, Unanswered, WindowFull

__all__ = ["BadArgument", "Client", "Error", "GatewayGone", "Refused", "Unanswered", "WindowFull", "answer", "refuse",
           "request", "serve", "tensor"]

_TYPES = {"bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
          "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16",
          "float32": "FP32", "float64": "FP64"}
_NUMPY = {word: numpy.dtype(name) for name, word in _TYPES.items()}


def _word(dtype):
    # torch.float32 says "torch.float32"; NumPy takes everything else.
    try:
        name = str(dtype)[6:] if str(dtype).startswith("torch.") else numpy.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in _TYPES:
        raise BadArgument(f"dtype: expected one of {', '.join(_TYPES)}, got {name}")
    return _TYPES[name]


def _shape(shape, name="shape"):
    try:
        extents = tuple(int(extent) for extent in shape)
    except (TypeError, ValueError):
        extents = ()
    if not extents or min(extents) < 1:
        raise BadArgument(f"{name}: expected a tuple of extents from 1 on, such as (1, 784), got {shape!r}")
    return extents


def _text(value, name):
    if not isinstance(value, str):
        raise BadArgument(f"{name}: expected a text, got {value!r}")
    return value


def _wants_torch(dtype):
    return str(dtype).startswith("torch.")


def _view(memory, shape, word):
    return numpy.frombuffer(memory, dtype=_NUMPY[word], count=int(numpy.prod(shape))).reshape(shape)


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
            raise BadArgument(f"{what} expected a GPU of that number; PyTorch finds {torch.cuda.device_count()}")
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
        _leave_unanswered("the program ended without answering this request: expected spillway.answer(y)")


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
    model: the name under which clients ask; the program's file name, without .py, where not given.
    gateway: the path of the gateway's socket for executors, or, of a gateway on another machine such as the
        SmartNIC, "rdma:ADDRESS:PORT"; $SPILLWAY_GATEWAY where not given.
        A program with "rdma:..." must not fork afterwards (multiprocessing: start method "spawn").
    token_file: a file, readable by its owner only, with the gateway's token for executors; $SPILLWAY_TOKEN_FILE where
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
            raise BadArgument("gateway: expected it, or $SPILLWAY_GATEWAY: the path of the gateway's socket for executors")
        token = _token(token_file or os.environ.get("SPILLWAY_TOKEN_FILE"))
        if path.startswith("rdma:") and not token:
            raise BadArgument("token_file: expected it, or $SPILLWAY_TOKEN_FILE: a file with the gateway's token for "
                              "executors")
        named = str(gpu if gpu is not None else os.environ.get("SPILLWAY_GPU", ""))
        own = os.path.splitext(os.path.basename(sys.argv[0] or "program"))[0] or "program"
        name = model or own
        _Serving.program = _spillway.Program(path, token, f"{name}-{os.getpid()}", name, word, list(shape),
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
        raise BadArgument("answer: expected tensor() before it")
    _Serving.program.answer(_bytes(output, max(_Serving.batch, 1)))


def _bytes(output, requests):
    if hasattr(output, "detach"):
        output = output.detach().cpu().numpy()
    shape, word = _Serving.output
    shape = (shape[0] * requests, *shape[1:])
    output = numpy.ascontiguousarray(output, dtype=_NUMPY[word])
    if output.shape != shape:
        raise BadArgument(f"answer: expected shape {shape}, got {output.shape}")
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
    """Of an exception, its line of the program and its type: its text may quote what another client sent."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") != __name__:
            where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return f"{where}{type(error).__name__}"


def _said(error):
    """The same; on stderr with the beginning of its text, which may quote a client: no terminal's commands, no flood."""
    told = _told(error)
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


class Client:
    """A client of a gateway on this host, with a window: memory that both share.

    address: "unix:PATH", the gateway's socket of `frames`.
    tenant, token: as gateway.yaml says; without them, the first tenant that needs no token.
    window: bytes of the window, in which all tensors and outputs of this client lie at a time.
    Raises GatewayGone (nobody answers there), BadArgument (no such tenant, a wrong token, a window that the
    gateway has no memory for).
    """

    def __init__(self, address, tenant="", token="", window=64 << 20):
        # Windows are memory of one host: there is none over TCP.
        if not _text(address, "address").startswith("unix:"):
            raise BadArgument(f"address: expected unix:PATH, got {address!r}")
        if not isinstance(window, int) or not 0 < window < 1 << 63:
            raise BadArgument(f"window: expected a number of bytes, got {window!r}")
        self._client = _spillway.Client(address, _text(tenant, "tenant"), _text(token, "token"), window)
        self._models = {}
        self._pieces = {}

    def tensor(self, shape, dtype="float32"):
        """An input tensor in the window: what is written to it need not be sent. Not zeroed.

        Returns a NumPy array, or a torch.Tensor for a torch dtype; valid until free() or the client's end.
        Raises WindowFull, BadArgument.
        """
        shape = _shape(shape)
        word = _word(dtype)
        bytes_ = int(numpy.prod(shape, dtype=object)) * _NUMPY[word].itemsize
        offset, memory = self._client.allocate(bytes_)
        view = _view(memory, shape, word)
        self._pieces[view.__array_interface__["data"][0]] = (offset, bytes_)
        if _wants_torch(dtype):
            import torch
            return torch.from_numpy(view)
        return view

    def free(self, x):
        """Gives x's room in the window back; x must not be used any more. Raises BadArgument if x is not a whole
        tensor() of this client."""
        piece = self._pieces.pop(self._address(x), None)
        if piece is None:
            raise BadArgument("free: expected a tensor() of this client that was not freed yet")
        self._client.free(piece[0])

    @staticmethod
    def _address(x):
        return x.data_ptr() if hasattr(x, "data_ptr") else x.__array_interface__["data"][0]

    def _whole(self, x):
        # A view of a tensor() may begin where it begins, and still be other data: transposed, or every second.
        piece = self._pieces.get(self._address(x))
        torch = hasattr(x, "data_ptr")
        whole = x.is_contiguous() if torch else x.flags.c_contiguous
        bytes_ = x.numel() * x.element_size() if torch else x.nbytes
        return piece is not None and whole and bytes_ == piece[1]

    def infer(self, model, x, deadline_s=0):
        """Runs `model`, which has one input and one output, on x, and waits for the answer.

        x: an array or torch.Tensor of the input's dtype and shape; where the model's first extent is -1, of as
        many rows as its limit allows. What is no tensor() of this client is copied into the window first.
        deadline_s: seconds until the request is given up; 0: the gateway's default.

        Returns a NumPy array with the output, a copy.
        Raises BadArgument (no such model, another dtype or shape), Refused (with the status: busy, no_slice,
        deadline, failed, ...), WindowFull, GatewayGone.
        """
        if _text(model, "model") not in self._models:
            self._models[model] = self._client.describe(model)
        index, inputs, outputs = self._models[model]
        if len(inputs) != 1 or len(outputs) != 1:
            raise BadArgument(f"model {model}: expected one input and one output, it has {len(inputs)} and {len(outputs)}")
        if not hasattr(x, "dtype") or not hasattr(x, "shape"):
            raise BadArgument(f"model {model}: expected an array or a tensor, got {type(x).__name__}")
        if not isinstance(deadline_s, (int, float)) or not 0 <= deadline_s < 1e9:
            raise BadArgument(f"deadline_s: expected seconds, 0 or more, got {deadline_s!r}")
        _, word, expected = inputs[0]
        if _word(x.dtype) != word:
            raise BadArgument(f"model {model}: expected dtype {_NUMPY[word].name}, got {x.dtype}")
        rows = int(x.shape[0]) if len(x.shape) > 0 and expected[0] == -1 else 1
        if list(x.shape) != ([rows] + expected[1:] if expected[0] == -1 else expected):
            raise BadArgument(f"model {model}: expected shape {expected}, got {list(x.shape)}")
        own = None
        if not self._whole(x):
            own = self.tensor(x.shape, x.dtype)
            own[...] = x
            x = own
        offset, bytes_ = self._pieces[self._address(x)]
        shape = [rows if extent == -1 else extent for extent in outputs[0][2]]
        dtype = _NUMPY[outputs[0][1]]
        size = int(numpy.prod(shape)) * dtype.itemsize
        out = None
        try:
            out, memory = self._client.allocate(max(size, 256))
            try:
                self._client.infer(index, rows, offset, bytes_, out, max(size, 256), int(deadline_s * 1e6))
            except Refused as error:
                # Another card may have taken the model's name: the next call asks which.
                if error.status == "no_model":
                    del self._models[model]
                raise
            return numpy.frombuffer(memory, dtype=dtype, count=size // dtype.itemsize).reshape(shape).copy()
        finally:
            if out is not None:
                self._client.free(out)
            if own is not None:
                self.free(own)

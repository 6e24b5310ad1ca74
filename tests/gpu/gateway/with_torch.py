# SPDX-License-Identifier: Apache-2.0
"""What a test of Python programs on a card begins with. Arguments: the folder of the programs and the one of the module
`spillway`. Exits with 77 where PyTorch finds no GPU."""
import pathlib
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
programs, module = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path[:0] = [str(module), str(pathlib.Path(__file__).resolve().parents[2] / "e2e" / "gateway")]
try:
    import numpy  # noqa: F401
    import spillway  # noqa: F401
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: PyTorch finds no GPU that it can use")
    sys.exit(77)

# SPDX-License-Identifier: Apache-2.0
# The wheel: pip wheel ./python --no-deps --no-build-isolation. CMake builds the module; $SPILLWAY_MODULE names one that
# is built already.
import atexit
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

here = pathlib.Path(__file__).resolve().parent
version = re.search(r"project\(spillway VERSION ([0-9.]+)", (here.parent / "CMakeLists.txt").read_text())[1]
# Nothing is left in the source tree.
scratch = tempfile.mkdtemp(prefix="spillway-wheel-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)


class CMakeModule(build_ext):
    def build_extension(self, ext):
        target = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        built = os.environ.get("SPILLWAY_MODULE")
        if not built:
            folder = pathlib.Path(self.build_temp).resolve()
            subprocess.check_call(["cmake", "-S", str(here), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release",
                                   f"-DPython3_EXECUTABLE={sys.executable}"])
            subprocess.check_call(["cmake", "--build", str(folder), "--parallel", "2"])
            built = next((folder / "python" / "spillway").glob("_spillway*.so"))
        shutil.copyfile(built, target)


setup(
    name="spillway",
    version=version,
    description="Requests of a Spillway gateway as NumPy or PyTorch tensors, without a copy",
    license="Apache-2.0",
    python_requires=">=3.9",
    install_requires=["numpy"],
    packages=["spillway"],
    ext_modules=[Extension("spillway._spillway", [])],
    cmdclass={"build_ext": CMakeModule},
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
)

"""Run programs one after another, each in a process of its own that starts quickly.

One process loads the large packages of others, and is forked for each program. Of spibb nothing is
loaded before: what a program does not import itself, it does not find.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import types
from dataclasses import asdict, dataclass
from pathlib import Path

# What most programs load anyway; torch besides, where it is asked for.
PACKAGES = (
    "matplotlib.figure", "numba", "numpy", "pyarrow.csv", "pyarrow.parquet", "scipy.linalg",
    "scipy.sparse", "scipy.special",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """What ``python -c code`` or, without code, ``python -m spibb *words`` would run.

    Attributes:
        words: What follows the program on the command line.
        code: Python to run.
        folder: Where it runs.
        path: A further folder to import from.
    """

    words: tuple[str, ...] = ()
    code: str | None = None
    folder: str = "."
    path: str | None = None


def run_programs(programs, packages=()):
    """Return a ``subprocess.CompletedProcess`` for each program, in order."""
    with tempfile.TemporaryDirectory() as outputs:
        asked = {"programs": [asdict(one) for one in programs], "outputs": outputs}
        done = subprocess.run(
            [sys.executable, __file__, *PACKAGES, *packages], input=json.dumps(asked),
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [
            subprocess.CompletedProcess(
                program, code, *(Path(outputs, f"{k}.{end}").read_text("utf-8") for end in "oe")
            )
            for k, (program, code) in enumerate(zip(programs, json.loads(done.stdout), strict=True))
        ]


def _become(program, out, errors):
    """Run a program in this process, as if it were its own."""
    for target, name in ((1, out), (2, errors)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600), target)
    os.chdir(program["folder"])
    # As both ways of starting Python do, look in the folder itself first.
    sys.path[0] = ""
    if program["path"] is not None:
        sys.path.insert(1, program["path"])
        known = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join([program["path"], known])
    sys.argv = ["-c", *program["words"]]
    if program["code"] is None:
        sys.path[0] = os.getcwd()
        runpy.run_module("spibb", run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(program["code"], "<string>", "exec"), vars(sys.modules["__main__"]))


def _serve():
    asked = json.loads(sys.stdin.read())
    for name in sys.argv[1:]:
        importlib.import_module(name)
    sys.modules["numba"].njit(lambda x: x)(1)  # the compiler too is loaded when it is first used
    gc.freeze()
    codes = []
    for k, program in enumerate(asked["programs"]):
        child = os.fork()
        if child == 0:
            try:
                _become(program, *(os.path.join(asked["outputs"], f"{k}.{end}") for end in "oe"))
                code = 0
            except SystemExit as left:
                code = left.code or 0
            except BaseException:
                traceback.print_exc()
                code = 1
            # To take every package down once more would cost more than most programs do.
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(code)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(json.dumps(codes))


if __name__ == "__main__":
    _serve()

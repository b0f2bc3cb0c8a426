"""Everything about the package stands in pyproject.toml; here its kernels are compiled into the wheel.

Compiled code is looked up by numba's version, Python's, the processor and the sources: where any of them differs it is
passed over and the kernels are compiled at first use, as in a wheel that has none. Nothing here can fail a build.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

#: seconds after which a machine is too slow to be worth the wait
LONGEST = 1800
COMPILES = os.environ.get("PERINSTANCE_PURE", "0") in ("", "0") and importlib.util.find_spec("numba") is not None


class BuildWithKernels(build_py):
    """Copy the modules, then run the warm-up of that copy into a folder of it."""

    def run(self):
        """Build, and compile unless this is an editable install."""
        super().run()
        if not COMPILES or self.editable_mode:
            return
        here = pathlib.Path(self.build_lib).resolve()
        folder = here / "perinstance" / "_compiled"
        work = f"import sys; sys.path.insert(0, {str(here)!r})\n"
        work += "import pathlib; from perinstance.warm_up import compile_ahead\n"
        work += f"print(compile_ahead(pathlib.Path({str(folder)!r})))"
        try:
            subprocess.run([sys.executable, "-c", work], check=True, timeout=LONGEST, cwd=here)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"kernels are not compiled ahead ({type(error).__name__}); they are at first use", file=sys.stderr)
            for file in folder.glob("*"):
                file.unlink()

    def get_outputs(self, include_bytecode=1):
        """Return all files, so that an uninstall knows them too."""
        compiled = pathlib.Path(self.build_lib, "perinstance", "_compiled").glob("*.nbc")
        return [*super().get_outputs(include_bytecode), *map(str, compiled)]


class Native(Distribution):
    """A wheel with compiled code belongs to one Python on one kind of machine."""

    def has_ext_modules(self):
        """Say so in the name of the wheel."""
        return True


building = {"bdist_wheel", "install"} & set(sys.argv)
setup(cmdclass={"build_py": BuildWithKernels}, **({"distclass": Native} if COMPILES and building else {}))

"""Compiled code is only taken again for the very sources that it was made of."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

from gcmf.engines import cell_kernels, compiled, rotation_kernels, row_kernels, scalars

MODULES = (cell_kernels, rotation_kernels, row_kernels, scalars)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rsplit(".", 1)[1])
def test_every_kernel_is_kept_under_the_digest(module):
    kernels = [value for value in vars(module).values() if isinstance(value, Dispatcher)]
    assert kernels
    assert all(kernel.py_func.__qualname__.endswith(compiled.SOURCES) for kernel in kernels)


def test_no_kernel_is_compiled_in_another_way():
    folder = Path(inspect.getfile(compiled)).parent
    assert [path.name for path in folder.glob("*.py") if "njit" in path.read_text()] == ["compiled.py"]


def test_the_digest_sees_every_file(tmp_path):
    def digest(**files):
        folder = tmp_path / "sources"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        return compiled.digest_of(folder)

    first = digest(a="1", b="2")
    assert digest(b="2", a="1") == first
    others = [digest(a="1", b="3"), digest(a="1"), digest(a="1", c="2"), digest(a="12", b=""), digest(a="", b="12")]
    assert len({first, *others}) == 6


def test_an_edit_of_an_imported_file_is_noticed(tmp_path):
    """Numba by itself looks at the file of the called kernel only, and would answer 1 again."""
    package = tmp_path / "toy"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(inspect.getfile(compiled), package / "compiled.py")
    (package / "outer.py").write_text(
        "from toy.compiled import compiled\nfrom toy.inner import inner\n\n\n"
        "@compiled\ndef outer():\n    return inner()\n"
    )

    def answer(value):
        (package / "inner.py").write_text(
            f"from toy.compiled import compiled\n\n\n@compiled\ndef inner():\n    return {value}\n"
        )
        code = "from toy.outer import outer; print(outer(), sum(outer.stats.cache_hits.values()))"
        run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        return run.stdout.split()

    assert answer(1) == ["1", "0"]
    assert answer(1) == ["1", "1"]
    assert answer(2) == ["2", "0"]

"""Broken files: models, checkpoints, tables and project files, each changed in one of many ways, by a seed.

A mutant is made from something sound, and brought to where people would bring it: `gcmf.load`, `fit(resume=True)`, or
the command `gcmf fit`. It must be refused with a sentence, or work; where it is known which of the two, that too.
"""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd
from typer.main import get_command

import gcmf
from gcmf.cli import main
from gcmf.errors import GcmfError, StorageError

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import storage_samples as samples

if TYPE_CHECKING:
    from collections.abc import Callable

N_CELLS = 300
PROJECT = """
[relations.ratings]
source = "ratings.{ending}"
rows = "user"
cols = "film"
row = "user"
col = "film"
value = "rating"
likelihood = "gaussian"
blanks = "missing"

[fit]
n_factors = 1
max_iter = 1
tol = 1e-6
random_state = 3
dtype = "float64"

[output]
model = "m.gcmf"
"""
KNOWN = """
[entities.user]
source = "users.csv"
id = "user"
numeric = ["age"]
"""
JUNK = ("abc", "1e999", "inf", "-Infinity", "--1", "1.2.3", "0x10", "1 2", '"', "\x00", "1;2", "9" * 400, "=1+1", "٣")
"""What stands in place of a rating."""
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 7, 2**40, 2**70, -(2**63), 0.5, float("nan"), float("inf"), "", "x", "float64", "\ud800", [],
    ["x"], [[1]], {}, {"x": 1}, {"kind": "range", "start": 0, "stop": 10**10, "step": 1},
)  # fmt: skip
TOML_VALUES = ('"x"', "-1", "0", "1e400", "nan", "[]", "true", '["a"]', "{a = 1}", "9" * 30, '""', '"\\u0000"',
               "1979-05-27", '"../../etc/passwd"', '"auto"')  # fmt: skip


class Wrong(Exception):  # noqa: N818 - a finding
    """A mutant was met in a way that it should not be."""


def _wrong(what: str) -> NoReturn:
    raise Wrong(what)


# --- bytes and documents --------------------------------------------------------------------------------------------


def broken(whole: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with some changed, left out, doubled, or zero."""
    data = bytearray(whole)
    how, at = int(rng.integers(6)), int(rng.integers(len(data)))
    long = int(rng.integers(1, 64))
    if how < 2:
        for place in rng.integers(len(data), size=1 if how else long):
            data[place] ^= 1 << int(rng.integers(8))
    elif how == 2:
        del data[at:]
    elif how == 3:
        data[at : at + long] = bytes(rng.integers(256, size=long, dtype=np.uint8))
    elif how == 4:
        data[at:at] = data[at : at + long]
    else:
        del data[at : at + long]
    return bytes(data)


def other_document(document: Any, rng: np.random.Generator) -> None:  # noqa: ANN401 - JSON
    """Change a place of a JSON document: another value, nothing, or something beside it."""
    while True:
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        inner = document[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            break
        document = inner
    if rng.random() < 0.15:
        del document[key]
    elif rng.random() < 0.15 and isinstance(document, dict):
        document["extra"] = 1
    else:
        document[key] = VALUES[int(rng.integers(len(VALUES)))]


def other_array(tensors: dict[str, Any], rng: np.random.Generator) -> None:
    """Change one array: its type, its shape, a number in it, or leave it out."""
    name = list(tensors)[int(rng.integers(len(tensors)))]
    array = tensors[name]
    how = int(rng.integers(8))
    if how == 0:
        del tensors[name]
    elif how == 1:
        tensors[name] = array.astype(rng.choice(["float32", "float64", "int64", "uint8", "bool"]))
    elif how == 2:
        tensors[name] = (array[:-1], array[None], array.ravel(), array[:0], np.empty((0, 2**40)))[int(rng.integers(5))]
    elif how == 3:
        tensors[name] = rng.permutation(array) if array.ndim else array
    elif array.size:
        tensors[name] = array.copy()
        value = rng.choice([np.nan, np.inf, -1, 1e30, 1e300, -1e300, 2**62, 1e-300, 0])
        tensors[name].flat[int(rng.integers(array.size))] = np.array(value).astype(array.dtype)


def other_model(path: Path, whole: bytes, rng: np.random.Generator) -> bool:
    """Write a broken model file; whether there was anything to write."""
    if rng.random() < 0.4:
        path.write_bytes(broken(whole, rng))
        return True
    path.write_bytes(whole)
    document, tensors = samples.unpack(path)
    if rng.random() < 0.5:
        other_document(document, rng)
    else:
        other_array(tensors, rng)
    return bool(samples.pack(path, document, tensors))


# --- models and checkpoints -----------------------------------------------------------------------------------------


@cache
def _model(number: int) -> bytes:
    """A sound file."""
    path = Path(f"sound-{number}.gcmf")
    made = (*samples.MODELS, _sampled)[number]()
    made.save(path)
    return path.read_bytes()


def _sampled() -> gcmf.GCMF:
    told = {"inference": "gibbs", "n_samples": 4, "n_burn": 2, "n_chains": 2}
    return gcmf.GCMF(2, random_state=0, max_iter=5, progress=False, **told).fit(_data())


@cache
def _data() -> gcmf.Collection:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 7)) + 0.1 * rng.normal(size=(9, 7))
    return gcmf.Collection([gcmf.Relation("x", "a", "b", x)])


def model(rng: np.random.Generator) -> str:
    """A model file: refused by a StorageError that names it, or all that it is asked has finite answers."""
    path = Path("m.gcmf")
    if not other_model(path, _model(int(rng.integers(len(samples.MODELS) + 1))), rng):
        return "impossible"
    try:
        loaded = gcmf.load(path)
    except StorageError as error:
        if str(path) not in str(error):
            _wrong(f"refused without its name: {error}")
        return "refused"
    samples.use(loaded)
    return "works"


@cache
def _checkpoint(inference: str) -> bytes:
    path = Path(f"sound-{inference}.checkpoint")
    _stopped(inference, path, 4 if inference != "gibbs" else 9).fit(_data())
    return path.read_bytes()


def _stopped(inference: str, path: Path, after: int = 10**6) -> gcmf.GCMF:
    """An estimator that stops after some sweeps."""
    seen: list[int] = []
    told: dict[str, Any] = {"n_burn": 3, "n_samples": 4, "n_chains": 2} if inference == "gibbs" else {}
    if inference == "map":
        told["priors"] = gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)
    return gcmf.GCMF(
        2, random_state=0, max_iter=5, progress=False, inference=inference, checkpoint=path, checkpoint_every=1e9,
        n_threads=1, callbacks=[lambda info: seen.append(1) or len(seen) >= after], **told,
    )  # fmt: skip


def checkpoint(rng: np.random.Generator) -> str:
    """A checkpoint: refused, or the fit ends with a model whose numbers are finite."""
    path = Path("c.gcmf")
    inference = ("vb", "map", "gibbs")[int(rng.integers(3))]
    if not other_model(path, _checkpoint(inference), rng):
        return "impossible"
    try:
        samples.use(_stopped(inference, path).fit(_data(), resume=True))
    except GcmfError:
        return "refused"
    return "works"


# --- tables and project files, by the command line ------------------------------------------------------------------


@cache
def _tables() -> pd.DataFrame:
    """Ratings of a kind, and the other tables of the project; all but the ratings are written."""
    rng = np.random.default_rng(0)
    cells = rng.choice(40 * 20, N_CELLS, replace=False)
    ages = "".join(f"{u},{20 + u % 30}\n" for u in range(40))
    Path("users.csv").write_text(f"user,age\n{ages}")
    return pd.DataFrame(
        {"user": cells // 20, "film": [f"film {c % 20}" for c in cells], "rating": rng.normal(size=N_CELLS)}
    )


@cache
def _app() -> Any:  # noqa: ANN401 - Click's
    """The command; Typer makes it anew each time, which takes longer than what it does."""
    return get_command(main.app)


def _fit(expected: str | int | None) -> str:
    """Run the command; `expected` is "refused", a number of cells, or unknown."""
    Path("m.gcmf").unlink(missing_ok=True)
    out, err, code = io.StringIO(), io.StringIO(), None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            _app().main(["fit", "gcmf.toml", "--max-iter", "1", "--json", "--quiet"], prog_name="gcmf")
        except SystemExit as end:
            code = end.code
    said = " ".join(err.getvalue().split())
    if code == 1 and "Error:" in said and "Traceback" not in said:
        if isinstance(expected, int):
            _wrong(f"refused, though it is sound: {said}")
        if Path("m.gcmf").exists():
            _wrong("refused, and a model is there")
        return "refused"
    if code != 0:
        _wrong(f"exit code {code}: {said}")
    answer = json.loads(out.getvalue())
    if expected == "refused" or (isinstance(expected, int) and answer["cells"] != expected):
        _wrong(f"accepted with {answer['cells']} cells, where {expected} was expected")
    loaded = gcmf.load(answer["model"])
    for relation in loaded.schema_.relations:
        if not np.isfinite(loaded.predict(relation.name)).all():
            _wrong("accepted, and predictions are not finite")
    return "works"


def warm_up() -> None:
    """Meet what is sound, so that all is imported and compiled before memory is limited."""
    for ending, write in (("csv", pd.DataFrame.to_csv), ("parquet", pd.DataFrame.to_parquet)):
        Path("gcmf.toml").write_text(PROJECT.format(ending=ending) + KNOWN)
        write(_tables(), f"ratings.{ending}", index=False)
        assert _fit(N_CELLS) == "works"
    for inference in ("vb", "map", "gibbs"):
        path = Path(f"whole-{inference}.gcmf")
        path.write_bytes(_checkpoint(inference))
        samples.use(_stopped(inference, path).fit(_data(), resume=True))


def csv(rng: np.random.Generator) -> str:
    """A text file, broken anywhere, or one of its lines with what is known to be a fault, or none."""
    Path("gcmf.toml").write_text(PROJECT.format(ending="csv"))
    lines = _tables().to_csv(index=False).splitlines()
    at, other = (int(n) for n in rng.choice(np.arange(1, N_CELLS + 1), 2, replace=False))
    user, film, rating = lines[at].split(",")
    expected: str | int | None = None
    how = int(rng.integers(12))
    if how == 0:
        lines[at], expected = f"{user},{film},{JUNK[int(rng.integers(len(JUNK)))]}", "refused"
    elif how == 1:
        lines[at], expected = f"{user},{film},", N_CELLS - 1
    elif how == 2:
        lines[at], expected = f",{film},{rating}", "refused"
    elif how == 3:
        lines[other], expected = f"{user},{film},7", "refused"
    elif how == 4:
        lines[at], expected = f"{user},{film},{rating},1", "refused"
    elif how == 5:
        lines[at], expected = f"{user},{film}", "refused"
    elif how == 6:
        del lines[at]
        expected = N_CELLS - 1
    elif how == 7:
        lines[1:] = rng.permutation(lines[1:]).tolist()
        expected = N_CELLS
    text = "\n".join(lines).encode() + b"\n"
    if how == 8:
        text, expected = text.replace(b"\n", b"\r\n"), N_CELLS
    elif how > 8:
        text = broken(text, rng)
    Path("ratings.csv").write_bytes(text)
    return _fit(expected)


def parquet(rng: np.random.Generator) -> str:
    """A Parquet file, broken anywhere, or with columns of other types."""
    Path("gcmf.toml").write_text(PROJECT.format(ending="parquet"))
    frame, path, expected = _tables(), Path("ratings.parquet"), None
    how = int(rng.integers(6))
    if how == 0:
        kinds: dict[str, Callable[[Any], Any]] = {
            "user": lambda x: x.astype(rng.choice(["int8", "uint64", "float32", "str"])),
            "film": lambda x: x.astype("category"),
            "rating": lambda x: x.astype(rng.choice(["float32", "str"])),
        }
        name = str(rng.choice(list(kinds)))
        frame = frame.assign(**{name: kinds[name](frame[name])})
    elif how == 1:
        frame = frame.drop(columns=str(rng.choice(["user", "film", "rating"])))
        expected = "refused"
    frame.to_parquet(path)
    if how > 1:
        path.write_bytes(broken(path.read_bytes(), rng))
    return _fit(expected)


def toml(rng: np.random.Generator) -> str:
    """A project file, broken anywhere, or a key with another value, left out, or misspelled."""
    _tables().to_csv("ratings.csv", index=False)
    text = PROJECT.format(ending="csv") + KNOWN
    keys = re.findall(r"^(\w+) = .*$", text, re.MULTILINE)
    key, expected = str(rng.choice(keys)), None
    how = int(rng.integers(6))
    if how == 0:
        text = re.sub(
            rf"^{key} = .*$", lambda _: f"{key} = {rng.choice(TOML_VALUES)}", text, count=1, flags=re.MULTILINE
        )
    elif how == 1:
        text = re.sub(rf"^{key} = .*\n", "", text, count=1, flags=re.MULTILINE)
    elif how == 2:
        text, expected = text.replace(f"{key} = ", f"{key}x = ", 1), "refused"
    elif how == 3:
        text, expected = text.replace(f"{key} = ", f"{key} = 1\n{key} = ", 1), "refused"
    else:
        Path("gcmf.toml").write_bytes(broken(text.encode(), rng))
        return _fit(None)
    Path("gcmf.toml").write_text(text, encoding="utf-8")
    return _fit(expected)


KINDS: dict[str, Callable[[np.random.Generator], str]] = {
    "model": model, "checkpoint": checkpoint, "csv": csv, "parquet": parquet, "toml": toml,
}  # fmt: skip


def meet(kind: str, seed: int) -> str:
    """Make a mutant in this folder and meet it: "refused", "works", "impossible", or what was wrong with that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return KINDS[kind](np.random.default_rng([list(KINDS).index(kind), seed]))
        except Wrong as wrong:
            return f"wrong: {wrong}"
        except BaseException as error:  # whatever it is, nobody should meet it
            return f"wrong: {type(error).__name__}: {error}"

"""Whatever a file holds: it is refused by a StorageError that names it, or the model works and its numbers are finite.

GCMF_MUTATIONS=all tries every mutation; without it a sample of them, the same each time.
"""

import copy
import os
import tracemalloc
import warnings
from functools import cache

import numpy as np
import pytest

import gcmf
import storage_samples as samples
from gcmf.errors import StorageError

pytestmark = pytest.mark.filterwarnings("ignore::gcmf.errors.ConvergenceWarning")
EVERYTHING = os.environ.get("GCMF_MUTATIONS") == "all"
SOME = 100
FLIPS = 20_000 if EVERYTHING else 300


@cache
def fitted(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


@pytest.fixture(params=samples.MODELS, ids=lambda make: make.__name__)
def saved(request, tmp_path):
    fitted(request.param).save(tmp_path / "m.gcmf")
    return tmp_path / "m.gcmf"


def is_harmless(path, label):
    """Whether a file is refused as it should be (False), or loads and works (True)."""
    try:
        model = gcmf.load(path)
    except StorageError as error:
        return pytest.fail(f"{label}: {error}") if str(path) not in str(error) else False
    except BaseException as error:
        pytest.fail(f"{label}: {type(error).__name__}: {error}")
    try:
        samples.use(model)
    except BaseException as error:
        pytest.fail(f"{label} was loaded, and then: {type(error).__name__}: {error}")
    return True


# --- documents ----------------------------------------------------------------------------------------------


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


VALUES = (None, True, False, -1, 0, 1, 7, 2**40, 2**70, -(2**63), 0.5, float("nan"), float("inf"), "", "x", "float64",
          "\ud800", [], ["x"], [None], [[1]], {}, {"x": 1}, {"kind": "range", "start": 0, "stop": 10**10, "step": 1},
          {"kind": "text"}, nested(30), nested(900))  # fmt: skip


def places(value, path=()):
    """Every place of a document."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def changed_documents(document):
    """Yield (what was done, another document): each place replaced, left out, doubled or swapped with its neighbor."""
    for path in list(places(document))[1:]:
        *parent, last = path
        for value in VALUES:
            other = copy.deepcopy(document)
            at(other, parent)[last] = value
            yield f"{path} = {str(value)[:40]}", other
        other = copy.deepcopy(document)
        del at(other, parent)[last]
        yield f"{path} left out", other
        other = copy.deepcopy(document)
        holder, keys = at(other, parent), list(at(document, parent)) if isinstance(at(document, parent), dict) else None
        if keys is None:
            holder.insert(0, copy.deepcopy(holder[last]))
            yield f"{path} doubled", other
        else:
            neighbor = keys[keys.index(last) - 1]
            holder[last], holder[neighbor] = holder[neighbor], holder[last]
            yield f"{path} swapped with {neighbor}", other
    for path in list(places(document)):
        if isinstance(at(document, path), dict):
            other = copy.deepcopy(document)
            at(other, path)["extra"] = 1
            yield f"{path} extra", other


def chosen(mutations, seed):
    mutations = list(mutations)
    if EVERYTHING or len(mutations) <= SOME:
        return mutations
    picked = np.random.default_rng(seed).choice(len(mutations), SOME, replace=False)
    return [mutations[n] for n in sorted(picked)]


def test_documents(saved):
    document, tensors = samples.unpack(saved)
    refused = 0
    for label, other in chosen(changed_documents(document), 1):
        if samples.pack(saved, other, tensors):
            refused += not is_harmless(saved, label)
    assert refused > 30


# --- arrays -------------------------------------------------------------------------------------------------


def changed_arrays(tensors):
    """Yield (what was done, other arrays): other types, shapes, signs and sizes, missing, renamed, added."""
    rng = np.random.default_rng(0)
    for name, array in tensors.items():
        changes = {
            "float32": array.astype(np.float32), "float64": array.astype(np.float64), "int64": array.astype(np.int64),
            "uint8": array.astype(np.uint8), "bool": array.astype(bool), "int16": array.astype(np.int16),
            "flat": array.ravel(), "deep": array[None], "short": array[:-1], "long": np.concatenate([array, array]),
            "turned": array.T, "empty": array[:0], "huge and empty": np.empty((0, 2**40)), "zero": np.zeros_like(array),
            "one": np.ones_like(array), "negative": -array if array.dtype != bool else ~array,
            "shuffled": rng.permutation(array) if array.ndim else array,
        }  # fmt: skip
        for value in (np.nan, np.inf, -1, 1e30, 1e300, 2**62) if array.size else ():
            other = array.copy()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other.flat[0] = np.array(value).astype(array.dtype)
            changes[str(value)] = other
        for what, other in changes.items():
            yield f"{name} {what}", {**tensors, name: other}
        rest = {key: part for key, part in tensors.items() if key != name}
        yield f"{name} left out", rest
        yield f"{name} renamed", {**rest, f"{name}/0": array}
        yield f"{name} moved", {**rest, "elsewhere": array}
    yield "one more", {**tensors, "fitted/novelty": np.zeros(2)}
    yield "an array as a parameter", {**tensors, "params/random_state": np.zeros(2)}
    yield "no array", {}


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
def test_arrays(saved):
    document, tensors = samples.unpack(saved)
    refused = 0
    for label, other in chosen(changed_arrays(tensors), 2):
        samples.pack(saved, document, other)
        refused += not is_harmless(saved, label)
    assert refused > 30


# --- bytes --------------------------------------------------------------------------------------------------


def test_flipped_bits_and_missing_ends(saved):
    whole, rng = saved.read_bytes(), np.random.default_rng(0)
    head = int.from_bytes(whole[:8], "little")
    for n in range(FLIPS):
        broken = bytearray(whole)
        # Half of them in the head, which is JSON: there, a bit may change anything.
        at = int(rng.integers(8 + head if n % 2 else len(whole)))
        broken[at] ^= 1 << int(rng.integers(8))
        saved.write_bytes(broken)
        is_harmless(saved, f"bit {at}")
        if n % 10 == 0:
            saved.write_bytes(whole[: int(rng.integers(len(whole)))])
            assert not is_harmless(saved, "cut off")


# --- what was found once ------------------------------------------------------------------------------------


def test_a_range_is_counted_before_it_is_made(tmp_path):
    path = tmp_path / "m.gcmf"
    fitted(samples.positions).save(path)
    document, tensors = samples.unpack(path)
    document["entities"][0]["ids"]["stop"] = 10**10
    samples.pack(path, document, tensors)
    tracemalloc.start()
    with pytest.raises(
        StorageError, match=r"m\.gcmf is no sound .*entities/0/ids holds the ids range\(0, 10000000000, 1\)"
    ):
        gcmf.load(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d, t: t.update({"fitted/var/0": -t["fitted/var/0"]}), "fitted/var/0 holds numbers .* not within 0"),
        (lambda d, t: t["fitted/parameters/0"].fill(0), "parameters are not what the likelihood of their relation"),
        (lambda d, t: t["fitted/center"].fill(3), "center or scale are of Gaussian cells"),
        (lambda d, t: t["fitted/mean/2"].fill(3), "a factor is off which has members"),
        (lambda d, t: t["relations/3/units/scale"].fill(0), "relations/3/units/scale holds numbers"),
        (lambda d, t: t.update({"fitted/bias_mean/0": np.zeros(8)}), r"has 8 members of 'user', where there are 9"),
        (lambda d, t: d["relations"][0].update(name="plays"), "2 relations are named 'plays'"),
        (lambda d, t: d["relations"][1]["likelihood"].update(bound="tigth"), "must be one of 'exact', .* Got 'tigth'"),
        (lambda d, t: d["relations"][1]["likelihood"].update(zero_weight=-1), "zero_weight must be a positive number"),
        (lambda d, t: d["params"].update(n_factors=-1), "params cannot be used: .*n_factors"),
        (lambda d, t: d["params"].update(novelty=1), "params cannot be used: .*novelty"),
        (lambda d, t: d.update(status="FINE"), "status is 'FINE', where one of CONVERGED"),
        (lambda d, t: d.update({"class": "os.system"}), "class is 'os.system', where one of GCMF"),
        (lambda d, t: d.update(params=nested(900)), "nested without end"),
        (lambda d, t: t.update({"terms/parameters/0": np.ones(1)}), "terms/parameters are not what the likelihood"),
        (lambda d, t: t["terms/parameters/0"].fill(0), "terms/parameters are not what the likelihood"),
        (lambda d, t: t["terms/precision"].fill(0), "terms/precision is not above zero"),
        (lambda d, t: t["terms/bias_prior"].fill(0), "terms/bias_prior holds a variance"),
        (lambda d, t: t["terms/links"].__setitem__((0, 1), 7.0), "terms/links is no covariance"),
        (lambda d, t: t["terms/links"].__setitem__(([0, 6], [6, 0]), 99.0), "terms/links is no covariance"),
        (lambda d, t: t.update({"terms/has_cells/0": np.ones(8, bool)}), "terms/has_cells/0 has 8 members of 'user'"),
        (lambda d, t: t.update({"pairs/0/code": np.full(3, 255, np.uint8)}), "pairs/0/code ends within"),
        (lambda d, t: t.update({"pairs/0/code": np.full(99, 99, np.uint8)}), "pairs/0/code lists a pair .* outside"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, change, said):
    path = tmp_path / "m.gcmf"
    fitted(samples.many_relations).save(path)
    document, tensors = samples.unpack(path)
    change(document, tensors)
    samples.pack(path, document, tensors)
    with pytest.raises(StorageError, match=said):
        gcmf.load(path)


@pytest.mark.parametrize(("change", "said"), [
    (lambda of, t: of["features"].pop(), "entities/0/covariates/features is 4, where a name for each of 5 features"),
    (lambda of, t: of["features"][0].update(kind="wish"), "features/0/kind is 'wish', where one of number, level"),
    (lambda of, t: t.update({"entities/0/covariates/mean": np.zeros((5, 2))}), "covariates/std has 1 factors"),
    (lambda of, t: t["entities/0/covariates/std"].fill(-1), "std holds numbers that are not within 0"),
    (lambda of, t: t["entities/0/covariates/scale"].fill(0), "scale holds numbers that are not within"),
])  # fmt: skip
def test_what_is_wrong_with_covariates_is_said(tmp_path, change, said):
    path = tmp_path / "m.gcmf"
    fitted(samples.covariates).save(path)
    document, tensors = samples.unpack(path)
    change(document["entities"][0]["covariates"], tensors)
    samples.pack(path, document, tensors)
    with pytest.raises(StorageError, match=said):
        gcmf.load(path)


def test_a_zone_is_a_name_and_no_path(tmp_path):
    path = tmp_path / "m.gcmf"
    fitted(samples.times_and_levels).save(path)
    document, tensors = samples.unpack(path)
    assert document["entities"][0]["ids"]["dtype"] == "datetime64[ns, Europe/Paris]"
    for zone in ("dateutil//etc/localtime", "/etc/localtime", "../localtime", "tzlocal()"):
        document["entities"][0]["ids"]["dtype"] = f"datetime64[ns, {zone}]"
        samples.pack(path, document, tensors)
        with pytest.raises(StorageError, match="holds times of type"):
            gcmf.load(path)


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    model = copy.deepcopy(fitted(samples.positions))
    model.fitted_.mean[0][0, 0] = np.nan
    with pytest.raises(StorageError, match=r"could not be read back: fitted/mean/0 holds numbers that are not finite"):
        model.save(tmp_path / "m.gcmf")
    assert list(tmp_path.iterdir()) == []

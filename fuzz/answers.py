"""Fit a random world, and say which answers of its model do not go together."""

from __future__ import annotations

import traceback
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from fuzz.compared import Case
from fuzz.laws import LAWS
from fuzz.worlds import FEATURES, World, draw_world
from gcmf.errors import ConvergenceWarning, GcmfError, ModelWarning

if TYPE_CHECKING:
    from collections.abc import Sequence


class Checked(NamedTuple):
    """What came of one world: of the fit and each check that ran, what is wrong, or nothing."""

    seed: int
    features: tuple[str, ...]
    results: dict[str, str]
    trace: str = ""

    @property
    def faults(self) -> dict[str, str]:
        """The checks that failed."""
        return {name: said for name, said in self.results.items() if said}


def check(seed: int) -> Checked:
    """Draw a world, fit it, and look at every answer; a seed is refitted in one way, so that many can be tried."""
    world = draw_world(seed)
    results, traces = {}, []
    skipped = "permuted" if seed % 2 else "transposed"
    chosen = {name: look for name, look in LAWS.items() if name != skipped}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for allowed in (ConvergenceWarning, ModelWarning):
            warnings.simplefilter("ignore", allowed)
        case: Any = None
        for name, look in {"fit": _fitted, **chosen}.items():
            try:
                case = look(world, seed) if case is None else look(case) or case
                results[name] = ""
            except (AssertionError, GcmfError) as error:
                results[name] = f"{'' if isinstance(error, AssertionError) else 'refused: '}{error}"
            except Exception as error:
                results[name] = f"raised {type(error).__name__}: {error}"
                traces.append(traceback.format_exc())
            if case is None:
                break
    return Checked(seed, tuple(world.features), results, "\n".join(traces))


def _fitted(world: World, seed: int) -> Case:
    data = world.collection()
    return Case(seed, world, data, world.estimator(seed).fit(data))


def table(cases: Sequence[Checked]) -> str:
    """How many failed of how many, by check and by what the worlds have; then every seed with a fault."""
    columns = {"all": cases, **{name: [case for case in cases if name in case.features] for name in FEATURES}}
    rows = {law: {name: _count(law, group) for name, group in columns.items()} for law in ("fit", *LAWS)}
    failed = [(law, case.seed, said) for law in ("fit", *LAWS) for case in cases if (said := case.results.get(law))]
    lines = [f"  answers --seed {seed} ({law}): {said[:300]}" for law, seed, said in failed]
    counts = pd.DataFrame.from_dict(rows, orient="index").to_string()
    return "\n".join([counts, "", f"{len({seed for _, seed, _ in failed})} worlds with faults", *lines])


def _count(law: str, cases: Sequence[Checked]) -> str:
    said = [case.results[law] for case in cases if law in case.results]
    return f"{sum(map(bool, said))}/{len(said)}"

"""`python -m fuzz.soak [--fits 3000] [--answers 20000]`: one process, for long; it stays right, and its memory flat.

First small fits of three kinds, again and again, each with predictions, a save and a load: every one must have the bits
of the first of its kind. Then eight threads that ask one model to predict, recommend and fold in, while it is replaced:
by another model loaded from a file, and in place, by a fit of the same object to other data. Every answer must be, to
the bit, that of one of the models. Memory is looked at throughout: its growth after the first third is what counts.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import threading
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gcmf
from gcmf.errors import ConvergenceWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

N_THREADS = 8
LOOKS = 60
"""How often memory is looked at."""
MOST_GROWTH = 0.01
PROPER = gcmf.Priors(alpha_shape=1, alpha_rate=1, tau_shape=1, tau_rate=1)
KINDS: dict[str, dict[str, Any]] = {
    "variational": {"n_factors": 3, "max_iter": 8},
    "map": {"n_factors": 3, "max_iter": 8, "inference": "map", "priors": PROPER},
    "gibbs": {"n_factors": 3, "max_iter": 5, "inference": "gibbs", "n_burn": 3, "n_samples": 5, "n_chains": 1},
}


@dataclass
class Memory:
    """Resident sizes in pages, as they were looked at."""

    sizes: list[int] = field(default_factory=list)

    def look(self) -> None:
        """Look at it now."""
        gc.collect()
        self.sizes.append(int(Path("/proc/self/statm").read_text().split()[1]))

    @property
    def growth(self) -> float:
        """By how much the median of the last third is above that of the second."""
        third = len(self.sizes) // 3
        middle, last = (float(np.median(part)) for part in (self.sizes[third : 2 * third], self.sizes[2 * third :]))
        return last / middle - 1.0

    def __str__(self) -> str:
        megabytes = np.array(self.sizes) * os.sysconf("SC_PAGE_SIZE") / 1e6
        return f"{megabytes[0]:.0f} MB at first, {megabytes[-1]:.0f} MB at last, growth {self.growth:+.2%}"


def collection(seed: int) -> gcmf.Collection:
    """Ratings with holes, and what users clicked."""
    rng = np.random.default_rng(seed)
    u, v, w = (rng.normal(size=(n, 2)) for n in (40, 30, 20))
    x = u @ v.T + 0.3 * rng.normal(size=(40, 30))
    x[rng.random(x.shape) < 0.4] = np.nan
    clicks = gcmf.Relation("clicks", "user", "page", (u @ w.T > 1).astype(float), "bernoulli")
    return gcmf.Collection([gcmf.Relation("ratings", "user", "film", x), clicks])


def fitted(seed: int, kind: str) -> gcmf.GCMF:
    """A model of a collection."""
    return gcmf.GCMF(random_state=seed, progress=False, n_threads=2, **KINDS[kind]).fit(collection(seed))


def many_fits(n: int, memory: Memory) -> list[str]:
    """Fit, predict, save and load n times; what was wrong."""
    first: dict[str, bytes] = {}
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gcmf"
        for number in range(n):
            kind = list(KINDS)[number % len(KINDS)]
            model = fitted(0, kind)
            answer = model.predict("ratings", None, None).tobytes()
            model.save(path)
            loaded = gcmf.load(path).predict("ratings", None, None).tobytes()
            if {first.setdefault(kind, answer), loaded} != {answer}:
                faults.append(f"fit {number} ({kind}) has other bits than the first one")
            if number % max(n // LOOKS, 1) == 0:
                memory.look()
    return faults


def questions(new: np.ndarray) -> dict[str, Callable[[gcmf.GCMF], bytes]]:
    """What is asked, and the bits of what comes back."""

    def fold_in(model: gcmf.GCMF) -> bytes:
        return np.asarray(model.fold_in("user", {"ratings": new}).predict("ratings", None, None)).tobytes()

    return {
        "predict": lambda model: np.asarray(model.predict("ratings", None, None, return_std=True)).tobytes(),
        "recommend": lambda model: model.recommend("ratings", None, 5).to_numpy(dtype=float).tobytes(),
        "fold_in": fold_in,
    }


def many_answers(n: int, memory: Memory) -> list[str]:
    """Ask n questions by eight threads while the model is replaced; what was wrong."""
    asked = questions(np.random.default_rng(9).normal(size=(2, 30)))
    models = [fitted(seed, "variational") for seed in (0, 1)]
    right = {name: {ask(model) for model in models} for name, ask in asked.items()}
    shared: dict[str, Any] = {"model": models[0], "left": n, "faults": []}
    lock = threading.Lock()

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while True:
            with lock:
                if shared["left"] <= 0 or shared["faults"]:
                    return
                shared["left"] -= 1
            name = str(rng.choice(list(asked)))
            try:
                answer = asked[name](shared["model"])
            except Exception as error:
                shared["faults"].append(f"{name}: {type(error).__name__}: {error}")
                return
            if answer not in right[name]:
                shared["faults"].append(f"{name} answered what none of the models says")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(N_THREADS)]
    with tempfile.TemporaryDirectory() as folder:
        for number, model in enumerate(models):
            model.save(Path(folder) / f"{number}.gcmf")
        for thread in threads:
            thread.start()
        turn, looked = 0, n
        while any(thread.is_alive() for thread in threads):
            turn += 1
            if turn % 2:
                shared["model"] = gcmf.load(Path(folder) / f"{turn // 2 % 2}.gcmf")
            else:  # in place, while others ask it
                seed = turn // 2 % 2
                shared["model"].set_params(random_state=seed).fit(collection(seed))
            if looked - shared["left"] >= n // LOOKS:
                looked = shared["left"]
                memory.look()
        for thread in threads:
            thread.join()
    return list(shared["faults"])


def main(argv: Sequence[str] | None = None) -> int:
    """Do both; 1 if anything was wrong, or memory grew."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.soak", description=__doc__)
    parser.add_argument("--fits", type=int, default=3000)
    parser.add_argument("--answers", type=int, default=20_000)
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore", ConvergenceWarning)
    wrong = 0
    for what, count, job in (("fits", options.fits, many_fits), ("answers", options.answers, many_answers)):
        memory = Memory()
        faults = job(count, memory)
        grew = memory.growth > MOST_GROWTH
        print(
            f"{count:,} {what}: {len(faults)} wrong; {memory}{' (too much)' if grew else ''}", *faults[:5], sep="\n  "
        )
        wrong += len(faults) + grew
    print(f"{threading.active_count()} thread left")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())

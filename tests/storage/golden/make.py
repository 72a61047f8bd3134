"""Write a model file of format 1, and what that gcmf answered from it.

Run once, at commit 5652d1d, the last that wrote format 1 and kept units beside the model:
`python tests/storage/golden/make.py tests/storage/golden`. Only the version of the format matters: what later
versions read must answer the same. Files of formats 2 to 6 are of the same collection, at commits 6acdea6, a1c2a14,
439721a, fd7cdb2 and 345915e, with the deviations of the answers (`return_std=True`) and without the line on units;
those of formats 5 and 6 with `Collection(..., entities={"user": table})`, a table with the column `score` of the
users' ids: `default_rng(0).normal(size=12) + 0.1 * default_rng(1).normal(size=12)`.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import gcmf
from gcmf.likelihoods import Bernoulli, Poisson


def collection():
    rng = np.random.default_rng(0)
    u, v, w = (rng.normal(size=(n, 1)) for n in (12, 8, 6))
    users = pd.CategoricalIndex([f"user {n}" for n in range(12)], categories=[f"user {n}" for n in range(13)])
    ratings = pd.DataFrame(3 * u @ v.T + 7, index=users, columns=pd.Index([("film", n) for n in range(8)]))
    tagged = pd.DataFrame((v @ w.T > 0).astype(float), index=ratings.columns)
    plays = pd.DataFrame(rng.poisson(np.log1p(np.exp(u @ w.T))), index=users)
    numbers = pd.DataFrame(u + 0.1 * rng.normal(size=(12, 2)), index=users, columns=["age", "height"])
    return gcmf.Collection(
        [
            gcmf.Relation("ratings", "user", "movie", ratings),
            gcmf.Relation("tagged", "movie", "tag", tagged, Bernoulli("paper", zero_weight=2.0)),
            gcmf.Relation("plays", "user", "tag", plays, Poisson("cell")),
            gcmf.Relation("user_numbers", "user", "user_number", numbers),
        ]
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    options = {"random_state": 0, "max_iter": 300, "progress": False, "priors": gcmf.Priors(tau_shape=1e-3)}
    model = gcmf.GCMF(2, **options).fit(collection())
    model._units = {"user_numbers": {"age": (40.0, 10.0), "height": (170.0, 8.0)}}
    model.save(folder / "format1.safetensors")
    answers = {name: model.predict(name)[:2].tolist() for name in ("ratings", "tagged", "plays", "user_numbers")}
    (folder / "format1.json").write_text(json.dumps(answers))

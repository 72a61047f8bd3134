"""Write model files of format 7, and what this gcmf answered from them: `python tests/storage/golden/make.py FOLDER`.

Only the version of the format matters: what later versions read must answer the same. The files are written once, and
stay; when the format changes, this script is run once more at the last commit that wrote the old one. That of format 1
was written at commit 5652d1d, with units that were then kept beside the model. Files of formats 2 to 6 are of the
same collection, without the last relation, at commits 6acdea6, a1c2a14, 439721a, fd7cdb2 and 345915e; those of formats
5 and 6 with `Collection(..., entities={"user": table})`, a table with the column `score` of the users' ids:
`default_rng(0).normal(size=12) + 0.1 * default_rng(1).normal(size=12)`. Those of format 7 have a directed relation of
users too, with scales, and one of them has draws.
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
    follows = pd.DataFrame((u @ u.T + rng.normal(size=(12, 12)) > 0).astype(float), index=users, columns=users)
    score = np.random.default_rng(0).normal(size=12) + 0.1 * np.random.default_rng(1).normal(size=12)
    return gcmf.Collection(
        [
            gcmf.Relation("ratings", "user", "movie", ratings),
            gcmf.Relation("tagged", "movie", "tag", tagged, Bernoulli("paper", zero_weight=2.0)),
            gcmf.Relation("plays", "user", "tag", plays, Poisson("cell")),
            gcmf.Relation("user_numbers", "user", "user_number", numbers),
            gcmf.Relation("follows", "user", "user", follows, "bernoulli", symmetric=False),
        ],
        {"user": pd.DataFrame({"score": score}, index=users)},
    )


def write(model, path):
    """A model, and what it answers."""
    model.save(path.with_suffix(".safetensors"))
    answers = {}
    for relation in model.schema_.relations:
        mean, std = model.predict(relation.name, return_std=True)
        answers[relation.name] = {"mean": mean[:2].tolist(), "std": std[:2].tolist()}
    path.with_suffix(".json").write_text(json.dumps(answers))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    options = {"random_state": 0, "max_iter": 300, "progress": False, "priors": gcmf.Priors(tau_shape=1e-3)}
    write(gcmf.GCMF(2, **options).fit(collection()), folder / "format7")
    drawn = gcmf.GCMF(2, inference="gibbs", n_burn=20, n_samples=20, n_chains=2, **options)
    write(drawn.fit(collection()), folder / "format7_draws")

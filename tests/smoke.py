"""What must work in an installed gcmf, outside of any checkout: python -I tests/smoke.py."""

from __future__ import annotations

import importlib.metadata
import tempfile
from pathlib import Path

import numpy as np

import gcmf


def main() -> None:
    """Fit, answer, save, load, draw, report."""
    assert not Path(gcmf.__file__).is_relative_to(Path(__file__).parents[1] / "src"), "this is the checkout"
    assert gcmf.__version__ == importlib.metadata.version("gcmf")
    rng = np.random.default_rng(0)
    u, v, w = rng.normal(size=(40, 2)), rng.normal(size=(20, 2)), rng.normal(size=(10, 2))
    data = gcmf.Collection.from_mapping(
        {
            ("user", "movie", "ratings"): u @ v.T + 0.1 * rng.normal(size=(40, 20)),
            ("movie", "tag", "tags"): v @ w.T + 0.1 * rng.normal(size=(20, 10)),
        }
    )
    train, test = data.split(0.2, random_state=0)
    model = gcmf.GCMF(random_state=0, progress=False).fit(train)
    assert list(model.structure()["role"]) == ["shared", "shared"], model.structure()
    assert model.score(test)["rmse"].max() < 0.2, model.score(test)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.gcmf")
        same = gcmf.load(Path(folder) / "model.gcmf")
        assert np.array_equal(same.predict("ratings"), model.predict("ratings"))
        model.report(Path(folder) / "report.html", test=test)
        assert (Path(folder) / "report.html").stat().st_size > 30_000
        gcmf.plot.structure(model).savefig(Path(folder) / "structure.png")
    print(f"gcmf {gcmf.__version__} works, from {Path(gcmf.__file__).parent}")


if __name__ == "__main__":
    main()

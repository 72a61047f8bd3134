"""Pollack 2002: expression and copy number of the same genes in the same breast tumors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gcmf.datasets.folder import find_files

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_SOURCE = (
    "They are of Pollack et al. (2002), PNAS 99(20): log ratios `ge` and `cn` (gene × sample, NaN where missing), "
    "names `symbol` and `samples`, positions `chr` and `start_hg38`, gathered in one .npz file."
)


@dataclass(frozen=True, eq=False)
class Genes:
    """Two views of the same genes in the same samples, and where the genes lie."""

    expression: NDArray[np.float64]
    """Log ratios, samples × genes; NaN where missing."""
    copy_number: NDArray[np.float64]
    """Log ratios, samples × genes; NaN where missing."""
    chromosome: NDArray[np.str_]
    """"1" to "22", "X", by gene."""
    start: NDArray[np.float64]
    """First base pair on the chromosome (genome build hg38), by gene."""
    symbols: NDArray[np.str_]
    samples: NDArray[np.str_]

    def take(self, genes: NDArray[np.int64]) -> Genes:
        """Return only some of the genes, by number."""
        return Genes(
            expression=self.expression[:, genes],
            copy_number=self.copy_number[:, genes],
            chromosome=self.chromosome[genes],
            start=self.start[genes],
            symbols=self.symbols[genes],
            samples=self.samples,
        )


def load_pollack2002(folder: str | Path) -> Genes:
    """Return 4,287 genes in 41 breast tumors and cell lines, ordered along the genome.

    Parameters
    ----------
    folder : path
        Where `pollack4287.npz` lies.
    """
    [path] = find_files(folder, ["pollack4287.npz"], source=_SOURCE)
    with np.load(path) as file:
        return Genes(
            expression=file["ge"].T.astype(np.float64),
            copy_number=file["cn"].T.astype(np.float64),
            chromosome=file["chr"],
            start=file["start_hg38"],
            symbols=file["symbol"],
            samples=file["samples"],
        )

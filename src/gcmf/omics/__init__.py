"""AnnData and MuData in and out: modalities are relations of the same observations.

`fit` reads the object, fits a `GCMF` and writes factors, loadings and structure back into it;
`genomic_proximity` makes a relation between the features of two modalities for `fit(..., augment=)`;
`export_mofa` writes a file that mofax and MOFA2's R package open.
"""

from __future__ import annotations

from gcmf.omics.fitting import fit
from gcmf.omics.mofa import export_mofa
from gcmf.omics.proximity import genomic_proximity

__all__ = ["export_mofa", "fit", "genomic_proximity"]

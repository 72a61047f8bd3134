"""The optional packages of this part, imported here and nowhere else.

AnnData and MuData objects are known by what they have, so whoever brings one needs nothing more.
"""

from __future__ import annotations

from typing import Any

from gcmf.errors import MissingExtraError


def load_h5py() -> Any:  # noqa: ANN401 - a module
    """Return h5py, or say which extra brings it."""
    try:
        import h5py  # noqa: PLC0415 - optional
    except ImportError as error:
        msg = "Writing a MOFA2 file needs h5py, which is not installed: pip install 'gcmf[omics]'."
        raise MissingExtraError(msg) from error
    return h5py

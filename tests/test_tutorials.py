"""The tutorials run from beginning to end in a fresh kernel, and find what they say they find."""

import json
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is not installed")
pytest.importorskip("ipykernel", reason="ipykernel, which runs notebooks, is not installed")
from website.notebooks import page, run

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
SAYS = {
    "recommender": ["5 factors: 2 shared by all relations; 2 private to ratings; 1 private to tags."],
    "omics": ["rna, atac, mutations", "rna, atac", "<td>rna</td>", "<td>mutations</td>"],
    "database": ["relation ratings: reader × book (gaussian)", "3 active factors", "biases only"],
}


def test_all_are_tested():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_stored_without_outputs(name):
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)


@pytest.mark.filterwarnings("ignore")  # those of the tools that run notebooks
@pytest.mark.parametrize("name", SAYS)
def test_runs_and_finds_what_it_says(name):
    path = FOLDER / f"{name}.ipynb"
    files = page(run(path), path)
    text = files[f"{name}.md"]
    assert [said for said in SAYS[name] if said not in text] == []
    assert "Traceback" not in text
    assert all(f"({file})" in text for file in files if file.endswith(".png"))

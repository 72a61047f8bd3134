"""The shell commands of the guide for people with a database run as printed, one after the other."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd

import gcmf

PAGE = Path(__file__).parents[2] / "docs" / "guide-database.md"


def test_the_guide_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    [made] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(compile(made, str(PAGE), "exec"), {})
    commands = "".join(re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(re.findall(r"^gcmf ", commands, re.MULTILINE)) == 12
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-e", "-c", commands], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": here})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet("everything.parquet")) == 60 * 40
    assert pd.read_parquet("predicted.parquet")["mean"].between(-5, 11).all()
    assert len(pd.read_csv("tables/factors_user.csv")) == 60
    assert len(pd.read_parquet("new.parquet")) == 40
    assert "By the cells of the user" in done.stdout
    # The last block of the page, which only needs the file that `gcmf init` wrote.
    project = gcmf.read_project("gcmf.toml")
    assert gcmf.GCMF(**project.options).n_factors == "auto"
    assert set(project.collection.relations) >= {"ratings", "film_actor"}
    # Two tastes rule the ratings, and the biases alone know nothing of them.
    assert "biases only" in done.stdout
    lines = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines()}
    assert float(lines["gCMF"][1]) < 0.7 * float(lines["biases only"][2])

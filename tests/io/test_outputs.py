"""Tables into files: what the ending says, over no file that is there, and with nothing that a spreadsheet runs."""

import os

import pandas as pd
import pytest

from gcmf.errors import OptionError, StorageError
from gcmf.io.outputs import check_model, check_new, table_kind, without_formulas, write_table, write_tables
from gcmf.io.results import file_names

FRAME = pd.DataFrame({"user": ["ann", "bob"], "mean": [-0.5, 1 / 3]})
READERS = {
    "t.csv": pd.read_csv, "t.tsv": lambda path: pd.read_csv(path, sep="\t"), "t.parquet": pd.read_parquet,
    "t.PQ": pd.read_parquet, "t.jsonl": lambda path: pd.read_json(path, lines=True),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_the_ending_says_the_format(tmp_path, name):
    assert write_table([FRAME[:1], FRAME[1:]], tmp_path / name) == 2
    pd.testing.assert_frame_equal(READERS[name](tmp_path / name), FRAME, rtol=1e-12)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["t.xlsx", "t.json", "t", "t.csv.gz"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(OptionError, match=r"Use .parquet, .csv, .tsv, or .jsonl"):
        table_kind(tmp_path / name)


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path):
    path = tmp_path / "t.csv"
    check_new(path, force=False)
    path.write_text("mine")
    with pytest.raises(StorageError, match=r"is there already\. Give --force"):
        check_new(path, force=False)
    check_new(path, force=True)


def test_places_without_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, said in ((tmp_path, "a folder"), (tmp_path / "no" / "t", "no folder"), (tmp_path / "pipe", "a pipe")):
        for check in (check_new, check_model):
            with pytest.raises(StorageError, match=said):
                check(path, force=True)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "t.csv", tmp_path / "link.csv"
    real.write_text("old")
    link.symlink_to(real)
    write_table([FRAME], link)
    assert link.is_symlink()
    assert len(pd.read_csv(real)) == 2
    write_tables([(FRAME[:1], link)])
    assert link.is_symlink()
    assert len(pd.read_csv(real)) == 1


def test_what_fails_in_the_middle_leaves_nothing(tmp_path):
    def parts():
        yield FRAME
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(parts(), tmp_path / "t.csv")
    with pytest.raises(KeyboardInterrupt):
        write_tables((frame, tmp_path / f"{at}.csv") for at, frame in enumerate(parts()))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "text", ["=1+1", "+x", "-y", "@sum", "\t=1", "\r=1", "\n=1", "＝1", "'=1", "''-y", "-1+cmd|'x'!A0"]
)
def test_formulas_are_marked_as_text(text):
    frame = pd.DataFrame({text: [text, "ann"], "mean": [-1.0, 2.0]})
    with pytest.warns(UserWarning, match="so that no spreadsheet runs them"):
        safe = without_formulas(frame)
    assert safe.columns.tolist() == [f"'{text}", "mean"]
    assert safe.iloc[:, 0].tolist() == [f"'{text}", "ann"]
    assert frame.columns[0] == frame.iloc[0, 0] == text, "what was given stays as it was"


def test_numbers_and_other_texts_stay():
    frame = pd.DataFrame({"a": ["-1.5", "+3", "-inf"], "b": ["'quoted'", "a=b", "x-y"], "c": [-1, -2, -3],
                          "d": pd.Categorical(["u", "v", None])})  # fmt: skip
    pd.testing.assert_frame_equal(without_formulas(frame), frame)


def test_only_text_files_are_marked(tmp_path):
    frame = pd.DataFrame({"user": ["=1+1"]})
    for name in ("t.parquet", "t.jsonl"):
        write_table([frame], tmp_path / name)
        assert READERS[name](tmp_path / name)["user"].tolist() == ["=1+1"]
    with pytest.warns(UserWarning, match="Parquet and JSON lines have them as they are"):
        write_table([frame], tmp_path / "t.csv")
    assert '"\'=1+1"' in (tmp_path / "t.csv").read_text()


def test_file_names_are_plain_where_they_can_be():
    made = [("factors", "user"), ("structure",), ("bias", "film_actor", "film")]
    assert file_names(made) == ["factors_user", "structure", "bias_film_actor_film"]


@pytest.mark.parametrize(
    "made",
    [
        [("bias", "r", "a_b"), ("bias", "r_a", "b")],
        [("factors", "User"), ("factors", "user")],
        [("factors", "é"), ("factors", "e\u0301")],
        [("factors", "a/b"), ("factors", "a%2Fb"), ("factors", "a%2fb")],
        [("bias", "a.b", "c"), ("bias", "a", "b.c"), ("bias", "a", "b_c"), ("bias", "a_b", "c")],
        [("factors", "K"), ("factors", "\u212a")],  # the sign of Kelvin
    ],
)
def test_no_two_tables_share_a_file(made):
    names = file_names(made)
    assert len({name.casefold() for name in names}) == len(made)
    assert not any(set(name) & set('/\\:*?"<>|\0') for name in names)


@pytest.mark.parametrize("name", ["../../up", "/etc/passwd", "a\\b", "nul\0", "\udc80", "a\nb", "x" * 5 + ":y"])
def test_names_stay_in_their_folder(tmp_path, name):
    [file] = file_names([("factors", name)])
    assert (tmp_path / file).parent == tmp_path
    (tmp_path / file).write_text("")
    assert os.listdir(tmp_path) == [file]

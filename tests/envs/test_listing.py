"""`leanfast envs` and `leanfast envs new`."""

import json
import os
import subprocess
import sys

import pytest
from header_cases import WatchedCompiler, example

from leanfast import cli
from leanfast.envs.listing import HEADINGS, describe, details, main, struct_name, table
from leanfast.envs.registry import builtin, find
from leanfast.errors import UsageError


@pytest.fixture
def header(tmp_path, monkeypatch):
    compiler = WatchedCompiler(tmp_path, os.environ.get("CXX") or "c++")
    monkeypatch.setenv("CXX", str(compiler.script))
    monkeypatch.setenv("LEANFAST_CACHE", str(tmp_path / "cache"))
    return example(tmp_path)


def printed(capsys, *argv: str) -> str:
    assert main(list(argv)) == 0
    return capsys.readouterr().out


def test_the_table_names_every_environment_and_each_of_its_parameters(capsys):
    text = printed(capsys)
    first_words = [line.split()[0] for line in text.splitlines() if not line.startswith(" ")]
    assert first_words == ["name", *builtin()]
    for definition in builtin().values():
        for name in definition.defaults:
            assert f" {name}=" in text


def test_the_tables_columns_are_aligned_and_fit_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    every = [describe(definition) for definition in builtin().values()]
    heading, *lines = table(every).splitlines()
    starts = [heading.index(name) for name in HEADINGS]
    for line in lines:
        assert all(line[start - 1] == " " for start in starts[1:])
        assert line[starts[-1]] != " "
        assert len(line) <= 120


def test_in_a_narrow_terminal_the_parameters_go_below(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = table([describe(definition) for definition in builtin().values()]).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1] == "    parameters"
    assert lines[3].startswith("    gravity=9.8 ")


def test_details_tell_bounds_actions_limit_and_defaults():
    assert details(describe(find("cartpole"))) == (
        "cartpole (CartPole-v1), envs/cartpole.hpp\n"
        "\n"
        "observation  float [4]\n"
        "  0          -4.8 to 4.8\n"
        "  1          unbounded\n"
        "  2          -0.418879 to 0.418879\n"
        "  3          unbounded\n"
        "action       0 to 1\n"
        "agents       1\n"
        "time limit   500 steps\n"
        "parameters\n"
        "  gravity    9.8\n"
        "  masscart   1\n"
        "  masspole   0.1\n"
        "  length     0.5\n"
        "  force_mag  10\n"
        "  tau        0.02"
    )


def test_a_continuous_actions_bounds_are_shown():
    assert "action       float [1], -2 to 2\n" in details(describe(find("pendulum")))


def test_json_is_one_object_with_null_where_there_is_no_bound(capsys):
    found = json.loads(printed(capsys, "--json"))
    assert list(found) == list(builtin())
    cartpole = found["cartpole"]
    assert cartpole["observation"]["low"][1] is None
    assert cartpole["params"]["gravity"] == 9.8
    assert (cartpole["action"], cartpole["agents"], cartpole["max_episode_steps"]) == (2, 1, 500)
    assert json.loads(printed(capsys, "cartpole", "--json")) == {"key": "cartpole", **cartpole}


def test_a_header_of_ones_own_is_shown_like_a_built_in(header, capsys):
    text = printed(capsys, str(header))
    assert text.startswith(f"my_env (MyEnv-v0), {header}\n")
    assert "  gravity  9.8" in text


def test_neither_the_list_nor_a_header_imports_torch(header):
    code = "import sys; from leanfast.envs.listing import main; main(sys.argv[1:]);"
    for arguments in ([], [str(header)]):
        command = [sys.executable, "-c", f"{code} assert 'torch' not in sys.modules", *arguments]
        subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("name", ["cartpol", "no_such.hpp"])
def test_an_unknown_name_is_a_sentence_and_exit_code_2(name, capsys):
    assert cli.main(["envs", name]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("leanfast: ")
    assert name in shown.err
    assert len(shown.err.splitlines()) == 1


def test_new_writes_a_header_of_that_name_and_says_what_to_do_next(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = printed(capsys, "new", "wind_farm.hpp")
    written = (tmp_path / "wind_farm.hpp").read_text()
    assert "struct WindFarm {" in written
    assert "LEANFAST_ENVIRONMENT(leanfast::envs::WindFarm)" in written
    assert "MyEnv" not in written
    assert "my_env" not in written
    assert 'leanfast.make("wind_farm.hpp", num_envs=768)' in text
    assert "leanfast train env=custom env.source=wind_farm.hpp" in text


def test_new_overwrites_only_when_forced(tmp_path, capsys):
    file = tmp_path / "my_env.hpp"
    file.write_text("mine")
    with pytest.raises(UsageError, match=r"my_env.hpp exists already; --force overwrites it"):
        main(["new", str(file)])
    assert file.read_text() == "mine"
    printed(capsys, "new", str(file), "--force")
    assert "struct MyEnv" in file.read_text()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("my_env.cpp", "must end in .hpp, like my_env.hpp, not 'my_env.cpp'"),
        ("my_env", "must end in .hpp"),
        ("my-env.hpp", "letters, digits and _"),
        ("2d.hpp", "begin with a letter"),
        ("_.hpp", "begin with a letter"),
        ("größe.hpp", "letters, digits and _"),
        ("leanfast.hpp", "would hide the engine's"),
        ("no/folder/x.hpp", "the folder no/folder for x.hpp does not exist"),
    ],
)
def test_new_refuses_a_name_in_one_sentence(name, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        main(["new", name])
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_new_does_not_write_over_a_folder(tmp_path):
    (tmp_path / "x.hpp").mkdir()
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        main(["new", str(tmp_path / "x.hpp"), "--force"])


@pytest.mark.parametrize(
    ("file", "struct"),
    [("my_env.hpp", "MyEnv"), ("a__b_.hpp", "AB"), ("myEnv2.hpp", "MyEnv2"), ("box.hpp", "BoxEnv")],
)
def test_the_struct_is_named_after_the_file(file, struct, tmp_path):
    assert struct_name(tmp_path / file) == struct


@pytest.mark.parametrize("name", ["spec.hpp", "real.hpp", "state.hpp", "std.hpp"])
def test_an_example_named_like_something_of_the_engines_compiles(header, name, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    assert find(str(example(folder, name=name))).defaults == {"gravity": 9.8}

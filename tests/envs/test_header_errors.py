"""What the author of a header is told: the compiler's words at their line, or one sentence."""

import os
import re
import shutil
from pathlib import Path

import pytest
from header_cases import WatchedCompiler, example, line_of

from leanfast.envs.custom import build
from leanfast.envs.native import Engine
from leanfast.envs.registry import find
from leanfast.errors import HeaderError, UsageError

COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)] or ["c++"]
RESET = "LEANFAST_FN static void reset("
STEP = "LEANFAST_FN static Outcome<Real> step("
OBSERVE = "LEANFAST_FN static void observe(const State& s, const Params&, Real* out) {"
DECLARATION = "LEANFAST_ENVIRONMENT(leanfast::envs::MyEnv)"
SPEC = "static constexpr Spec spec() {"
FIXED_ACTION = ".action = discrete(2),"

# What is edited, the text of the line that the error names, and what the error says.
CONTRACT = {
    "no_params": (
        [("Params", "Others")],
        "struct MyEnv {",
        "the environment needs `struct Params { ...; LEANFAST_PARAMS(names...) };`",
    ),
    "unnamed_params": (
        [("    LEANFAST_PARAMS(gravity)\n", "")],
        "struct Params {",
        "the environment needs `struct Params { ...; LEANFAST_PARAMS(names...) };`",
    ),
    "one_unnamed_param": (
        [("Real gravity = 9.8;", "Real gravity = 9.8; bool windy = false;")],
        "LEANFAST_PARAMS(gravity)",
        "LEANFAST_PARAMS(...) must name every field of Params once",
    ),
    "param_of_another_type": (
        [("Real gravity = 9.8;", "short gravity = 9;")],
        "LEANFAST_PARAMS(gravity)",
        "a parameter must be Real, int or bool",
    ),
    "no_state": (
        [("State", "Status")],
        "struct MyEnv {",
        "the environment needs `struct State { ... };`",
    ),
    "state_that_owns_memory": (
        [
            ("#pragma once", "#pragma once\n#include <vector>"),
            ("Real height, speed;", "Real height, speed; std::vector<Real> past;"),
        ],
        "struct State {",
        "State must be plain data",
    ),
    "state_that_cannot_be_made": (
        [("Real height, speed;", "Real height, speed; const int k;")],
        "struct State {",
        "State must be plain data",
    ),
    "state_of_odd_size": (
        [
            ("Real height, speed;", "u8 cell[3];"),
            ("s.height", "s.cell[0]"),
            ("s.speed", "s.cell[1]"),
        ],
        "struct State {",
        "its size must be a multiple of 4 bytes",
    ),
    "no_spec": (
        [(SPEC, "static constexpr Spec specs() {")],
        "struct MyEnv {",
        "the environment needs `static constexpr Spec spec()`",
    ),
    "spec_not_constexpr": (
        [(SPEC, "static Spec spec() {")],
        "static Spec spec() {",
        "spec() must be `static constexpr`",
    ),
    "no_reset": (
        [(RESET, "LEANFAST_FN static void restart(")],
        "struct MyEnv {",
        "the environment needs `static void reset(State&, const Params&, Rng&)`",
    ),
    "reset_not_static": ([(RESET, "void reset(")], "void reset(", "needs `static void reset("),
    "no_step": (
        [(STEP, "LEANFAST_FN static Outcome<Real> advance(")],
        "struct MyEnv {",
        "the environment needs `static Outcome<Real> step(State&, int action, const Params&, ",
    ),
    "step_without_rng": (
        [("const Params& p, Rng&)", "const Params& p)")],
        STEP,
        "the environment needs `static Outcome<Real> step(",
    ),
    "step_returning_the_reward": (
        [
            (STEP, "LEANFAST_FN static Real step("),
            ("{.reward = 1 - abs(s.height - 1), .terminated = lost}", "1 - lost"),
        ],
        "static Real step(",
        "the environment needs `static Outcome<Real> step(",
    ),
    "no_observe": (
        [(OBSERVE, "LEANFAST_FN static void show(const State& s, const Params&, Real* out) {")],
        "struct MyEnv {",
        "the environment needs `static void observe(const State&, const Params&, Real* out)`",
    ),
    "observe_of_another_dtype": (
        [(OBSERVE, OBSERVE.replace("Real* out", "int* out"))],
        "static void observe(",
        "the environment needs `static void observe(",
    ),
    "observe_and_spec_disagree": (
        [(OBSERVE, OBSERVE.replace("Real* out", "u8* out"))],
        SPEC,
        "the spec says real-valued observations, but observe does not write `Real* out`",
    ),
    "action_and_spec_disagree": (
        [(FIXED_ACTION, ".action = continuous(vector(1, -1, 1)),")],
        SPEC,
        "the spec's action and step's disagree",
    ),
    "no_agents": (
        [(FIXED_ACTION, ".action = discrete(2), .agents = 0,")],
        SPEC,
        "the spec's agents must be 1 to 128",
    ),
    "several_agents_and_one_action": (
        [(FIXED_ACTION, ".action = discrete(2), .agents = 2,")],
        SPEC,
        "the spec has several agents, so step must take",
    ),
    "no_declaration": ([(DECLARATION, "")], None, "the header declares no environment"),
    "no_template": (
        [("template <class Real>  //", "using Real = float;  //")],
        DECLARATION,
        "write `template <class Real>` above `struct leanfast::envs::MyEnv`",
    ),
    "declared_inside_the_namespace": (
        [("}  // namespace leanfast::envs\n", ""), (DECLARATION, DECLARATION + "\n}")],
        DECLARATION,
        "LEANFAST_ENVIRONMENT(...) must stand outside every namespace and struct",
    ),
}

# The compiler's own words: what is edited, the line's text, and what both compilers mention.
MISTAKES = {
    "unknown_name": ([("Real dt = Real(0.02)", "Real dt = Rael(0.02)")], "Rael(0.02)", "Rael"),
    "unknown_member": ([("s.height += dt", "s.heigth += dt")], "s.heigth", "heigth"),
    "unknown_parameter": ([("PARAMS(gravity)", "PARAMS(gravty)")], "PARAMS(gravty)", "gravty"),
    "unknown_struct": ([(DECLARATION, DECLARATION[:-2] + "w)")], "envs::MyEnw)", "MyEnw"),
    "missing_semicolon": ([("out[0] = s.height;", "out[0] = s.height")], "out[", "expected ';'"),
    "missing_return": (
        [("return {.reward = 1", "(void)Outcome<Real>{.reward = 1")],
        "  }",
        "return",
    ),
    "narrowing": ([("= 1 - abs(s.height - 1)", "= 0.5 * s.height")], "0.5 * s.height", "Real(0.5)"),
    "missing_include": ([("leanfast.hpp", "leanfats.hpp")], "leanfats.hpp", "leanfats.hpp"),
}


@pytest.fixture(params=COMPILERS)
def compiler(request, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", request.param)
    monkeypatch.setenv("LEANFAST_CACHE", str(tmp_path / "cache"))


def refusal(header: Path, given: Path | None = None) -> str:
    with pytest.raises(HeaderError) as caught:
        build(given or header)
    return str(caught.value)


@pytest.mark.parametrize("case", CONTRACT)
def test_each_way_to_miss_the_contract_is_one_sentence_at_one_line(compiler, tmp_path, case):
    edits, line, sentence = CONTRACT[case]
    header = example(tmp_path, *edits)
    where = f":{line_of(header, line)}" if line else ""
    first, *more = refusal(header).splitlines()
    assert first.startswith(f"{header}{where}: error: ")
    assert sentence in first
    assert not [text for text in more if text.strip(" ^~\\") and text not in header.read_text()]


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_shown_at_the_authors_line_and_nothing_else(compiler, tmp_path, case):
    edits, line, word = MISTAKES[case]
    header = example(tmp_path, *edits)
    said = refusal(header)
    places = [int(n) for n in re.findall(rf"{re.escape(str(header))}:(\d+): error: ", said)]
    wanted = [n for n, text in enumerate(header.read_text().splitlines(), 1) if line in text]
    assert places
    assert places[0] in wanted
    assert len(places) == len(set(places)) <= 3
    assert word in said
    for noise in ("required from", "requested here", "kernel.hpp", "contract.hpp", "note:"):
        assert noise not in said
    assert not re.search(r"generated\.|compilation terminated|treated as errors", said)
    assert header.read_text().splitlines()[places[0] - 1] in said.splitlines()


def test_an_error_shows_the_source_and_the_caret_and_the_path_as_it_was_given(
    compiler, tmp_path, monkeypatch
):
    header = example(tmp_path, ("s.height += dt", "s.heigth += dt"))
    monkeypatch.chdir(tmp_path)
    first, source, caret, *_ = refusal(header, Path("my_env.hpp")).splitlines()
    assert first.startswith(f"my_env.hpp:{line_of(header, 's.heigth')}: error: ")
    assert source == "    s.heigth += dt * s.speed;"
    assert caret.strip(" ~") == "^"


def test_an_error_in_a_file_the_header_includes_is_shown_there(compiler, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "wind.hpp").write_text("\ninline float wind() { return gust; }\n")
    header = example(tmp_path, ("#pragma once", '#pragma once\n#include "parts/wind.hpp"'))
    assert refusal(header).startswith(f"{tmp_path}/parts/wind.hpp:2: error: ")


def test_a_function_without_a_body_is_named(compiler, tmp_path):
    header = example(
        tmp_path,
        ("namespace leanfast::envs {", "float thrust_of(float);\nnamespace leanfast::envs {"),
        ("Real(20)", "Real(thrust_of(20))"),
    )
    assert "thrust_of(float) is declared but never defined" in refusal(header)


def test_a_spec_that_is_wrong_at_run_time_is_refused_by_the_engine(compiler, tmp_path):
    header = example(
        tmp_path,
        ("Real gravity = 9.8;", "Real gravity = 9.8; i32 choices = 2;"),
        ("PARAMS(gravity)", "PARAMS(gravity, choices)"),
        (SPEC, SPEC.replace("spec()", "spec(const Params& p)")),
        ("discrete(2)", "discrete(p.choices)"),
    )
    definition = build(header)
    with pytest.raises(ValueError, match="action"):
        Engine(definition, 1, params={"choices": 0})


@pytest.mark.parametrize(
    ("name", "why"), [("no.hpp", "No such file or directory"), ("folder.hpp", "Is a directory")]
)
def test_a_header_that_cannot_be_read_is_one_sentence(tmp_path, name, why):
    (tmp_path / "folder.hpp").mkdir()
    assert refusal(tmp_path / name) == f"the header {tmp_path / name} cannot be read: {why}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_header_without_read_permission_is_one_sentence(tmp_path):
    header = example(tmp_path)
    header.chmod(0)
    assert refusal(header) == f"the header {header} cannot be read: Permission denied"


def test_without_a_compiler_a_sentence_says_so_and_built_ins_work(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UsageError, match=r"none was found; install g\+\+"):
        build(example(tmp_path))
    with Engine(find("cartpole"), 2, seed=1) as engine:
        engine.reset()


def test_a_compiler_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O3")
    with pytest.raises(UsageError, match="CXX names the compiler 'no-such-compiler'"):
        build(example(tmp_path))


def test_a_compiler_without_cxx20_is_a_sentence(tmp_path, monkeypatch):
    old = tmp_path / "old-c++"
    old.write_text("#!/bin/sh\necho \"c++: error: unrecognized option '-std=c++20'\" >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("CXX", str(old))
    monkeypatch.setenv("LEANFAST_CACHE", str(tmp_path / "cache"))
    said = refusal(example(tmp_path))
    assert said.startswith(f"the compiler {old} cannot compile leanfast's headers, which are C++20")
    assert "unrecognized option '-std=c++20'" in said
    assert "\n" not in said


def test_a_failed_build_is_tried_again(tmp_path, monkeypatch):
    watched = WatchedCompiler(tmp_path, os.environ.get("CXX") or "c++")
    monkeypatch.setenv("CXX", str(watched.script))
    monkeypatch.setenv("LEANFAST_CACHE", str(tmp_path / "cache"))
    header = example(tmp_path, ("s.height += dt", "s.heigth += dt"))
    assert refusal(header) == refusal(header)
    assert watched.calls == 2

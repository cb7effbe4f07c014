"""Building and caching a user's own header."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from header_cases import WatchedCompiler, example, start_build

from leanfast.envs import compiler as compiler_module
from leanfast.envs import custom
from leanfast.envs.compiler import read_dependencies
from leanfast.envs.custom import build
from leanfast.envs.native import Engine
from leanfast.envs.registry import find
from leanfast.errors import HeaderError, UsageError

GRAVITY = "Real gravity = 9.8;"


@pytest.fixture
def watched(tmp_path, monkeypatch):
    folder = tmp_path / "compiler"
    folder.mkdir()
    made = WatchedCompiler(folder, os.environ.get("CXX") or "c++")
    monkeypatch.setenv("CXX", str(made.script))
    monkeypatch.setenv("LEANFAST_CACHE", str(tmp_path / "cache"))
    return made


def cached(tmp_path: Path, ending: str) -> list[Path]:
    return sorted((tmp_path / "cache" / "envs").glob(f"*{ending}"))


@pytest.fixture(scope="session")
def built_example(tmp_path_factory):
    """The scaffold, compiled as for a user: optimised, for every instruction set."""
    folder = tmp_path_factory.mktemp("example")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEANFAST_CACHE", str(folder / "cache"))
        return find(str(example(folder)))


def mean_return(definition, policy) -> float:
    with Engine(definition, 256, threads=1, seed=1) as engine:
        batch, returns = engine.reset(), []
        for _ in range(200):
            batch = engine.step(policy(batch.observation))
            returns.append(batch.episode_return[batch.done].clone())
    return torch.cat(returns).mean().item()


def test_the_scaffold_can_be_learned(built_example):
    def steer(observation):
        height, speed = observation.unbind(-1)
        return (4 * (1 - height) - 2 * speed > 0).long()

    torch.manual_seed(0)
    assert mean_return(built_example, lambda o: torch.randint(0, 2, (256,))) < 70
    assert mean_return(built_example, steer) > 180


def test_the_scaffold_steps_alike_on_every_instruction_set_and_thread_count(built_example):
    from leanfast import _native

    actions = torch.randint(0, 2, (40, 300), generator=torch.Generator().manual_seed(1))

    def observations(instruction_set: str, threads: int) -> torch.Tensor:
        options = {"threads": threads, "seed": 3, "instruction_set": instruction_set}
        with Engine(built_example, 300, **options) as engine:
            engine.reset()
            return torch.stack([engine.step(a).observation.clone() for a in actions])

    first = observations("baseline", 1)
    for name in _native.instruction_sets():
        assert torch.equal(observations(name, 2), first)


def test_parameters_reach_a_header_without_a_rebuild(watched, tmp_path):
    header = example(tmp_path)
    speeds = []
    for gravity in (9.8, 1.6):
        with Engine(str(header), 1, params={"gravity": gravity}, seed=1) as engine:
            engine.reset()
            speeds.append(engine.step(torch.tensor([0])).observation[0, 1].item())
    assert speeds[1] - speeds[0] == pytest.approx(0.02 * (9.8 - 1.6), abs=1e-6)
    assert watched.calls == 1


def test_the_same_content_is_the_same_definition(watched, tmp_path):
    header = example(tmp_path)
    assert build(header) is build(header)


def test_another_process_takes_the_library_without_a_compiler_call(watched, tmp_path):
    header = example(tmp_path)
    digest = build(header).digest
    said, _ = start_build(header).communicate(timeout=60)
    assert said.strip() == digest
    assert watched.calls == 1


def test_an_edited_header_is_rebuilt_in_the_same_process_and_the_old_one_lives_on(
    watched, tmp_path
):
    old = build(example(tmp_path))
    new = build(example(tmp_path, (GRAVITY, "Real gravity = 1.6;")))
    assert (old.defaults, new.defaults) == ({"gravity": 9.8}, {"gravity": 1.6})
    assert old.digest != new.digest
    assert watched.calls == 2
    assert build(example(tmp_path)) is old
    assert watched.calls == 2


def test_a_changed_local_include_is_rebuilt_and_a_touched_one_is_not(watched, tmp_path):
    (tmp_path / "parts").mkdir()
    part = tmp_path / "parts" / "constants.hpp"
    part.write_text("#define GRAVITY 9.8\n")
    header = example(
        tmp_path,
        ("#pragma once", '#pragma once\n#include "parts/constants.hpp"'),
        (GRAVITY, "Real gravity = GRAVITY;"),
    )
    first = build(header)
    os.utime(part)
    assert build(header) is first
    part.write_text("#define GRAVITY 3.7\n")
    second = build(header)
    assert second.defaults == {"gravity": 3.7}
    assert second.digest != first.digest
    assert watched.calls == 2


def test_a_header_moved_with_what_it_includes_is_not_rebuilt(watched, tmp_path):
    names = ("here", "a folder #2 for $")
    folders = [tmp_path / name for name in names]
    for folder in folders:
        folder.mkdir()
        (folder / "part of it.hpp").write_text("#define GRAVITY 9.8\n")
    include = ("#pragma once", '#pragma once\n#include "part of it.hpp"')
    definitions = [build(example(folder, include)) for folder in folders]
    assert watched.calls == 1
    assert definitions[0].digest == definitions[1].digest


def test_a_changed_engine_header_is_rebuilt_and_the_digest_stays(watched, tmp_path, monkeypatch):
    include = tmp_path / "include"
    shutil.copytree(custom.include_dir(), include)
    for module in (custom, compiler_module):
        monkeypatch.setattr(module, "include_dir", lambda: include)
    header = example(tmp_path)
    first = build(header)
    with open(include / "engine" / "math.hpp", "a") as engine:
        engine.write("// changed\n")
    assert build(header).digest == first.digest
    assert watched.calls == 2


def test_another_compiler_builds_anew(watched, tmp_path):
    header = example(tmp_path)
    build(header)
    with open(watched.script, "a") as script:
        script.write("# another version\n")
    build(header)
    assert watched.calls == 2


def test_a_damaged_library_is_built_again(watched, tmp_path):
    header = example(tmp_path)
    build(header)
    (library,) = cached(tmp_path, ".so")
    library.unlink()  # the one in use stays as it is
    library.write_bytes(b"not a library")
    said, complaint = start_build(header).communicate(timeout=60)
    assert said, complaint
    assert watched.calls == 2


@pytest.mark.slow
def test_two_processes_building_at_once_share_one_compiler_call(watched, tmp_path):
    header = example(tmp_path)
    watched.set("slow")
    builders = [start_build(header) for _ in range(2)]
    said = [builder.communicate(timeout=60) for builder in builders]
    digests, complaints = zip(*said, strict=True)
    assert [builder.returncode for builder in builders] == [0, 0]
    assert digests[0] == digests[1]
    assert watched.calls == 1
    assert "waiting for another process" in "".join(complaints)
    assert not cached(tmp_path, ".tmp")


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_that_is_taken_for_a_library(watched, tmp_path):
    header = example(tmp_path)
    watched.set("hang")
    builder = start_build(header)
    deadline = time.monotonic() + 60
    while not watched.happened("hanging") and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(builder.pid, signal.SIGKILL)
    builder.communicate()
    assert len(cached(tmp_path, ".tmp")) == 1
    assert not cached(tmp_path, ".so")

    watched.set("hang", False)
    assert build(header).defaults == {"gravity": 9.8}
    assert not cached(tmp_path, ".tmp")
    assert len(cached(tmp_path, ".so")) == len(cached(tmp_path, ".json")) == 1


def test_a_killed_compiler_is_named_with_its_signal(watched, tmp_path):
    header = example(tmp_path)
    watched.set("die")
    with pytest.raises(HeaderError, match=r"watched-c.. was killed by signal 9"):
        build(header)
    watched.set("die", False)
    assert build(header).key == "my_env"
    assert not cached(tmp_path, ".tmp")


def test_a_cache_folder_asked_for_that_cannot_be_written_is_refused(watched, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LEANFAST_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"LEANFAST_CACHE=.*file is no folder to write to"):
        build(example(tmp_path))


def test_without_a_user_cache_a_header_is_built_for_this_process(watched, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.delenv("LEANFAST_CACHE")
    monkeypatch.setattr(custom, "_user_cache", lambda: tmp_path / "file")
    with pytest.warns(RuntimeWarning, match="name a folder to write to in LEANFAST_CACHE"):
        definition = build(example(tmp_path))
    assert definition.key == "my_env"


def test_the_user_cache_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.delenv("LEANFAST_CACHE", raising=False)
    monkeypatch.setattr(custom.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert custom.cache_folder() == tmp_path / "leanfast" / "envs"


def test_branches_and_the_standard_library_work(watched, tmp_path):
    header = example(
        tmp_path,
        ("#pragma once", "#pragma once\n#include <cmath>"),
        (
            "const Real dt",
            "if (s.speed > 100 || s.height > 50) return {Real(-7), true};\n const Real dt",
        ),
        ("s.height += dt * s.speed;", "s.height = std::sin(s.speed);"),
    )
    with Engine(str(header), 100, seed=1) as engine:
        before = engine.reset().observation[:, 1].clone()
        after = engine.step(torch.ones(100, dtype=torch.long)).next_observation
    speed = before + 0.02 * (20 - 9.8)
    torch.testing.assert_close(after, torch.stack([speed.sin(), speed], -1))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_in_a_header_names_the_env_and_closes_the_engine(watched, tmp_path, threads):
    header = example(
        tmp_path,
        ("#pragma once", "#pragma once\n#include <stdexcept>"),
        ("Real height, speed;", "Real height, speed;\n    int steps;"),
        (
            "const Real dt",
            'if (++s.steps == 5 && !action) throw std::runtime_error("no fuel");\n const Real dt',
        ),
    )
    num_envs = 50_000  # enough for both threads to take part
    actions = torch.ones(num_envs, dtype=torch.long)
    actions[37] = 0
    engine = Engine(str(header), num_envs, threads=threads, seed=1)
    engine.reset()
    for _ in range(4):
        engine.step(actions)
    with pytest.raises(RuntimeError, match="env 37: no fuel"):
        engine.step(actions)
    assert engine.closed
    engine.close()
    with pytest.raises(ValueError, match="closed by an exception in env 37"):
        engine.send(actions)
    with Engine(str(header), 2, threads=threads, seed=1) as another:
        another.reset()


def test_dependencies_are_read_with_blanks_and_line_breaks():
    rule = "library: /a/entry.cpp \\\n /my\\ dir/x.hpp /a\\#b.hpp \\\n /cost$$.hpp\n"
    assert read_dependencies(rule) == ["/a/entry.cpp", "/my dir/x.hpp", "/a#b.hpp", "/cost$.hpp"]

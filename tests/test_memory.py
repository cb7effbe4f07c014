import pytest
from cgroup_cases import cgroups_in

from leanfast import memory
from leanfast.memory import in_words

GIB = 2**30


@pytest.fixture
def room(tmp_path):
    """Writes a process's cgroup memberships and the files below the mount; gives the room left."""

    def write(memberships, files):
        return memory.cgroup_room(*cgroups_in(tmp_path, memberships, files))

    return write


def test_v2_room_is_the_limit_less_what_is_used_and_cannot_be_dropped(room):
    files = {
        "job/memory.max": 4 * GIB,
        "job/memory.current": 3 * GIB,
        "job/memory.stat": f"anon 1\nactive_file 7\ninactive_file {GIB}",
    }
    assert room("0::/job\n", files) == 2 * GIB


def test_v1_room_counts_the_whole_group(room):
    files = {
        "memory/job/memory.limit_in_bytes": 4 * GIB,
        "memory/job/memory.usage_in_bytes": 3 * GIB,
        "memory/job/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}",
    }
    assert room("3:cpu:/x\n2:memory:/job\n", files) == 2 * GIB


def test_an_ancestor_with_less_room_counts(room):
    files = {
        "memory.max": 2 * GIB,
        "memory.current": GIB,
        "a/memory.max": 8 * GIB,
        "a/memory.current": GIB,
    }
    assert room("0::/a\n", files) == GIB


@pytest.mark.parametrize("used", [5 * GIB, 2 * GIB])
def test_room_is_never_below_nothing_nor_above_the_limit(room, used):
    files = {
        "memory.max": 3 * GIB,
        "memory.current": used,
        "memory.stat": f"inactive_file {0 if used > 3 * GIB else 9 * GIB}",
    }
    assert room("0::/\n", files) == (0 if used > 3 * GIB else 3 * GIB)


def test_no_limit_is_no_bound(room):
    assert room("0::/\n", {"memory.max": "max", "memory.current": 1}) == float("inf")


def test_free_memory_is_what_the_machine_has_available_within_the_group(monkeypatch, tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable:    50 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    monkeypatch.setattr(memory, "cgroup_room", lambda *_: float("inf"))
    assert memory.free_host_memory() == 50 * 1024
    monkeypatch.setattr(memory, "cgroup_room", lambda *_: 1000.0)
    assert memory.free_host_memory() == 1000


def test_without_proc_the_machines_whole_memory_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory, "cgroup_room", lambda *_: float("inf"))
    assert memory.free_host_memory() > 2**26


@pytest.mark.parametrize(
    ("nbytes", "words"),
    [(1000, "1000 bytes"), (1536, "1.5 KiB"), (10 * 2**20, "10.0 MiB"), (3000 * GIB, "3000.0 GiB")],
)
def test_sizes_in_words(nbytes, words):
    assert in_words(nbytes) == words

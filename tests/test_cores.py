import os

import pytest
from cgroup_cases import cgroups_in

from leanfast import cores


@pytest.fixture
def cgroups(tmp_path):
    """Writes a process's cgroup memberships and the files below the mount; gives the quota."""

    def write(memberships, files):
        return cores.cgroup_quota(*cgroups_in(tmp_path, memberships, files))

    return write


def test_v2_quota_is_quota_over_period(cgroups):
    assert cgroups("0::/job\n", {"job/cpu.max": "150000 100000\n"}) == 1.5


def test_v2_tightest_ancestor_counts(cgroups):
    files = {"cpu.max": "max 100000", "a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}
    assert cgroups("0::/a/b\n", files) == 1.0


def test_v2_path_unseen_inside_a_container_falls_back_to_its_root(cgroups):
    assert cgroups("0::/outside/id\n", {"cpu.max": "200000 100000"}) == 2.0


def test_v1_quota_is_read_under_the_joined_controllers_name(cgroups):
    files = {
        "cpu,cpuacct/job/cpu.cfs_quota_us": "300000",
        "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
    }
    assert cgroups("4:memory:/x\n2:cpu,cpuacct:/job\n", files) == 3.0


@pytest.mark.parametrize("quota", ["-1", "", "max"])
def test_v1_no_limit_is_no_quota(cgroups, quota):
    files = {"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000"}
    assert cgroups("1:cpu:/\n", files) == float("inf")


def test_nothing_to_read_is_no_quota(tmp_path):
    assert cores.cgroup_quota(tmp_path / "none", tmp_path) == float("inf")


@pytest.mark.parametrize(("quota", "expected"), [(0.5, 1), (1.9, 1), (2.0, 2), (float("inf"), 8)])
def test_usable_cores_rounds_the_quota_down_but_never_to_zero(monkeypatch, quota, expected):
    monkeypatch.setattr(cores, "cgroup_quota", lambda *_: quota)
    monkeypatch.setattr(cores, "_affinity", lambda: 8)
    assert cores.usable_cores() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity here")
def test_usable_cores_keeps_to_the_affinity(monkeypatch):
    monkeypatch.setattr(cores, "cgroup_quota", lambda *_: float("inf"))
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)

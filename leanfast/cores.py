"""How many cores this process may use, which in a container is fewer than the machine has."""

import os
from collections.abc import Iterator
from pathlib import Path


def usable_cores() -> int:
    """Cores this process may use: its CPU affinity, cut to its cgroup's CPU quota."""
    quota = cgroup_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return max(1, int(min(_affinity(), quota)))


def cgroup_quota(memberships: Path, mount: Path) -> float:
    """The tightest CPU quota, in cores, of the cgroups listed in `memberships`; inf if none."""
    quotas = [float("inf")]
    for folder, unified in cgroup_folders(memberships, mount, "cpu"):
        quotas.append(_quota_v2(folder) if unified else _quota_v1(folder))
    return min(quotas)


def cgroup_folders(memberships: Path, mount: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """The folders whose limits hold for this process, and whether they are of cgroup v2."""
    for line in text_of(memberships).splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0":
            yield from ((folder, True) for folder in _upwards(mount, path))
        elif controller in controllers.split(","):
            for root in (mount / controllers, mount / controller):
                yield from ((folder, False) for folder in _upwards(root, path))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _upwards(root: Path, path: str) -> list[Path]:
    # A limit on any ancestor holds too; inside a container `path` may not exist below `root`.
    group = root / path.lstrip("/")
    return [folder for folder in (group, *group.parents) if folder.is_relative_to(root)]


def _quota_v2(group: Path) -> float:
    return _cores(text_of(group / "cpu.max").split())


def _quota_v1(group: Path) -> float:
    return _cores([text_of(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")])


def _cores(quota_and_period: list[str]) -> float:
    """("150000", "100000") is 1.5 cores; "max", "-1" and nothing are no limit."""
    if len(quota_and_period) != 2 or not all(word.isdigit() for word in quota_and_period):
        return float("inf")
    quota, period = map(int, quota_and_period)
    return quota / period if period else float("inf")


def text_of(file: Path) -> str:
    """What a file of the kernel's says; nothing, where it is not there or not to be read."""
    try:
        return file.read_text()
    except OSError:
        return ""

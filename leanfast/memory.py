"""How much memory this process may still use, which in a container is less than the machine has."""

import os
import re
from pathlib import Path

from leanfast.cores import cgroup_folders, text_of

CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def free_host_memory() -> float:
    """Bytes: what the machine has available, cut to what its cgroup leaves this process."""
    return min(_available(MEMINFO), cgroup_room(*CGROUPS))


def cgroup_room(memberships: Path, mount: Path) -> float:
    """Bytes up to the nearest limit of the cgroups listed in `memberships`; inf if none."""
    rooms = [float("inf")]
    for folder, unified in cgroup_folders(memberships, mount, "memory"):
        names = (
            ("max", "current", "") if unified else ("limit_in_bytes", "usage_in_bytes", "total_")
        )
        limit, used = (_number(folder / f"memory.{name}") for name in names[:2])
        if limit is None or used is None:
            continue
        # The kernel drops cached files before it refuses memory.
        cached = _field(folder / "memory.stat", f"{names[2]}inactive_file") or 0
        rooms.append(max(0, limit - max(0, used - cached)))
    return min(rooms)


def in_words(nbytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.{0 if unit == 'bytes' else 1}f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"


def _available(meminfo: Path) -> float:
    kib = _field(meminfo, "MemAvailable:")
    if kib is not None:
        return kib * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _number(file: Path) -> int | None:
    text = text_of(file).strip()
    return int(text) if text.isdigit() else None


def _field(file: Path, name: str) -> int | None:
    found = re.search(rf"^{re.escape(name)}\s+(\d+)", text_of(file), re.MULTILINE)
    return int(found[1]) if found else None

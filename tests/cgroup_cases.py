"""A process's cgroups as the kernel shows them, made up in a folder."""


def cgroups_in(folder, memberships, files):
    """What /proc/self/cgroup would be, and where the hierarchy is mounted."""
    listing, mount = folder / "cgroup", folder / "mount"
    listing.write_text(memberships)
    for name, text in files.items():
        file = mount / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return listing, mount

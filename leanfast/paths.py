"""Where the configuration and the C++ headers lie: in the installed package or in the checkout."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def conf_dir() -> Path:
    """The folder of Hydra's configuration groups."""
    return _first_existing(PACKAGE / "conf", PACKAGE.parent / "conf")


def include_dir() -> Path:
    """The folder of the engine's C++ headers."""
    return _first_existing(PACKAGE / "include", PACKAGE.parent / "cpp_envs")


def _first_existing(packaged: Path, checkout: Path) -> Path:
    for folder in (packaged, checkout):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"leanfast's files are incomplete: neither {packaged} nor {checkout} exists; "
        "install the package again"
    )

import pytest

from leanfast import paths


@pytest.mark.parametrize(
    ("function", "packaged", "checkout"),
    [(paths.conf_dir, "conf", "conf"), (paths.include_dir, "include", "cpp_envs")],
)
def test_the_packaged_folder_comes_before_the_checkouts(
    tmp_path, monkeypatch, function, packaged, checkout
):
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "leanfast")
    with pytest.raises(FileNotFoundError, match="install the package again"):
        function()
    (tmp_path / checkout).mkdir()
    assert function() == tmp_path / checkout
    (tmp_path / "leanfast" / packaged).mkdir(parents=True)
    assert function() == tmp_path / "leanfast" / packaged

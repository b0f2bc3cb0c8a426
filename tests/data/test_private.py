"""Confidential files: 0600 before the first byte, whole or not at all, never through a link."""

from __future__ import annotations

import os
import stat

import pytest

from perinstance.data import private_file, private_folder, refuse_wider
from perinstance.errors import UnsafeFile
from tests.forked import forked


@pytest.fixture(params=[0o000, 0o777])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_closed_before_the_first_byte(tmp_path, umask):
    target = tmp_path / "losses.csv"
    with private_file(target) as file:
        (draft,) = tmp_path.iterdir()
        assert mode(draft) == 0o600 and draft.stat().st_size == 0
        file.write(b"secret")
        assert not target.exists()
    assert mode(target) == 0o600 and target.read_bytes() == b"secret"
    assert [one.name for one in tmp_path.iterdir()] == ["losses.csv"]


def test_a_wider_file_is_replaced_by_a_closed_one(tmp_path, umask):
    target = tmp_path / "losses.csv"
    target.write_text("old")
    target.chmod(0o666)
    with target.open("rb") as reader:  # somebody has it open already
        with private_file(target, "w", encoding="utf-8") as file:
            file.write("new")
        assert reader.read() == b"old"
    assert mode(target) == 0o600 and target.read_text() == "new"


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path):
    target = tmp_path / "losses.csv"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), private_file(target) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert target.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_links_are_refused(tmp_path):
    elsewhere = tmp_path / "public.csv"
    elsewhere.write_text("public")
    for link, goal in (("link.csv", elsewhere), ("dangling.csv", tmp_path / "nothing"), ("loop.csv", "loop.csv")):
        os.symlink(goal, tmp_path / link)
        with pytest.raises(UnsafeFile, match="link"), private_file(tmp_path / link):
            pass
    assert elsewhere.read_text() == "public" and not (tmp_path / "nothing").exists()


def test_a_link_that_appears_meanwhile_is_refused(tmp_path):
    elsewhere = tmp_path / "public.csv"
    elsewhere.write_text("public")
    with pytest.raises(UnsafeFile, match="link"), private_file(tmp_path / "a.csv") as file:
        file.write(b"secret")
        os.symlink(elsewhere, tmp_path / "a.csv")
    assert elsewhere.read_text() == "public"


def test_other_targets_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path, tmp_path / "pipe", tmp_path / "no" / "folder.csv", "/dev/null", "a\0b"):
        with pytest.raises(UnsafeFile), private_file(target):
            pass
    with pytest.raises(ValueError, match="'w' or 'wb'"), private_file(tmp_path / "x", "r"):
        pass


def test_folders(tmp_path, umask):
    folder = private_folder(tmp_path / "ledger")
    assert mode(folder) == 0o700
    assert private_folder(folder) == folder
    folder.chmod(0o755)
    with pytest.raises(UnsafeFile, match="chmod 700"):
        private_folder(folder)
    os.symlink(folder, tmp_path / "link")
    for bad in (tmp_path / "link", _file(tmp_path / "file")):
        with pytest.raises(UnsafeFile):
            private_folder(bad)


def test_wide_files_are_not_read(tmp_path):
    path = _file(tmp_path / "losses.csv")
    path.chmod(0o600)
    refuse_wider(path)
    for wide in (0o640, 0o604, 0o620, 0o666):
        path.chmod(wide)
        with pytest.raises(UnsafeFile, match="chmod 600"):
            refuse_wider(path)
    path.chmod(0o600)
    os.symlink(path, tmp_path / "link")
    with pytest.raises(UnsafeFile, match="link"):
        refuse_wider(tmp_path / "link")


def _file(path):
    path.write_text("x")
    return path


def _write_and_die(path):
    os.umask(0)
    with private_file(path) as file:
        file.write(b"secret")
        file.flush()
        os.kill(os.getpid(), 9)


def test_a_killed_writer_leaves_nothing_readable(tmp_path):
    """The draft of a killed process stays, closed to others; the target does not appear."""
    assert forked(_write_and_die, str(tmp_path / "losses.csv"))[0] == -9
    (draft,) = tmp_path.iterdir()
    assert draft.name != "losses.csv" and mode(draft) == 0o600

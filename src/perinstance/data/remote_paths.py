"""Files behind a URL (``s3://bucket/folder``, ``memory://``), by fsspec: as much of ``Path`` as Parquet needs.

A path travels to the workers of a cluster, which open it themselves with the same options.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from perinstance.errors import InvalidTable


@dataclass(frozen=True, slots=True)
class RemotePath:
    """One file of a file system that fsspec knows."""

    files: Any  #: the file system
    place: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.place.rstrip("/").rpartition("/")[2]

    def open(self, mode: str = "rb") -> Any:
        """Open the file."""
        return self.files.open(self.place, mode)

    def stat(self) -> SimpleNamespace:
        """Return the size, under the name that ``os.stat`` gives it."""
        return SimpleNamespace(st_size=int(self.files.size(self.place)))


def remote_parquet(url: str) -> tuple[RemotePath, ...]:
    """Return the Parquet file at a URL, or all of them below a folder, in the order of their names."""
    try:
        import fsspec
    except ImportError:
        raise InvalidTable("files behind a URL are read by fsspec; pip install 'perinstance[dask]'") from None
    try:
        files, place = fsspec.core.url_to_fs(url)
        found = [place] if files.isfile(place) else sorted(files.find(place))
    except Exception as error:  # whatever a storage provider raises; its words may hold a key
        raise InvalidTable(
            f"the URL cannot be opened ({type(error).__name__}); check it and your credentials"
        ) from None
    below = [one for one in found if one == place or _is_data(one[len(place) :])]
    if not below:
        raise InvalidTable("there is no Parquet file at this URL; name a file, or a folder of .parquet files")
    return tuple(RemotePath(files, one) for one in below)


def _is_data(rest: str) -> bool:
    """Hidden and marker files are no data."""
    hidden = any(part.startswith((".", "_")) for part in rest.strip("/").split("/"))
    return rest.endswith(".parquet") and not hidden

"""Small files that claim to be large: refused quickly, typed, with at most twice the memory that the limit allows."""

from __future__ import annotations

import gzip
import struct
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from perinstance.data import Limits, read_table, scan
from perinstance.engines import LocalSweep
from perinstance.errors import TooLarge
from tests.forked import forked
from tests.peak import peak_megabytes

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is told by Linux only")

MB = 1 << 20
LIMIT = 100 * MB  # of texts, and of what is unpacked in one piece


def read_and_tell(path: str, *ids: str) -> None:
    before, start = peak_megabytes(), time.process_time()
    try:
        source = scan(path, limits=Limits(text_bytes=LIMIT))
        LocalSweep(read_table(source, target="y", ids="id" if ids else None)).fold(lambda b: b.y.sum())
    except TooLarge as refusal:
        seconds = time.process_time() - start
        print(peak_megabytes() - before, seconds, len(str(refusal)))


def refused(path, *ids: str) -> tuple[float, float]:
    """Megabytes and processor seconds a fresh process needs to refuse the file."""
    code, out, err = forked(read_and_tell, str(path), *ids)
    answer = out.split()
    assert code == 0 and len(answer) == 3, f"the file was not refused: {err}"
    assert int(answer[2]) < 300
    return float(answer[0]), float(answer[1])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def forged_rows(path):
    """Fifty gigabytes are claimed by five megabytes: the number of rows in the footer is false."""
    pq.write_table(pa.table({"x": np.random.default_rng(1).random(600_000), "y": np.zeros(600_000)}), path)
    data = path.read_bytes()
    honest, forged = (b"\x16" + _varint(2 * rows) + b"\x19" for rows in (600_000, 3_200_000_000))
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    footer = data[start:-8]
    assert footer.count(honest) == 1  # num_rows, before the list of row groups
    footer = footer.replace(honest, forged)
    path.write_bytes(data[:start] + footer + struct.pack("<I", len(footer)) + b"PAR1")


def million_columns(path):
    """A footer with the head of an honest one and a million elements."""
    footer = bytes.fromhex("150219fc") + bytes([0xC1, 0x84, 0x3D]) + b"\x15\x00\x00" * 1_000_001
    path.write_bytes(b"PAR1" + footer + struct.pack("<I4s", len(footer), b"PAR1"))


def gzip_rows(path):
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"x,y\n")
        for _ in range(100):
            file.write(b"0,0\n" * (1 << 18))
    assert path.stat().st_size < 300_000  # and 100 MB of text


def gzip_header(path):
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(b"x" * MB)


def wide_text(path):
    names = ",".join(map(str, range(1_000_000)))
    path.write_text(f"{names}\n{names}\n")


def wide_arrow(path):
    pa.feather.write_feather(pa.table({str(k): [1.0] for k in range(20_000)}), path)


def _zeros(path, table, batches):
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, table.schema, options=options) as sink:
        for _ in range(batches):
            sink.write_table(table, max_chunksize=len(table))


def arrow_bits(path):
    """Five gigabytes of float64 out of less than five megabytes."""
    _zeros(path, pa.table({name: np.zeros(1 << 24, bool) for name in "abcdefgy"}), 5)


def arrow_zeros(path):
    """One batch of 256 MB out of 30 kB."""
    _zeros(path, pa.table({name: np.zeros(1 << 24) for name in "xy"}), 1)
    assert path.stat().st_size < 60_000


@pytest.mark.parametrize(
    "make, name, megabytes, seconds",
    [
        (forged_rows, "f.parquet", 100, 5),
        (million_columns, "w.parquet", 50, 2),
        (gzip_rows, "b.csv.gz", 200, 10),
        (gzip_header, "b.csv.gz", 100, 10),
        (wide_text, "w.csv", 100, 5),
        (wide_arrow, "w.arrow", 200, 5),
        (arrow_bits, "b.arrow", 100, 5),
        (arrow_zeros, "z.arrow", 100, 5),
    ],
)
def test_claims_are_refused_unread(tmp_path, make, name, megabytes, seconds):
    make(tmp_path / name)
    took = refused(tmp_path / name)
    assert took[0] < megabytes and took[1] < seconds


@pytest.mark.parametrize("form", ["one word, parquet", "dictionary, parquet", "dictionary, arrow", "words, parquet"])
def test_long_ids_are_counted_before_each_row_has_its_own(tmp_path, form):
    """Words of a megabyte, in a file of a few, or 200 different ones; within twice the limit, and typed."""
    rows = {"dictionary, arrow": 60_000, "words, parquet": 200, "one word, parquet": 1_000}.get(form, 3_000)
    path, word, numbers = tmp_path / "ids.file", "w" * MB, np.zeros(rows)
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word]))
    table = pa.table({"id": ids, "x": numbers, "y": numbers})
    if form == "words, parquet":
        table = pa.table({"id": [f"{k:03d}{word}" for k in range(rows)], "x": numbers, "y": numbers})
    if form == "one word, parquet":
        schema = pa.schema([("id", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
        with pq.ParquetWriter(path, schema, compression="zstd") as file:
            for start in range(0, rows, 500):
                file.write_table(table.slice(start, 500).cast(schema))
    elif form.endswith("parquet"):
        pq.write_table(table, path, compression="zstd")
    else:
        pa.feather.write_feather(table, path, compression="zstd")
    assert path.stat().st_size < 2 * MB
    megabytes, _ = refused(path, "ids")
    assert megabytes < 2 * LIMIT / MB


def test_honest_files_pass(tmp_path):
    """Indicator columns pack 1000 to one, and are no attack."""
    pq.write_table(pa.table({"a": np.zeros(1 << 20, bool), "y": np.zeros(1 << 20)}), tmp_path / "zeros.parquet")
    sweep = LocalSweep(read_table(scan(tmp_path / "zeros.parquet"), target="y"))
    assert sweep.fold(lambda block: len(block.y)) == 1 << 20


@pytest.mark.parametrize("columns", [1, 5000])
def test_columns_are_counted_right(tmp_path, columns):
    pq.write_table(pa.table({str(k): [1.0] for k in range(columns)}), tmp_path / "n.parquet")
    with pytest.raises(TooLarge, match=f"has {columns} columns"):
        scan(tmp_path / "n.parquet", limits=Limits(columns=columns - 1))
    assert len(scan(tmp_path / "n.parquet", limits=Limits(columns=columns)).columns) == columns

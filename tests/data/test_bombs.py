"""Small files that claim to be large: refused quickly, with little memory, before they are unpacked."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from perinstance.data import Limits, read_table, scan
from perinstance.data.files.parquet import _schema_length
from perinstance.engines import LocalSweep
from perinstance.errors import TooLarge

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is told by Linux only")

CHILD = """
import sys, time
from perinstance.data import Limits, read_table, scan
from perinstance.engines import LocalSweep
from perinstance.errors import TooLarge
import pyarrow.parquet, pyarrow.csv, narwhals
from tests.peak import peak_megabytes
before, start = peak_megabytes(), time.process_time()
try:
    limits = Limits(text_bytes=int(sys.argv[3]))
    ids = "id" if sys.argv[4:] else None
    LocalSweep(read_table(scan(sys.argv[1], limits=limits), target=sys.argv[2], ids=ids)).fold(lambda b: b.y.sum())
except TooLarge as refusal:
    seconds = time.process_time() - start
    print(peak_megabytes() - before, seconds, len(str(refusal)))
"""


def refused(path, target="y", text_bytes=1 << 30, *ids: str) -> tuple[float, float]:
    """Megabytes and processor seconds a fresh process needs to refuse the file."""
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(path), target, str(text_bytes), *ids]
    folder = Path(__file__).parents[2]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=folder).stdout.split()
    assert len(answer) == 3, "the file was not refused"
    assert int(answer[2]) < 300
    return float(answer[0]), float(answer[1])


def test_parquet_that_claims_fifty_gigabytes(tmp_path):
    """The number of rows in the footer is forged: 5 MB of file, 50 GB of claim."""
    path = tmp_path / "forged.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(1).random(600_000), "y": np.zeros(600_000)}), path)
    data = path.read_bytes()
    assert 4 << 20 < len(data) < 6 << 20
    honest, forged = (b"\x16" + _varint(2 * rows) + b"\x19" for rows in (600_000, 3_200_000_000))
    footer = data[-8 - struct.unpack("<I", data[-8:-4])[0] : -8]
    assert footer.count(honest) == 1  # num_rows, before the list of row groups
    footer = footer.replace(honest, forged)
    path.write_bytes(
        data[: -8 - struct.unpack("<I", data[-8:-4])[0]] + footer + struct.pack("<I", len(footer)) + b"PAR1"
    )
    megabytes, seconds = refused(path)
    assert megabytes < 100 and seconds < 5


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_parquet_of_a_million_columns(tmp_path):
    """A footer with the head of an honest one; its million elements are never parsed."""
    footer = bytes.fromhex("150219fc") + bytes([0xC1, 0x84, 0x3D]) + b"\x15\x00\x00" * 1_000_001
    path = tmp_path / "wide.parquet"
    path.write_bytes(b"PAR1" + footer + struct.pack("<I4s", len(footer), b"PAR1"))
    megabytes, seconds = refused(path)
    assert megabytes < 50 and seconds < 2
    with pytest.raises(TooLarge, match="1000000 columns"):
        scan(path)


@pytest.mark.parametrize("columns", [1, 2, 14, 15, 16, 200, 5000])
def test_the_schema_is_counted_right(tmp_path, columns):
    path = tmp_path / "n.parquet"
    pq.write_table(pa.table({str(k): [1.0] for k in range(columns)}), path)
    data = path.read_bytes()
    length = struct.unpack("<I", data[-8:-4])[0]
    assert _schema_length(data[-8 - length :][:32]) == columns + 1
    with pytest.raises(TooLarge, match=f"has {columns} columns"):
        scan(path, limits=Limits(columns=columns - 1))


def test_gzip_bomb(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"x,y\n")
        for _ in range(100):
            file.write(b"0,0\n" * (1 << 18))
    assert path.stat().st_size < 300_000  # and 100 MB of text
    megabytes, seconds = refused(path)
    assert megabytes < 200 and seconds < 10


def test_gzip_header_bomb(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    megabytes, seconds = refused(path)
    assert megabytes < 100 and seconds < 10


def test_csv_of_a_million_columns(tmp_path):
    path = tmp_path / "wide.csv"
    names = ",".join(map(str, range(1_000_000)))
    path.write_text(f"{names}\n{names}\n")
    megabytes, seconds = refused(path)
    assert megabytes < 100 and seconds < 5


def test_arrow_of_many_columns(tmp_path):
    path = tmp_path / "wide.arrow"
    pa.feather.write_feather(pa.table({str(k): [1.0] for k in range(20_000)}), path)
    megabytes, seconds = refused(path)
    assert megabytes < 200 and seconds < 5


def test_compressed_arrow_batches_are_counted_unread(tmp_path):
    path = tmp_path / "bomb.arrow"
    rows = 1 << 24
    table = pa.table({name: np.zeros(rows, bool) for name in "abcdefgy"})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, table.schema, options=options) as sink:
        for _ in range(5):
            sink.write_table(table, max_chunksize=rows)
    assert path.stat().st_size < 5 << 20  # and 5.4 GB of float64
    megabytes, seconds = refused(path)
    assert megabytes < 100 and seconds < 5


def test_honest_files_pass(tmp_path):
    """Indicator columns pack 1000 to one, and are no attack."""
    pq.write_table(pa.table({"a": np.zeros(1 << 20, bool), "y": np.zeros(1 << 20)}), tmp_path / "zeros.parquet")
    sweep = LocalSweep(read_table(scan(tmp_path / "zeros.parquet"), target="y"))
    assert sweep.fold(lambda block: len(block.y)) == 1 << 20


@pytest.mark.parametrize("form", ["one word, parquet", "dictionary, parquet", "dictionary, arrow"])
def test_long_ids_are_counted_before_each_row_has_its_own(tmp_path, form):
    """Words of a megabyte, in a file of a few: memory stays within twice the limit, and the refusal is typed."""
    rows, path = 60_000 if form == "dictionary, arrow" else 3_000, tmp_path / "ids.file"
    word, numbers = "w" * (1 << 20), np.zeros(rows)
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word]))
    table = pa.table({"id": ids, "x": numbers, "y": numbers})
    if form == "one word, parquet":
        schema = pa.schema([("id", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
        with pq.ParquetWriter(path, schema, compression="zstd") as file:
            for start in range(0, rows, 500):
                file.write_table(table.slice(start, 500).cast(schema))
    elif form.endswith("parquet"):
        pq.write_table(table, path, compression="zstd")
    else:
        pa.feather.write_feather(table, path, compression="zstd")
    assert path.stat().st_size < 2 << 20
    limit = 100 << 20
    megabytes, _ = refused(path, "y", limit, "ids")
    assert megabytes < 2 * limit / (1 << 20)

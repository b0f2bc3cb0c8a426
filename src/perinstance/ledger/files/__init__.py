"""One immutable, id-sorted Parquet file per release, with everybody's pairs."""

"""Tables that are in memory already: numpy, pandas, polars, pyarrow."""

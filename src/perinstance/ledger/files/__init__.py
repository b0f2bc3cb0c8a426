"""One immutable, id-sorted Parquet file per release, with everybody's pairs.

``sorted_pairs`` writes it, ``charge_files`` reads it, ``aligned_files`` walks over several of them side by side.
"""

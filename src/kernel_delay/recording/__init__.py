"""Recordings, to files and back; and Samples as tables, also in Parquet files."""

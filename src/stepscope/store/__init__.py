"""Keep and fetch: an embedded DuckDB for the newest hours, sorted Parquet for the rest. What it offers:
`contract.py`."""

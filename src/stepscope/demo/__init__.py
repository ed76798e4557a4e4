"""The packaged sample, made by tools/make_demo.py."""

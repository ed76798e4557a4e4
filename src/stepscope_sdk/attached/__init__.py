"""A folder that `stepscope run` puts first on PYTHONPATH: Python imports `sitecustomize` from it as it starts."""

"""`stepscope run` puts this folder first on PYTHONPATH: a Python that starts imports `sitecustomize`."""

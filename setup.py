"""The optional native part. Everything else is in pyproject.toml.

Every `src/stepscope/trace/native/*.cpp` goes into one shared library with a plain C interface. A machine
without a compiler gets a warning and the fallback in Python, which gives the same tables.
"""

from glob import glob

from setuptools import Extension, setup

SOURCES = sorted(glob("src/stepscope/trace/native/*.cpp"))

setup(
    ext_modules=[
        Extension(
            "stepscope.trace.native._kineto",
            SOURCES,
            depends=sorted(glob("src/stepscope/trace/native/*.h")),
            language="c++",
            extra_compile_args=["-std=c++17", "-O2", "-fvisibility=hidden"],
            optional=True,
        )
    ]
    if SOURCES
    else [],
)

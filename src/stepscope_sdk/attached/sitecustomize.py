"""Starts attach mode in a Python that `stepscope run` has started, then lets the usual `sitecustomize` run.

Nothing of this stays: the folder leaves `sys.path`, and a `sitecustomize` that was there is the one that
`sys.modules` holds. Where `$STEPSCOPE_ATTACH` is not set, or anything fails, Python starts as ever.
"""

import os
import sys


def _is_ours(path: str) -> bool:
    try:
        return os.path.realpath(path or os.curdir) == _FOLDER
    except (OSError, ValueError):
        return False


def _chain() -> None:
    """Run the `sitecustomize` that this one stands before; one that is missing is no fault."""
    ours = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


def _start() -> None:
    """Wait for torch; the SDK itself is loaded only then, from beside this folder."""
    import importlib.util

    package = os.path.dirname(_FOLDER)
    name = "_stepscope_sdk_attach_import"
    spec = importlib.util.spec_from_file_location(name, os.path.join(package, "attach_import.py"))
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.watch("torch", module.starter(package))


_FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [each for each in sys.path if not _is_ours(each)]
if os.environ.get("STEPSCOPE_ATTACH") == "1":
    try:
        _start()
    except Exception:  # noqa: BLE001  a script must start whatever happens here
        _FAILED = True
_chain()

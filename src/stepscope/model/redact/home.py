"""Home paths: whose a directory is, told from the directories before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from stepscope.model.redact.name import NO_NAMES, PSEUDONYM, RANKISH
from stepscope.model.redact.pattern import Pattern

_IN_NAME = r"[^/\\\s:;,\"'`()<>|\[\]]"
_SLASH = r"[/\\]{1,4}"
_FILE_NAME = (
    rf"{_IN_NAME}*\.(?:py[cdiox]?|ipynb|so|a|o|c|cc|cpp|cxx|cu|cuh|h|hpp|hip|rs|go|java|js|ts|tsx|json|jsonl|gz|zst|zip"
    r"|tar|txt|md|log|sh|ya?ml|toml|cfg|ini|csv|tsv|parquet|arrow|npy|npz|pt|pth|ckpt|bin|pkl|onnx|safetensors|html?)"
    r"(?![\w./\\-])"
)
# The directory that holds homes; `home-` before a name holds one.
HOLDER = Pattern(
    rf"(?<![\w.+@-])(?:(?P<homes>home\d{{0,2}}|homes|[Uu]sers?|usr|u|Documents and Settings){_SLASH}"
    rf"|(?P<made>[a-z][a-z0-9]{{0,15}}[_-]?home\d{{0,2}}){_SLASH}|(?P<glued>home-)(?=[a-z]))"
)
_HOLDING = ("home", "user", "sers", "User", "/u/", "\\u\\", "afs", "Settings")
# Directories that only sort homes: by letter, number, year, machine, or what kind of people they are of.
_SORTED = Pattern(
    rf"(?:[A-Za-z]|[a-z][0-9]|\d{{1,8}}|[a-z]?users?|usr|staff|students?|people|faculty|grads?|undergrads?|guests?"
    r"|members?|userexternal|external|internal|projects?|hpc|vol\d{1,3}|disk\d{1,3}"
    rf"|(?P<two>[a-z]{{2}})(?=[/\\]{{1,4}}(?P=two)))(?P<slash>{_SLASH})"
)
_SORTING_ONLY = Pattern(
    r"(?:[A-Za-z]|[a-z][0-9]|users|staff|students?|people|faculty|vol[0-9]+|disk[0-9]+)\Z"
)
_NAME = Pattern(
    rf"(?!{_FILE_NAME})(?P<name>{_IN_NAME}+"
    r"(?:(?:\\{0,2} "
    r"(?!(?:and|or|to|in|on|at|from|of|is|for|with|by|the|as|not|was|has|via|then|into|under)[ /\\])"
    r"[A-Za-z][\w.'-]{0,31}){1,2}(?=[/\\]))?)"
)
_ANY_PART = Pattern(rf"{_SLASH}(?!{_FILE_NAME}){_IN_NAME}")
_SLASHES = Pattern(_SLASH)
_NAMED_BEHIND = Pattern(rf"{_SLASH}{PSEUDONYM}")
_ONE_PSEUDONYM = Pattern(rf"{PSEUDONYM}(?:@.*)?\Z")
# How far back the beginning of a path is looked for, and what stands before one.
_PATH_REACH = 256
_BEFORE_PATH = Pattern(r".*[^\w./\\~@+%$-]", re.DOTALL)
# Where sites mount what their people share, and where code lies: a package may have a folder `home`.
_MOUNT = Pattern(
    r"(?:mnt|nfs\d*|data\d*|lustre\w*|ceph\w*|afs|gpfs\w*|scratch\w*|storage\d*|work\d*|fsx|efs|shared?\d*|vol\w*"
    r"|exports?|net|projects?|groups?|beegfs\w*|weka\w*|vast\w*|panfs|pfs\d*|media|raid\d*|ssd\d*|nvme\d*|disk\d*"
    r"|cluster\w*|tank|hpc\w*|private|var|run|global|pool\d*|zfs|cygdrive|hdfs|s3|gs)\Z"
)
_PACKAGES = Pattern(
    r"(?:\A|/)(?:site-packages|dist-packages|node_modules|src|lib|lib64|include|python[\d.]*|torch)/"
)
_CODE = Pattern(
    r"(?:\A|/)(?:apps?|code|repos?|workspaces?|frontend|web|www|pages|routes|templates|static|tests?|api|opt|usr|conda|envs?"
    r"|venvs?|miniconda\w*|anaconda\w*|build|root|tmp|content|kaggle|__w|srv|app-root|components|etc|bin|sbin|dev|proc|sys)/"
)
_HOMELIKE = Pattern(r"(?:home\d{0,2}|homes|Users|\w{1,16}[_-]?home\d{0,2})\Z")
# Homes of programs, not of people: `HF_HOME` and its like.
_PROGRAM_HOME = Pattern(
    r"(?:hf|huggingface|torch|cuda|java|jdk|jre|conda|spark|hadoop|triton|nccl|mpi|rocm|hip|trt|tensorrt|nltk|pip|cargo|go"
    r"|rustup|rust|transformers|cache|venv|smart|app|ray|airflow|maven|gradle|python|vllm|wandb|mlflow|model|models|data"
    r"|at|is|no|go|re|take|my_?app|in|welcome|back|the|ollama|modelscope|clang|llvm|gcc|nv)[_-]?home\d{0,2}\Z"
)
_NO_GLUED = frozenset("page assistant dir directory feed screen made depot base view button brew".split())
# Directories that lie where a home does, or below one, and are nobody.
_DIRECTORIES = frozenset(
    "anaconda anaconda2 anaconda3 miniconda miniconda3 miniforge miniforge3 mambaforge micromamba conda "
    "mamba venv venvs env envs pyenv virtualenvs bin sbin lib lib64 include share src code codes repo "
    "repos git github gitlab project projects proj work works workspace workspaces scratch tmp temp cache "
    "data data1 data2 dataset datasets model models checkpoint checkpoints ckpt ckpts log logs output "
    "outputs result results run runs trace traces profile profiles experiment experiments exp exps script "
    "scripts test tests tools tool build dist docs examples example notebooks notebook configs config "
    "conf etc opt usr var downloads download documents desktop pictures music library applications local "
    "hub snapshots features feature train training trainer val valid validation eval raw processed tables "
    "embeddings shards parquet images image videos video audio text views view templates template "
    "components component controllers services service routes serializers migrations management core "
    "common utils util modules module packages package programs software softwares apps app site-packages "
    "dist-packages node_modules playground sandbox benchmark benchmarks bench demo demos research dev "
    "development llm llms nlp cv ml dl ai rl pytorch torch vision tensorflow megatron megatron-lm "
    "deepspeed vllm sglang transformers diffusers accelerate lightning fairseq nemo apex xformers triton "
    "llama-factory verl trl jax flax spark spack nvidia cuda nccl rocm public shared lost+found".split()
)


def _path_before(text: str, start: int) -> str:
    """What of a path stands before a place in a text, to its last slash."""
    path = text[max(0, start - _PATH_REACH) : start]
    break_before = _BEFORE_PATH.match(path)
    return path[break_before.end() if break_before else 0 :].replace("\\", "/")


def _certainty(match: re.Match[str]) -> bool | None:
    """Whether a match of `HOLDER` holds homes: for sure, perhaps (False), or not at all."""
    text, homes = match.string, match["homes"]
    path = _path_before(text, match.start())
    if homes in ("u", "usr") and len(path) > 1 and "afs/" not in path:
        return None
    if _PACKAGES.search(path):
        return None
    is_of_code = _CODE.search(path) is not None
    before = [part for part in path.split("/") if part]
    is_at_root = path.startswith("/")
    is_rooted = is_at_root or (bool(before) and before[0] in (".", ".."))
    before = [part for part in before if part not in (".", "..")]
    is_mounted = bool(before) and _MOUNT.match(before[0]) is not None
    if homes is None:
        name = match["made"] or match["glued"]
        if not is_rooted or is_of_code or len(before) > 1 or _PROGRAM_HOME.match(name):
            return None
        return True if match["made"] or before else None
    if homes in ("u", "usr"):  # `/u/alice`, and the cells of AFS
        is_cell = len(before) == 2 and before[0] == "afs"
        return True if is_cell or (homes == "u" and is_at_root and not before) else None
    if homes in ("user", "users", "User"):  # also names of a package
        if not is_rooted or (not before and not is_at_root):
            return None
        if before and ((is_of_code and not is_at_root) or _HOMELIKE.match(before[0]) or before == ["run"]):
            return None  # `/run/user/1000` holds what runs
        return is_mounted or (len(before) <= 3 and not is_of_code)
    if not is_rooted:
        if not homes.startswith("home") or (before and not is_mounted):
            return None
        return False if before or _is_path_of_its_own(match) else None
    if len(before) <= 1 or is_mounted or homes != "home":
        return not is_of_code or homes != "home"
    return None if is_of_code and not is_at_root else False


def _is_path_of_its_own(match: re.Match[str]) -> bool:
    """Whether `home/x` without a root is a path and not a name such as `home/feed ranking`."""
    name = _NAME.match(match.string, match.end())
    if name is None or _SLASHES.match(match.string, name.end()):
        return True
    before = match.string[max(0, match.start() - 2) : match.start()]
    return name.end() == len(match.string) and (not before or before.endswith(("::", '"', "'", "=")))


def is_nobody(name: str) -> bool:
    """Whether a directory is named for no person: too short, a number, or one of the usual ones."""
    return (
        len(name) < 2
        or not (name[0].isalnum() or name[0] == "_")
        or _ONE_PSEUDONYM.match(name) is not None
        or name.isdigit()
        or name.lower() in NO_NAMES
        or name.lower() in _DIRECTORIES
        or RANKISH.match(name) is not None
        or _SORTING_ONLY.match(name) is not None
    )


def _is_code(name: str) -> bool:
    """Whether a directory below the first of a home looks like a project's, not like a person's."""
    return any(char.isupper() or char in "-_." for char in name) or len(name) < 3 or is_nobody(name)


def owners(text: str) -> Iterator[tuple[int, int, bool]]:
    """Where in a text the owners of home directories are named, and whether each is sure enough to learn.

    Below `home` may lie people or groups of people: where a further directory follows, the second level is
    taken for a person's too, unless it looks like code.
    """
    if not any(word in text for word in _HOLDING):
        return
    behind = 0
    for holder in HOLDER.finditer(text):
        if holder.start() < behind:
            continue
        is_sure = _certainty(holder)
        if is_sure is None:
            continue
        at = holder.end()
        is_account = False  # `/home/user` is an image's account, or else sorts
        if holder["glued"] is None:
            for _ in range(4):
                level = _SORTED.match(text, at)
                if level is None:
                    break
                at, is_account = level.end(), level[0].startswith("user") and len(level[0]) < 6
        first = _NAME.match(text, at)
        if first is None:
            continue
        name = first["name"].rstrip(".")
        is_short_sorting = len(name) == 2 and _NAMED_BEHIND.match(text, first.end()) is not None
        if holder["glued"] is not None and name.split("-")[0].lower() in _NO_GLUED:
            continue
        is_named = _ONE_PSEUDONYM.match(name) is not None
        if is_account and _is_code(name) and not is_named:
            continue
        if not is_nobody(name) and not is_short_sorting:
            yield at, at + len(name), is_sure and not is_account
        elif not is_named and not is_short_sorting:
            continue
        behind = first.end()
        if holder["glued"] is not None:
            continue
        slash = _SLASHES.match(text, behind)
        if slash is None:
            continue
        at, is_sorted = slash.end(), False
        while (level := _SORTED.match(text, at)) is not None and len(level[0]) - len(level["slash"]) <= 2:
            at, is_sorted = level.end(), True
            if at - slash.end() > 16:
                break
        second = _NAME.match(text, at)
        if second is None:
            continue
        name = second["name"].rstrip(".")
        is_of_group = is_sorted or (name.startswith(first["name"]) and name != first["name"])
        is_of_group = is_of_group or (first["name"].isupper() and not is_named)
        is_person = not is_nobody(name) if is_of_group else not _is_code(name)
        if is_person and (is_of_group or _ANY_PART.match(text, second.end())):
            behind = second.end()
            yield at, at + len(name), is_sure and is_of_group


def replace_owners(text: str, pseudonym: Callable[[str], str]) -> str:
    pieces: list[str] = []
    at = 0
    for begin, end, _ in owners(text):
        pieces += [text[at:begin], pseudonym(text[begin:end])]
        at = end
    return "".join((*pieces, text[at:])) if pieces else text


def home_owners(text: str) -> Iterable[str]:
    """The names that are sure enough to be replaced in every other text."""
    return (text[begin:end] for begin, end, is_sure in owners(text) if is_sure)

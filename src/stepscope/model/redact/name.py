"""What is a name of somebody, what only stands where one does, and what stands in its place."""

from __future__ import annotations

import functools
import ipaddress
import re

from stepscope.model.redact.pattern import Pattern

# What `Pseudonyms.name` gives; never taken for an identity again.
PSEUDONYM = r"(?:host|user|ip|mail|mac)-[0-9a-f]{8}(?![0-9A-Za-z])"

# Words that are no one's name although they stand where a name does, and the accounts that images come with.
NO_NAMES = frozenset(
    "root user admin nobody default none null unknown localhost local host node worker master test ubuntu "
    "debian centos ec2-user docker container python torch cuda linux home shared public data job "
    "nvidia jovyan mambauser coder vscode sagemaker-user azureuser opc fedora rocky almalinux cloud-user "
    "vagrant gitpod codespace runner jenkins hadoop airflow appuser app-user nonroot micromamba condauser "
    "kaggle colab databricks mpiuser pytorch server namenode "
    # Words of our own sentences: a pseudonym in their place would make nonsense of a report.
    "step steps rank ranks device devices kernel kernels trace traces train trainer training time copy "
    "copies launch launches queue idle input loader waiting communication computing stream event events "
    "batch model gpu cpu rule finding card share the and for with before after work found next check "
    "change cause health issue note first".split()
)
# Names of packages: where one of them is an account's too (`/home/ray`), it goes there and stays elsewhere.
_PACKAGES = frozenset(
    "accelerate apex aten bitsandbytes colossalai cutlass dali dask datasets deepspeed detectron2 "
    "diffusers dynamo fairscale fairseq flash flax fsspec gloo horovod huggingface inductor jax keras "
    "kineto lightning megatron mmcv mmdet mmengine mpi nccl nemo numpy onnx optax optuna pandas peft pip "
    "polars pyarrow ray scipy sglang sklearn spark tensorflow tensorrt timm tokenizers torchaudio "
    "torchtitan torchvision transformers triton trl trt unsloth verl vllm wandb xformers xla".split()
)
RANKISH = Pattern(r"^(?:rank|worker|trace)[-_.]?\d*$", re.IGNORECASE)


@functools.cache
def own_words() -> frozenset[str]:
    """Every word of our own texts: a pseudonym in its place would make nonsense of a report."""
    from importlib import resources

    file = resources.files("stepscope.model.redact") / "own_words.txt"
    return frozenset(file.read_text("ascii").split())


def is_somebody(name: str) -> bool:
    """Whether a word that stands where a name does is one."""
    return len(name) >= 3 and name.lower() not in NO_NAMES and not name.isdigit() and not RANKISH.match(name)


def is_learnable(name: str) -> bool:
    """Whether a name that is stated in one place may be replaced in every other."""
    if not is_somebody(name):
        return False
    lowered = name.lower()
    return lowered not in _PACKAGES and lowered not in own_words()


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

"""Secrets and identities as people write them, each kind beside the names that only look like it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from stepscope.model import redact

# Built from parts, so that no scanner takes this file for a leak.
SECRETS = [
    ("run --password hunter2secret --epochs 3", "hunter2secret"),
    ("run --api-key abc123def456", "abc123def456"),
    ("run --db-pass bluebird", "bluebird"),
    ("run --hf-token 'abc123def456'", "abc123def456"),
    ('["run", "--password", "hunter2secret"]', "hunter2secret"),
    ('{"argv": "[\\"--password\\", \\"hunter2secret\\"]"}', "hunter2secret"),
    ("PASS=hunter2", "hunter2"),
    ("DB_PASS=hunter2", "hunter2"),
    ("DB_PASS: bluebird", "bluebird"),
    ("MY_OWN_PASS=bluebird", "bluebird"),
    ("db_pass=bluebird", "bluebird"),
    ("smtp_pw=bluebird", "bluebird"),
    ("dbPass=bluebird", "bluebird"),
    ("user=bob3 pass=bluebird", "bluebird"),
    ("?login=bob3&pass=bluebird&x=1", "bluebird"),
    ("password => hunter2", "hunter2"),
    ("'password' => 'correct horse'", "correct horse"),
    ("password := hunter2", "hunter2"),
    ("<password>correct horse</password>", "correct horse"),
    ("AccountName=a;AccountKey=" + "Eby8vdM02xNOcqFl/K1SZFPTOtr==;EndpointSuffix=core", "Eby8vdM02xNOcqFl"),
    ("SharedAccessKey=" + "Eby8vdM02xNOcqFl=", "Eby8vdM02xNOcqFl"),
    ("storageAccountKey=Eby8vdM02xNOcqFl", "Eby8vdM02xNOcqFl"),
    ("encryption_key=Eby8vdM02xNOcqFl", "Eby8vdM02xNOcqFl"),
    ("Bearer abcdefghijkl", "abcdefghijkl"),
    ("send Bearer abcdefghijkl to it", "abcdefghijkl"),
    ("'bearer abcdefghijkl'", "abcdefghijkl"),
    ("x ya29" + ".a0AfH6SMBxAbCdEf", "a0AfH6SMBxAbCdEf"),
    ("x SG" + ".AbCdEfGhIj1234567890ab.AbCdEfGhIj1234567890abcdefghij", "AbCdEfGhIj1234567890"),
    ("x r8" + "_AbCdEfGhIj1234567890AbCdEfGhIj1234567", "AbCdEfGhIj1234567890"),
    ("x tskey" + "-auth-kAbCd1CNTRL-AbCdEfGhIj1234", "AbCdEfGhIj1234"),
    ("x tskey" + "-api-kAbCd1CNTRL-AbCdEfGhIj1234", "AbCdEfGhIj1234"),
    ("x GOCSPX" + "-AbCdEfGhIj1234567890", "AbCdEfGhIj1234567890"),
    ("x hvs" + ".AbCdEfGhIj1234567890", "AbCdEfGhIj1234567890"),
    ("x gsk" + "_AbCdEfGhIj1234567890", "AbCdEfGhIj1234567890"),
    ("x wandb" + "_v1_AbCdEfGhIj1234567890", "AbCdEfGhIj1234567890"),
    ("x dapi" + "0123456789abcdef" * 2, "0123456789abcdef"),
    ("x glrt" + "-AbCdEfGhIj1234567890", "AbCdEfGhIj1234567890"),
]
IDENTITIES = [
    ("/mnt/nfs/home/dave/train.py(12): main", "dave"),
    ("/mnt/nfs/home/dave", "dave"),
    ("/storage/home/h1/sami/x", "sami"),
    ("/nfs/homes/pete/x", "pete"),
    ("/home2/tina/x", "tina"),
    ("/home/users/tina/x", "tina"),
    ("/home/t/tina/x", "tina"),
    ("/home/ti/tina/x", "tina"),
    ("/data/users/erin/x", "erin"),
    ("/lustre/users/leo/x", "leo"),
    ("/ceph/users/vlad/x", "vlad"),
    ("/gpfs/home/mia/x", "mia"),
    ("/gpfs/alpine/proj-shared/home/mia/x", "mia"),
    ("/cluster/a/b/c/home/mia/x", "mia"),
    ("/mnt/c/Users/abel/x", "abel"),
    ("/user/olga/x", "olga"),
    ("hdfs:///user/olga/x", "olga"),
    ("/u/olga/x", "olga"),
    ("/afs/site/user/o/olga/x", "olga"),
    ("/afs/ath.example/user/o/l/olga/x", "olga"),
    ("../../home/rosa/x", "rosa"),
    ("../../data/users/rosa/x", "rosa"),
    ("home/quinn", "quinn"),
    ("mnt/nfs/home/quinn/x", "quinn"),
    ("run.tar::home/quinn/trace.json", "quinn"),
    ("/home/first last/train.py", "first last"),
    ("/home/first last/train.py", "last"),
    (r"C:\Users\Ann Mary Hall\train.py", "Hall"),
    (r"C:\Documents and Settings\abel\x", "abel"),
    (r"/home/anna\ hall/x", "hall"),
    ("/home/li/train.py", "/li/"),
    (r"\\fileserver01\share\kim", "fileserver01"),
    (json.dumps(r"\\fileserver01\share\kim"), "fileserver01"),
    (r"\\fileserver01\home\kim\x", "kim"),
    ("smb://fileserver01/share", "fileserver01"),
    ("tcp://dgx-03:29500", "dgx-03"),
    ("/tmp/torchinductor_kim/ab/cab.py(3): call", "kim"),
    ("/tmp/pytest-of-kim/pytest-0", "kim"),
    ("node dgx-03.hpc.uni.edu", "dgx-03"),
    ("node dgx-03.hpc.uni.edu", "uni.edu"),
    ("on gpu017.example.com, rank 3", "gpu017"),
    ("nid001234.sys.example.ac.uk timed out.", "nid001234"),
    ("waits for compute-1-4.cluster.example.de.", "compute-1-4"),
    ("see http://node12.example.org:8000/metrics", "node12"),
]
KEPT = [
    # secrets' look-alikes
    "aten::home",
    "pass",
    "PASS",
    "PASS: test_matmul (0.3 s)",
    "tests/test_a.py::test_b PASS",
    "PASS=12 FAIL=0",
    "pass=3 fail=0",
    "pass: remove_noop",
    "bypass=1",
    "BYPASS=all",
    "compass=north",
    "FORWARD_PASS=eager",
    "forward_pass=eager post_grad_pass=fuse_attention",
    "torch._inductor.fx_passes.joint_graph: pass=constant_fold_uniform_value",
    "sort_kernel<key=int, value=long>",
    "void radix_sort<key=unsigned long>(int)",
    "--key value --keys a,b --master-key-path /etc/x",
    "--pad-token PAD --eos-token EOSEOSEOS --tokenizer llama-tok",
    "--token 12345",
    "--num-tokens 4096 --max-tokens 2048",
    "--signature serving_default",
    "run --password --verbose",
    "--password",
    "session_key=0 master_key=primary",
    "Bearer",
    "Bearer of the news",
    "a bearer of considerable importance",
    "Bearer authentication is used",
    "Bearer tokens, Bearer certificates",
    "Basic operations",
    "token => token.trim()",
    "SG.block.attention and MSG.something_long.something_other",
    "r8_xmma_gemm_f16f16_f16f32",
    "max_r8_AbCdEfGhIj12345678901234",
    "tskey-",
    "<token>",
    "vector<password>",
    # identities' look-alikes
    "user/modules.py",
    "user/modules.py(12): forward",
    "users/models/llama.py",
    "home/modules.py(12): forward",
    "/home/train.py(12): main",
    "src/home/components/view.py",
    "/workspace/shop/src/home/components/view.py(3): render",
    "/usr/lib/python3.11/site-packages/shop/home/components/view.py(3): render",
    "/opt/venv/lib/python3.11/site-packages/users/models/base.py(3): save",
    "torch/nn/modules/module.py(1501): _call_impl",
    "/home/$USER/x and /home/{user}/x and /home/<name>/x",
    "/home/ubuntu/x and /home/user/anaconda3/x",
    "homework/tasks/x.py",
    "/work/users.py",
    "a/u/b",
    r"regex \\d+\\w and \\n",
    r"\n\\next\\line",
    "tcp://localhost:29500 tcp://127.0.0.1:29500",
    "https://docs.pytorch.org/docs/2.5/x.html",
    "see docs.nvidia.com or download-r2.pytorch.org/whl",
    "layer1.0.conv2.net",
    "x0.y.at[3]",
    "model.layers.31.self_attn.q_proj",
    "model-00001-of-00002.safetensors",
    "resnet50.layer1.bn",
    "unet2.down.net",
    "rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "libnccl-net.so.2.21.5",
    "us-east-1.console.aws.amazon.com",
    "torchinductor_root",
    "/tmp/torchinductor_root/ab/cab.py",
]


@pytest.mark.parametrize(("text", "gone"), SECRETS)
def test_a_secret_of_every_kind_goes_and_is_counted_once(text: str, gone: str) -> None:
    clean, count = redact.without_secrets(text)
    assert gone not in clean
    assert count == 1
    assert redact.without_secrets(clean) == (clean, 0)


@pytest.mark.parametrize(("text", "gone"), IDENTITIES)
def test_an_identity_of_every_kind_becomes_a_pseudonym_that_stays(text: str, gone: str) -> None:
    names = redact.Pseudonyms(b"key", redact.identities_in_text(text))
    changed = names.apply(text)
    assert gone not in changed
    assert names.apply(changed) == changed
    alone = redact.Pseudonyms(b"key")
    assert gone not in alone.apply(text)
    assert alone.apply(alone.apply(text)) == alone.apply(text)


@pytest.mark.parametrize("text", KEPT)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert redact.without_secrets(text) == (text, 0)
    known = redact.identities_in_text(text)
    assert known == redact.NOBODY
    assert redact.Pseudonyms(b"key", known).apply(text) == text


def test_the_rest_of_a_path_and_of_a_sentence_stays() -> None:
    names = redact.Pseudonyms(b"key")
    user = names.name("user", "dave")
    assert names.apply("/mnt/nfs/home/dave/run/train.py(12): main") == (
        f"/mnt/nfs/home/{user}/run/train.py(12): main"
    )
    assert names.apply("from /home/dave to run/out") == f"from /home/{user} to run/out"
    assert names.apply("It is /home/dave.") == f"It is /home/{user}."
    assert names.apply("/afs/site/user/d/dave/x.py") == f"/afs/site/user/d/{user}/x.py"
    assert names.apply(r"\\files01\share\x") == rf"\\{names.name('host', 'files01')}\share\x"


def test_a_fully_qualified_name_gives_its_host_away_everywhere() -> None:
    names = redact.Pseudonyms(b"key", redact.identities_in_text("node dgx-03.hpc.uni.edu"))
    host = names.name("host", "dgx-03")
    assert names.apply("dgx-03 and dgx-03.hpc.uni.edu") == f"{host} and {host}"


def test_a_word_that_only_may_be_a_user_is_not_taken_from_other_texts() -> None:
    assert redact.identities_in_text("home/quinn/x") == redact.NOBODY
    assert redact.identities_in_text("/mnt/nfs/home/quinn/x").users == {"quinn"}


def test_a_password_in_a_list_of_arguments_goes() -> None:
    tree = {"argv": ["run.py", "--password", "bluebird", "--epochs", "3", "--api-key", "--fast"]}
    clean, count = redact.tree_without_secrets(tree)
    assert clean == {"argv": ["run.py", "--password", redact.SECRET, "--epochs", "3", "--api-key", "--fast"]}
    assert count == 1
    assert redact.tree_without_secrets(clean) == (clean, 0)
    assert redact.tree_without_secrets({"DB_PASS": "bluebird", "num_pass": 3, "pass": "fold"}) == (
        {"DB_PASS": redact.SECRET, "num_pass": 3, "pass": "fold"},
        1,
    )


# What a pattern that goes back might trip over, repeated.
# fmt: off
UNITS = [
    "home/", "home/a/", "/home", "/home/a b c", "/home/al", "home//", "home\\", "/mnt/nfs", "users/x ", "/",
    "\\", "\\\\a", "\\\\a\\", "a1.", "a-1.b.edu", "a-", "tcp://", "tcp://a@", "torchinductor_", "Bearer ",
    "Bearer a", "--password ", "--a", "-", '--a", ', "PASS=", "pass=> ", "DB_PASS", "<password>", "<a></",
    "SG.", "SG.a1", "r8_", "r8_a", "ya29.", "tskey-auth-", "_pass", "user=", "/home/a.py", "/home/.",
    " ",
]
# fmt: on

PROGRAM = """
import resource; resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
import sys; text = sys.stdin.read()
from stepscope.model import redact
redact.without_secrets(text); redact.identities_in_text(text); redact.Pseudonyms(b'key').apply(text)
print('through', len(text))
"""


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_text_of_an_enemy_takes_time_in_proportion(unit: str) -> None:
    text = "PATH= --password ://</Bearer home/" + unit * (100_000 // len(unit)) + "!"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=text, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["through", str(len(text))], done.stderr

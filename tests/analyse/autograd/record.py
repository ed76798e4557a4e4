"""Records the tables beside this file with PyTorch: `python record.py` where torch (2.13, CPU) is installed.

Each is two iterations of a small loop, as rows: category, name, thread, start and duration in nanoseconds,
sequence number and forward thread (empty where there is none). Notes say what is true: FWD, BWD, OPT, EVAL
and CLIP, and AGAIN around what checkpointing runs twice.
"""

import json
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint

HERE = Path(__file__).parent
NOTES = {"FWD", "BWD", "OPT", "EVAL", "CLIP", "AGAIN"}
DROPPED = {"aten::randn", "aten::normal_", "aten::ones_like", "aten::empty_like", "aten::fill_"}
SIZE = 16


def note(name):
    return record_function(name)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, x):
        with note("AGAIN"):
            return self.second(torch.relu(self.first(x)))


class Model(nn.Module):
    def __init__(self, reentrant=None):
        super().__init__()
        self.head, self.tail = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 1)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.reentrant = reentrant

    def forward(self, x):
        x = self.head(x)
        for block in self.blocks:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.tail(x)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.tail = nn.Parameter(torch.randn(SIZE, SIZE)), nn.Linear(SIZE, 1)

    def forward(self, x):
        return self.tail(Product.apply(Product.apply(x, self.weight), self.weight))


def data():
    return torch.randn(4, SIZE)


def loss_of(model):
    with note("FWD"):
        return model(data()).pow(2).mean()


def backward(loss):
    with note("BWD"):
        loss.backward()


def step(model, optimizer):
    optimizer.zero_grad()
    backward(loss_of(model))
    with note("OPT"):
        optimizer.step()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def training(model):
    optimizer = sgd(model)
    return lambda: step(model, optimizer)


def accumulated(model):
    optimizer = sgd(model)

    def body():
        optimizer.zero_grad(set_to_none=False)
        for _ in range(3):
            backward(loss_of(model))
        with note("CLIP"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with note("OPT"):
            optimizer.step()

    return body


def with_evaluation(model, is_grad):
    optimizer = sgd(model)

    def body():
        with torch.set_grad_enabled(is_grad), note("EVAL"):
            model(data()).sum()
        step(model, optimizer)
        with torch.set_grad_enabled(is_grad), note("EVAL"):
            model(data()).sum()

    return body


def penalised(model):
    """A gradient of a gradient."""
    optimizer = sgd(model)

    def body():
        optimizer.zero_grad()
        x = data().requires_grad_()
        with note("FWD"):
            y = (model(x) * model(x)).sum()
        with note("BWD"):
            (gradient,) = torch.autograd.grad(y, x, create_graph=True)
        with note("FWD"):
            penalty = (gradient * gradient).mean()
        backward(penalty)
        with note("OPT"):
            optimizer.step()

    return body


def in_backward(model):
    """The optimizer steps in a hook, as soon as a gradient is there."""
    optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def hook(parameter):
        with note("OPT"):
            optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    return lambda: backward(loss_of(model))


def by_closure(model, optimizer):
    """As L-BFGS asks for it, and as Lightning always does."""

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        backward(loss)
        return loss

    def body():
        with note("OPT"):
            optimizer.step(closure)

    return body


def frozen(model):
    for parameter in [*model.head.parameters(), *model.blocks.parameters()]:
        parameter.requires_grad_(False)
    return training(model)


def compiled(model):
    made = torch.compile(model, backend="aot_eager")
    body = training(made)
    body()
    return body


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    closed = Model()
    runs = {
        "plain": training(Model()),
        "reentrant": training(Model(True)),
        "non_reentrant": training(Model(False)),
        "double": penalised(Model()),
        "double_linear": penalised(nn.Sequential(nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 1))),
        "accumulated": accumulated(Model()),
        "in_backward": in_backward(Model()),
        "closure": by_closure(closed, sgd(closed)),
        "evaluated": with_evaluation(Model(), False),
        "evaluated_with_autograd": with_evaluation(Model(), True),
        "evaluated_function": with_evaluation(Custom(), False),
        "frozen": frozen(Model()),
        "compiled": compiled(Model()),
    }
    for name, body in runs.items():
        with profile(activities=[ProfilerActivity.CPU], with_stack=True, with_modules=True) as profiler:
            body()
            body()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(file))
            events = json.loads(file.read_text(), parse_float=str)["traceEvents"]
        (HERE / f"{name}.tsv").write_text("".join(f"{line}\n" for line in table(events)))


def nanoseconds(text):
    whole, _, part = str(text).partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def table(events):
    kept = []
    for event in events:
        if event.get("ph") != "X" or not is_kept(event["cat"], event["name"], event["args"]):
            continue
        args = event["args"]
        sequence, thread = args.get("Sequence number"), args.get("Fwd thread id")
        kept.append((nanoseconds(event["ts"]), nanoseconds(event["dur"]), event, sequence, thread))
    first = min(ts for ts, *_ in kept)
    for ts, dur, event, sequence, thread in sorted(kept, key=lambda row: (row[0], -row[1])):
        # The profiler writes no sequence number where there is none, and forward thread 0 for forward ops.
        cells = (event["cat"], event["name"], ts - first, dur, sequence, thread or None)
        yield "\t".join("" if cell is None else str(cell) for cell in cells)


def is_kept(category, name, args):
    if category == "user_annotation":
        return name in NOTES or name.startswith("Optimizer.")
    if category == "python_function":
        return name.startswith("nn.Module: ")
    is_numbered = "Sequence number" in args
    views = ("as_strided", "resolve", "empty", "detach", "view", "expand", "transpose", "item", "_local")
    is_view = name == "aten::t" or any(view in name for view in views)
    return category == "cpu_op" and name not in DROPPED and (is_numbered or not is_view)


if __name__ == "__main__":
    main()

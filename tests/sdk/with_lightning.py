"""Ten steps of Lightning, two batches each; prints what its callback marked."""

from __future__ import annotations

import json
import logging
import pickle
import sys

import lightning
import torch
from recorder import recorded
from torch.utils.data import DataLoader, TensorDataset

from stepscope_sdk.callbacks.lightning import StepscopeCallback

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(lightning.LightningModule):
    """A line."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, place):
        return self.net(batch[0]).pow(2).mean()

    def validation_step(self, batch, place):
        self.net(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


made = recorded()
data = TensorDataset(torch.rand(80, 4))
callback = StepscopeCallback()
assert type(pickle.loads(pickle.dumps(callback))) is StepscopeCallback
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
    default_root_dir=sys.argv[1], accumulate_grad_batches=2, callbacks=[callback],
)  # fmt: skip
trainer.fit(Model(), DataLoader(data, batch_size=8), DataLoader(data, batch_size=40))
print(json.dumps(made.said))

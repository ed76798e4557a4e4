"""Ten steps of the Hugging Face Trainer, two batches each; prints what its callback marked."""

from __future__ import annotations

import json
import sys

import torch
from recorder import recorded
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from stepscope_sdk.callbacks.huggingface import StepscopeCallback


class Texts(torch.utils.data.Dataset):
    """Sixty-four texts of sixteen words."""

    def __len__(self):
        return 64

    def __getitem__(self, place):
        return {"input_ids": torch.arange(16), "labels": torch.tensor(place % 2)}


made = recorded()
model = BertForSequenceClassification(
    BertConfig(vocab_size=100, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
)
options = TrainingArguments(
    sys.argv[1], per_device_train_batch_size=8, max_steps=10, gradient_accumulation_steps=2,
    eval_strategy="steps", eval_steps=5, save_steps=5, logging_steps=2, report_to=[],
    use_cpu=True, disable_tqdm=True,
)  # fmt: skip
Trainer(model, options, train_dataset=Texts(), eval_dataset=Texts(), callbacks=[StepscopeCallback()]).train()
print(json.dumps(made.said))

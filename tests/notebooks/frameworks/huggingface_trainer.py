# A course's chapter on fine-tuning: a Trainer made in one cell, trained in the next, asked after it.
# varies: .*_(runtime|per_second)'\]
# varies: trainer\._signature_columns
# varies: trainer\.optimizer\.step\b.*
# varies: trainer\.(callback_handler|accelerator)\..*dataloader(s\[\d\])?\.device\b.*
# varies: trainer\.accelerator\.gradient_state\._dataloader_references_ref.*
# (An order that hangs on the hash of strings; a watch on the optimizer, by its function; whether
# equal devices are one object; what accelerate keeps in a class for its running loaders.)

# %%
import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(42)
words = ["good", "bad", "fine", "awful", "film", "plot", "the", "a"]
vocabulary = {word: number for number, word in enumerate(["[PAD]", *words])}


def tokenize(text):
    ids = [vocabulary[word] for word in text.split()]
    return {"input_ids": ids + [0] * (6 - len(ids)), "attention_mask": [1] * len(ids) + [0] * (6 - len(ids))}


class Reviews(torch.utils.data.Dataset):
    def __init__(self, size, seed):
        choose = np.random.default_rng(seed)
        self.labels = choose.integers(0, 2, size)
        kinds = (["bad", "awful"], ["good", "fine"])
        self.texts = [f"the {choose.choice(words[4:6])} a {choose.choice(kinds[k])} film" for k in self.labels]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        item = {key: torch.tensor(ids) for key, ids in tokenize(self.texts[index]).items()}
        return {**item, "labels": torch.tensor(self.labels[index])}


# %%
config = BertConfig(
    vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=32, max_position_embeddings=8,
)
model = BertForSequenceClassification(config)


def compute_metrics(predicted):
    logits, labels = predicted
    return {"accuracy": float((logits.argmax(-1) == labels).mean())}


args = TrainingArguments(
    output_dir="reviews", num_train_epochs=2, per_device_train_batch_size=8, learning_rate=5e-3,
    eval_strategy="epoch", logging_strategy="epoch", save_strategy="no", report_to="none",
    use_cpu=True, seed=7, dataloader_pin_memory=False,
)
trainer = Trainer(
    model=model, args=args, train_dataset=Reviews(64, 1), eval_dataset=Reviews(32, 2),
    compute_metrics=compute_metrics,
)

# %% tags=["heavy"]
trainer.train()

# %%
scores = trainer.evaluate()
print(trainer.model is model, trainer.state.global_step, round(scores["eval_loss"], 6), scores["eval_accuracy"])
[{key: round(value, 6) for key, value in line.items() if "runtime" not in key and "second" not in key}
 for line in trainer.state.log_history]

# %% tags=["heavy"]
predictions = trainer.predict(Reviews(16, 3))
wrong = (predictions.predictions.argmax(-1) != predictions.label_ids).sum()

# %%
model.eval()
with torch.no_grad():
    ids = {key: torch.tensor([value]) for key, value in tokenize("the film a awful plot").items()}
    print(wrong, model(**ids).logits.numpy().round(5))

# Hugging Face: a trainer made in one cell and trained in the next, metrics by a function.

# %%
from like_transformers import Classifier, Dataset, Tokenizer, Trainer, TrainingArguments

texts = ["good fine day", "bad sad day", "fine good", "sad bad bad", "good day", "bad day"]
raw = Dataset({"text": t, "label": int("bad" not in t)} for t in texts)
tokenizer = Tokenizer()

# %% tags=["heavy"]
tokenized = raw.map(lambda row: tokenizer(row["text"]))
splits = tokenized.train_test_split(test_size=0.34, seed=0)
print(len(splits["train"]), len(splits["test"]))


# %%
def compute_metrics(predictions, labels):
    return {"accuracy": sum(p == l for p, l in zip(predictions, labels)) / len(labels)}


model = Classifier(len(tokenizer.vocab), 2)
args = TrainingArguments("out", num_train_epochs=2)
trainer = Trainer(model, args, splits["train"], splits["test"], compute_metrics)

# %% tags=["heavy"]
trainer.train()

# %%
print(trainer.model is model, trainer.train_dataset is splits["train"], trainer.args is args)
print(trainer.state.global_step, model.table.sum().round(6))
trainer.evaluate()

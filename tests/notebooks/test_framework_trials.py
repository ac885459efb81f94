"""Trials of real frameworks: reported by their callbacks, pruned by them, paused and gone on with.

They need an environment that has all of them: ``make pytest-frameworks``.
"""

import json

import pytest

from tests.sweeps.programs import run_program

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]

EPOCHS = 40

KIT = """
    import numpy as np
    from submarine_runtime import job, reports

    def epoch_begins(number, bad):
        with open(os.environ["SEEN"], "a") as file:
            file.write(json.dumps([os.environ["SUBMARINE_TRIAL"], number]) + "\\n")
        if not os.path.exists(os.environ["GO"]):
            time.sleep(0.1 if number < 5 else 1.0)  # it is paused in the middle, however late
        elif bad:
            time.sleep(0.1)

    def through(weights):
        with open(os.environ["SEEN"], "a") as file:
            file.write(json.dumps([os.environ["SUBMARINE_TRIAL"], "through", weights]) + "\\n")
"""

KERAS = """
    def train(bad):
        import keras
        keras.utils.set_random_seed(3)
        x = np.random.default_rng(1).normal(size=(64, 5)).astype("float32")
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])
        model.compile(optimizer=keras.optimizers.SGD(1e-3), loss="mse")
        class Slow(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                epoch_begins(epoch, bad)
        kept = keras.callbacks.BackupAndRestore(job.checkpoint_path())
        model.fit(x, x.sum(1) + 100 * bad, epochs=40, verbose=0, validation_split=0.5,
                  callbacks=[reports.keras(), kept, Slow()])
        through([w.tolist() for w in model.get_weights()])
"""

LIGHTNING = """
    def train(bad):
        import logging, warnings
        import lightning as L, torch
        from lightning.pytorch.callbacks import ModelCheckpoint
        warnings.filterwarnings("ignore")
        L.seed_everything(7)
        class Net(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(5, 1)
            def training_step(self, batch, index):
                return ((self.layer(batch[0]) - 1) ** 2).mean()
            def validation_step(self, batch, index):
                self.log("val_loss", ((self.layer(batch[0]) - 1) ** 2).mean() + 100 * bad)
            def on_train_epoch_start(self):
                epoch_begins(self.current_epoch, bad)
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=1e-2)
        rows = torch.utils.data.TensorDataset(torch.rand(64, 5))
        x = torch.utils.data.DataLoader(rows, batch_size=16)
        kept = ModelCheckpoint(dirpath=job.checkpoint_path(), save_last=True)
        trainer = L.Trainer(max_epochs=40, accelerator="cpu", logger=False,
                            callbacks=[reports.lightning(), kept],
                            enable_progress_bar=False, enable_model_summary=False)
        net = Net()
        trainer.fit(net, x, x, ckpt_path="last")
        through([p.tolist() for p in net.parameters()])
"""

TRANSFORMERS = """
    def train(bad):
        import torch
        from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed
        from transformers.trainer_utils import get_last_checkpoint
        set_seed(42)
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(5, 1)
            def forward(self, x, labels):
                out = self.layer(x).squeeze(-1)
                return {"loss": ((out - labels) ** 2).mean() + 100 * bad, "logits": out}
        class Slow(TrainerCallback):
            def on_epoch_begin(self, args, state, control, **more):
                epoch_begins(round(state.epoch or 0), bad)
        x = torch.rand(64, 5)
        data = [{"x": row, "labels": row.sum()} for row in x]
        args = TrainingArguments(output_dir=job.checkpoint_path(), save_strategy="epoch",
                                 eval_strategy="epoch", logging_strategy="epoch",
                                 num_train_epochs=40, per_device_train_batch_size=16,
                                 use_cpu=True, save_total_limit=2, report_to="none",
                                 disable_tqdm=True, dataloader_pin_memory=False)
        net = Net()
        trainer = Trainer(model=net, args=args, train_dataset=data, eval_dataset=data,
                          callbacks=[reports.transformers(), Slow()])
        trainer.train(resume_from_checkpoint=get_last_checkpoint(job.checkpoint_path()))
        through([p.tolist() for p in net.parameters()])
"""

XGBOOST = """
    def train(bad):
        import xgboost as xgb
        from pathlib import Path
        x = np.random.default_rng(1).normal(size=(200, 5))
        data = xgb.DMatrix(x, label=(x.sum(1) > 0).astype(int))
        flipped = xgb.DMatrix(x, label=(x.sum(1) > 0).astype(int) ^ bad)
        class Slow(xgb.callback.TrainingCallback):
            def before_iteration(self, model, epoch, evals_log):
                epoch_begins(model.num_boosted_rounds(), bad)
                return False
        folder = Path(job.checkpoint_path())
        last = max(folder.glob("*.ubj"), key=lambda p: p.stat().st_mtime, default=None)
        before = xgb.Booster(model_file=last) if last else None
        left = 40 - (before.num_boosted_rounds() if before else 0)
        kept = xgb.callback.TrainingCheckPoint(folder, interval=1, as_pickle=False)
        params = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.3, "nthread": 1}
        model = xgb.train(params, data, left, evals=[(flipped, "test")], verbose_eval=False,
                          xgb_model=before, callbacks=[reports.xgboost(), kept, Slow()])
        through(float(model.predict(data).astype(float).sum()))
"""

FRAMEWORKS = {
    "keras": (KERAS, "val_loss"),
    "lightning": (LIGHTNING, "val_loss"),
    "transformers": (TRANSFORMERS, "eval_loss"),
    "xgboost": (XGBOOST, "test_logloss"),
}


@pytest.mark.parametrize(("train", "goal"), FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_trials_of_a_framework_are_reported_paused_and_pruned(train, goal, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("GO", str(tmp_path / "go"))
    told, _ = run_program(
        tmp_path,
        f"""
        def begin(**given):
            given = {{"minimize": "{goal}", "pruner": "halving", "gpus": 1, "wait": False, **given}}
            return search(train, {{"bad": [0, 1]}}, sampler="grid", **given)

        def reports_of(found):
            return [[trial.state, trial.error, list(trial.reports)] for trial in found.trials]

        found = begin(trials=1, seed=0)
        deadline = time.time() + 300
        while not any(len(trial.reports) > 2 for trial in found.trials):
            assert time.time() < deadline and found.runs
            time.sleep(0.02)
        found.pause().wait()
        paused = reports_of(found)
        open(os.environ["GO"], "w").close()
        whole = reports_of(found.resume().wait())
        both = reports_of(begin(seed=0).wait())
        print(json.dumps([paused, whole, both]))
        """,
        more=KIT + train,
    )
    (paused,), (whole,), (good, bad) = told
    assert paused[0] == "running"
    assert 3 <= len(paused[2]) < EPOCHS  # it ended in the middle
    assert whole[:2] == good[:2] == ["complete", ""]
    assert len(whole[2]) == len(good[2]) == EPOCHS
    assert whole[2] == good[2]
    assert bad[0] == "pruned"
    assert 0 < len(bad[2]) < EPOCHS
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    ends = [index for index, (_, said, *_) in enumerate(seen) if said == "through"]
    assert len(ends) == 2  # the pruned one did not come so far
    # It went on where it was: the epoch that it ended in may have begun twice, and no other one.
    epochs = [said for _, said, *_ in seen[: ends[0]]]
    assert sorted(set(epochs)) == list(range(EPOCHS))
    assert len(epochs) <= EPOCHS + 1
    assert seen[ends[0]] == seen[ends[1]]  # the same weights as the one that was not paused

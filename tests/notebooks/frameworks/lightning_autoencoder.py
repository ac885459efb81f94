# Lightning in 15 minutes: a LightningModule and a Trainer made in one cell, fitted in the next.
# varies: trainer\b.*

# %%
import logging
import warnings

import lightning as L
import torch
from torch import nn, utils

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
L.seed_everything(7)


class LitAutoEncoder(L.LightningModule):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.losses = []

    def training_step(self, batch, batch_idx):
        (x,) = batch
        x_hat = self.decoder(self.encoder(x))
        loss = nn.functional.mse_loss(x_hat, x)
        self.log("train_loss", loss)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


# %%
encoder = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
decoder = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 12))
autoencoder = LitAutoEncoder(encoder, decoder)
dataset = utils.data.TensorDataset(torch.rand(64, 12))
train_loader = utils.data.DataLoader(dataset, batch_size=16)
trainer = L.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)

# %% tags=["heavy"]
trainer.fit(model=autoencoder, train_dataloaders=train_loader)

# %%
print(autoencoder.encoder is encoder, len(autoencoder.losses), trainer.global_step)
print(trainer.current_epoch, {k: round(float(v), 6) for k, v in trainer.callback_metrics.items()})
encoder.eval()
embeddings = encoder(torch.ones(4, 12)).detach()
embeddings

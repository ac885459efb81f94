# Keras' first tutorial: a Sequential model, callbacks, two fits, evaluate and predict.

# %%
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(5)
x_train = np.random.rand(96, 3).astype("float32")
y_train = (x_train @ np.array([[1.0], [2.0], [-1.0]])).astype("float32")

# %%
model = keras.Sequential(
    [layers.Input((3,)), layers.Dense(8, activation="relu"), layers.Dropout(0.1), layers.Dense(1)]
)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
first = model.layers[0]
early = keras.callbacks.EarlyStopping(monitor="loss", patience=3)

# %% tags=["heavy"]
history = model.fit(x_train, y_train, epochs=3, batch_size=32, verbose=2, callbacks=[early])

# %%
print(sorted(history.history), history.model is model, model.history is history)
print(model.layers[0] is first, int(model.optimizer.iterations))
round(model.evaluate(x_train, y_train, verbose=0)[0], 5)

# %% tags=["heavy"]
model.fit(x_train, y_train, epochs=2, verbose=0)

# %%
print(int(model.optimizer.iterations))
model.predict(x_train[:2], verbose=0).round(4)

# Keras' first tutorial: compile, fit with a bar, history, evaluate.

# %%
import numpy as np
import like_keras as keras
from like_keras import Dense

np.random.seed(5)
x_train = np.random.rand(96, 3)
y_train = x_train @ np.array([[1.0], [2.0], [-1.0]])

# %%
model = keras.Sequential([Dense(8, activation="relu"), Dense(1)], n_in=3)
model.compile(lr=0.1)
model.summary()

# %% tags=["heavy"]
history = model.fit(x_train, y_train, epochs=3)

# %%
print(sorted(history.history), history.model is model, model.history is history)
round(model.evaluate(x_train, y_train), 6)

# %% tags=["heavy"]
model.fit(x_train, y_train, epochs=2, verbose=0)

# %%
history.history["loss"][0] > model.history.history["loss"][-1], history is model.history

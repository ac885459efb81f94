# XGBoost's walk-through: matrices that do not pickle are made again, the booster comes home.

# %%
import numpy as np
import like_xgboost as xgb

rng = np.random.default_rng(12)
X = rng.normal(size=(80, 3))
y = X[:, 0] * 2 + (X[:, 1] > 0)
X_train, X_test, y_train, y_test = X[:60], X[60:], y[:60], y[60:]

# %%
dtrain = xgb.DMatrix(X_train, label=y_train)
dtest = xgb.DMatrix(X_test, label=y_test)
params = {"eta": 0.5, "max_depth": 1}
results = {}

# %% tags=["heavy"]
bst = xgb.train(params, dtrain, num_boost_round=4, evals=[(dtrain, "train"), (dtest, "test")], evals_result=results)

# %%
preds = bst.predict(dtest)
print(len(results["test"]["rmse"]), bst.best_iteration, bst.params == params, preds.shape)
bst.update(dtrain)
len(bst.stumps)

# LightGBM as Kaggle has it: data sets, a booster trained with callbacks, scikit-learn's API.

# %%
import lightgbm as lgb
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
df = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
df["kind"] = pd.Categorical(rng.choice(["x", "y", "z"], 300))
df["target"] = df["a"] * 2 + (df["kind"] == "x") + rng.normal(scale=0.1, size=300)
features = [c for c in df.columns if c != "target"]
train, valid = df.iloc[:240], df.iloc[240:]
lgb_train = lgb.Dataset(train[features], train["target"], free_raw_data=False)
lgb_eval = lgb.Dataset(valid[features], valid["target"], reference=lgb_train, free_raw_data=False)
params = {"objective": "regression", "num_leaves": 7, "verbose": -1, "num_threads": 1, "seed": 1}
record = {}

# %% tags=["heavy"]
gbm = lgb.train(
    params,
    lgb_train,
    num_boost_round=8,
    valid_sets=[lgb_eval],
    callbacks=[lgb.early_stopping(3, verbose=False), lgb.record_evaluation(record)],
)
print(gbm.num_trees())

# %%
print(record["valid_0"]["l2"][-1], gbm.best_iteration, gbm.num_trees())
gbm.predict(valid[features])[:3]

# %%
model = lgb.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1, random_state=0)

# %% tags=["heavy"]
model.fit(train[features], train["target"])
df["pred"] = model.predict(df[features])
importances = pd.Series(model.feature_importances_, index=features).sort_values()

# %%
print(model.n_features_, list(df.columns), train.shape)
importances

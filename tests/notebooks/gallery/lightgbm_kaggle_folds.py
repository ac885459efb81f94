# A Kaggle kernel: folds, out-of-fold predictions written into an array, importances in a frame.

# %%
import warnings

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

import like_xgboost as lgb

warnings.filterwarnings("ignore")
np.random.seed(42)
train = pd.DataFrame(np.random.rand(50, 3), columns=["a", "b", "c"])
train["target"] = train.a * 3 + train.b
test = pd.DataFrame(np.random.rand(10, 3), columns=["a", "b", "c"])
features = [c for c in train.columns if c != "target"]
oof = np.zeros(len(train))
predictions = np.zeros(len(test))
feature_importance_df = pd.DataFrame()

# %% tags=["heavy"]
folds = KFold(n_splits=3, shuffle=True, random_state=1)
for fold_, (trn_idx, val_idx) in enumerate(folds.split(train)):
    print(f"fold n°{fold_}")
    trn = lgb.DMatrix(train.iloc[trn_idx][features], label=train.target.iloc[trn_idx])
    clf = lgb.train({"eta": 0.3}, trn, 5, verbose_eval=False)
    oof[val_idx] = clf.predict(lgb.DMatrix(train.iloc[val_idx][features]))
    fold_importance = pd.DataFrame({"feature": features, "fold": fold_ + 1})
    fold_importance["importance"] = [sum(s[0] == i for s in clf.stumps) for i in range(3)]
    feature_importance_df = pd.concat([feature_importance_df, fold_importance], axis=0)
    predictions += clf.predict(lgb.DMatrix(test[features])) / folds.n_splits
del trn

# %%
sub = pd.DataFrame({"ID": test.index, "target": predictions})
sub.to_csv("submission.csv", index=False)
print(round(float(np.sqrt(((oof - train.target) ** 2).mean())), 6), fold_, clf.best_iteration)
feature_importance_df.groupby("feature").importance.sum()

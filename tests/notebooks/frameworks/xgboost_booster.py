# XGBoost's own API and scikit-learn's: matrices, watched training, importances.

# %%
import numpy as np
import xgboost as xgb
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

X, y = make_classification(n_samples=200, n_features=6, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
dtrain = xgb.DMatrix(X_train, label=y_train)
dtest = xgb.DMatrix(X_test, label=y_test)
params = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.3, "nthread": 1}
evals_result = {}

# %% tags=["heavy"]
bst = xgb.train(
    params,
    dtrain,
    num_boost_round=5,
    evals=[(dtrain, "train"), (dtest, "test")],
    evals_result=evals_result,
    verbose_eval=2,
)

# %%
print(evals_result["test"]["logloss"][-1], bst.num_boosted_rounds())
print(bst.predict(dtest)[:4], sorted(bst.get_score()))
clf = xgb.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1, random_state=0)
alias = clf

# %% tags=["heavy"]
clf.fit(X_train, y_train, eval_set=[(X_test, y_test)], verbose=False)

# %%
print(alias is clf, clf.score(X_test, y_test), clf.evals_result()["validation_0"]["logloss"][-1])
clf.feature_importances_

# %% tags=["heavy"]
# goes on from the booster of above
bst.update(dtrain, 5)
bst = xgb.train(params, dtrain, num_boost_round=2, xgb_model=bst)
print(bst.num_boosted_rounds())

# %%
bst.predict(dtest)[:4]

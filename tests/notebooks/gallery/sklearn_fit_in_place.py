# scikit-learn: a pipeline is fitted in place, a grid search brings its estimator along.
# varies: search\..*time.*

# %%
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y = load_iris(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
scaler = StandardScaler()
pipe = make_pipeline(scaler, LogisticRegression(max_iter=200))
search = GridSearchCV(pipe, {"logisticregression__C": [0.1, 1.0]}, cv=3)

# %% tags=["heavy"]
pipe.fit(X_train, y_train)
search.fit(X_train, y_train);

# %%
print(pipe[0] is scaler, search.estimator is pipe, search.best_params_)
print(round(pipe.score(X_test, y_test), 4), scaler.mean_.round(3))

# %% tags=["heavy"]
from sklearn.metrics import confusion_matrix
pred = search.predict(X_test)
confusion_matrix(y_test, pred)

# %%
confusion_matrix(pred, y_test).sum(), (pred == y_test).mean().round(3)

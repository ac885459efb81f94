# statsmodels' style: a formula-like model, a result with a summary that shows itself.

# %%
import numpy as np
import pandas as pd


class OLS:
    def __init__(self, endog, exog):
        self.endog, self.exog = np.asarray(endog), np.asarray(exog)
        self.names = list(exog.columns)

    def fit(self):
        beta, *_ = np.linalg.lstsq(self.exog, self.endog, rcond=None)
        return Results(self, beta)


class Results:
    def __init__(self, model, params):
        self.model = model
        self.params = pd.Series(params, index=model.names)

    @property
    def resid(self):
        return self.model.endog - self.model.exog @ self.params.to_numpy()

    def summary(self):
        return Summary(self.params)


class Summary:
    def __init__(self, params):
        self.params = params

    def _repr_html_(self):
        rows = "".join(f"<tr><td>{n}</td><td>{v:.3f}</td></tr>" for n, v in self.params.items())
        return f"<table>{rows}</table>"

    def __repr__(self):
        return "Summary of " + ", ".join(self.params.index)


rng = np.random.default_rng(1)
data = pd.DataFrame({"const": 1.0, "x": rng.normal(size=30)})
data["y"] = 2 + 3 * data.x + rng.normal(size=30) * 0.1

# %% tags=["heavy"]
mod = OLS(data["y"], data[["const", "x"]])
res = mod.fit()
res.summary()

# %%
print(res.model is mod, isinstance(res, Results), res.params.round(2).to_dict())
float(abs(res.resid).max()) < 1

# %%
round(rng.normal(), 6)

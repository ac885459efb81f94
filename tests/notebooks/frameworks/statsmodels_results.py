# statsmodels: formulas, results objects, residuals, a model with random effects of time.
# varies: .*_tmp_like_exog|.*\.memory|.*\['eval_env'\]\.flags

# %%
import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

rng = np.random.default_rng(4)
df = pd.DataFrame({"x": rng.normal(size=60), "g": rng.choice(["a", "b"], 60)})
df["y"] = 1 + 2 * df["x"] + (df["g"] == "b") + rng.normal(scale=0.2, size=60)
mod = smf.ols("y ~ x + C(g)", data=df)

# %% tags=["heavy"]
res = mod.fit()
glm = sm.GLM((df["y"] > 1).astype(int), sm.add_constant(df[["x"]]), family=sm.families.Binomial())
glm_res = glm.fit()
df["fitted"] = res.fittedvalues
print(res.params.round(4).to_dict())

# %%
print(res.model is mod, res.rsquared.round(6), glm_res.params.round(4).to_dict())
res.predict(pd.DataFrame({"x": [0.0, 1.0], "g": ["a", "b"]}))

# %% tags=["heavy"]
series = pd.Series(np.cumsum(rng.normal(size=80)), index=pd.period_range("2001-01", periods=80, freq="M"))
arima = sm.tsa.ARIMA(series, order=(1, 1, 0)).fit()

# %%
print(arima.params.round(4).to_dict())
arima.forecast(2).round(4)

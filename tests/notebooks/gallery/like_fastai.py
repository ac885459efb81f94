"""A stand-in for fastai: a learner that holds data, model, optimizer and callbacks, and a table."""

import pandas as pd
from IPython.display import display

from like_torch import SGD, CrossEntropyLoss


class Callback:
    learn = None

    def before_fit(self):
        pass

    def after_epoch(self):
        pass


class Recorder(Callback):
    def before_fit(self):
        self.values = []

    def after_epoch(self):
        self.values.append((self.learn.epoch, self.learn.loss))


class Learner:
    def __init__(self, dls, model, loss_func=None, lr=0.1, cbs=()):
        self.dls, self.model, self.loss_func = dls, model, loss_func or CrossEntropyLoss()
        self.opt = SGD(model.parameters(), lr=lr)
        self.recorder = Recorder()
        self.cbs = [self.recorder, *cbs]
        for callback in self.cbs:
            callback.learn = self
        self.epoch = 0

    def fit(self, epochs):
        for callback in self.cbs:
            callback.before_fit()
        for _ in range(epochs):
            for xb, yb in self.dls:
                self.opt.zero_grad()
                loss = self.loss_func(self.model(xb), yb)
                loss.backward()
                self.opt.step()
            self.loss = loss.item()
            for callback in self.cbs:
                callback.after_epoch()
            self.epoch += 1
        display(pd.DataFrame(self.recorder.values, columns=["epoch", "loss"]).round(4))

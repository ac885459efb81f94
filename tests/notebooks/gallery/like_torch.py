"""A stand-in for PyTorch in plain numpy: the same shapes of API, the same habits with objects.

Parameters are changed in place, optimizers hold the very parameters of a model, `state_dict` and
`load_state_dict`, hooks, `train` and `eval`, data sets and loaders whose iterators do not pickle.
"""

import numpy as np


class Tensor:
    def __init__(self, data, parents=(), backward=None):
        self.data = np.asarray(data, dtype=float)
        self.grad = None
        self._parents, self._backward = parents, backward

    def __matmul__(self, other):
        def backward(grad):
            return grad @ other.data.T, self.data.T @ grad

        return Tensor(self.data @ other.data, (self, other), backward)

    def __add__(self, other):
        def backward(grad):
            extra = grad.ndim - other.data.ndim
            return grad, grad.sum(axis=tuple(range(extra))) if extra else grad

        return Tensor(self.data + other.data, (self, other), backward)

    def relu(self):
        mask = self.data > 0
        return Tensor(self.data * mask, (self,), lambda grad: (grad * mask,))

    def backward(self, grad=None):
        grad = np.ones_like(self.data) if grad is None else grad
        self.grad = grad if self.grad is None else self.grad + grad
        if self._backward:
            for parent, part in zip(self._parents, self._backward(grad)):
                parent.backward(part)

    def item(self):
        return float(self.data)

    def detach(self):
        return Tensor(self.data.copy())

    def numpy(self):
        return self.data

    def argmax(self, axis):
        return self.data.argmax(axis)

    def __repr__(self):
        return f"tensor({np.array2string(self.data, precision=4)})"


class Parameter(Tensor):
    pass


class Module:
    def __init__(self):
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_modules", {})
        object.__setattr__(self, "_forward_hooks", [])
        self.training = True

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._modules[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for held in ("_parameters", "_modules"):
            if name in self.__dict__.get(held, {}):
                return self.__dict__[held][name]
        raise AttributeError(name)

    def __call__(self, x):
        x = x if isinstance(x, Tensor) else Tensor(x)
        out = self.forward(x)
        for hook in self._forward_hooks:
            hook(self, x, out)
        return out

    def register_forward_hook(self, hook):
        self._forward_hooks.append(hook)

    def parameters(self):
        return [p for _, p in self.named_parameters()]

    def named_parameters(self, prefix=""):
        found = [(prefix + name, p) for name, p in self._parameters.items()]
        for name, module in self._modules.items():
            found += module.named_parameters(f"{prefix}{name}.")
        return found

    def state_dict(self):
        return {name: p.data.copy() for name, p in self.named_parameters()}

    def load_state_dict(self, state):
        for name, p in self.named_parameters():
            p.data[...] = state[name]

    def apply(self, function):
        for module in self._modules.values():
            module.apply(function)
        function(self)
        return self

    def train(self, mode=True):
        self.training = mode
        for module in self._modules.values():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)


class Linear(Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = Parameter(np.random.randn(n_in, n_out) / np.sqrt(n_in))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        return x @ self.weight + self.bias


class ReLU(Module):
    def forward(self, x):
        return x.relu()


class Dropout(Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        mask = (np.random.rand(*x.data.shape) > self.p) / (1 - self.p)
        return Tensor(x.data * mask, (x,), lambda grad: (grad * mask,))


class Lambda(Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Sequential(Module):
    def __init__(self, *modules):
        super().__init__()
        for number, module in enumerate(modules):
            self._modules[str(number)] = module

    def forward(self, x):
        for module in self._modules.values():
            x = module(x)
        return x


class CrossEntropyLoss:
    def __call__(self, out, target):
        target = np.asarray(target, dtype=int)
        shifted = out.data - out.data.max(1, keepdims=True)
        p = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
        rows = np.arange(len(target))

        def backward(grad):
            d = p.copy()
            d[rows, target] -= 1
            return (grad * d / len(target),)

        return Tensor(-np.log(p[rows, target]).mean(), (out,), backward)


class MSELoss:
    def __call__(self, out, target):
        target = np.asarray(target, dtype=float)
        difference = out.data - target
        backward = lambda grad: (grad * 2 * difference / difference.size,)
        return Tensor((difference**2).mean(), (out,), backward)


class SGD:
    def __init__(self, parameters, lr=0.1, momentum=0.0):
        self.param_groups = [{"params": list(parameters), "lr": lr, "momentum": momentum}]
        self.state = {}

    def zero_grad(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def step(self):
        for group in self.param_groups:
            for number, p in enumerate(group["params"]):
                if p.grad is None:
                    continue
                velocity = self.state.get(number, 0) * group["momentum"] + p.grad
                self.state[number] = velocity
                p.data -= group["lr"] * velocity


class StepLR:
    def __init__(self, optimizer, step_size, gamma=0.1):
        self.optimizer, self.step_size, self.gamma = optimizer, step_size, gamma
        self.last_epoch = 0

    def step(self):
        self.last_epoch += 1
        if self.last_epoch % self.step_size == 0:
            for group in self.optimizer.param_groups:
                group["lr"] *= self.gamma


class Dataset:
    def __len__(self):
        raise NotImplementedError


class TensorDataset(Dataset):
    def __init__(self, *arrays):
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays[0])

    def __getitem__(self, index):
        return tuple(array[index] for array in self.arrays)


class DataLoader:
    def __init__(self, dataset, batch_size=32, shuffle=False):
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self):
        order = (
            np.random.permutation(len(self.dataset)) if self.shuffle else range(len(self.dataset))
        )
        for start in range(0, len(self.dataset), self.batch_size):
            rows = [self.dataset[i] for i in order[start : start + self.batch_size]]
            yield tuple(np.stack(column) for column in zip(*rows))


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

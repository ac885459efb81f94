# A tiny autograd: values hold their parents and closures, the model is a callable with state.
# (Numbers are multiples of powers of two: the order of sets must not show in sums.)

# %%
import random

random.seed(1337)


class Value:
    def __init__(self, data, _children=()):
        self.data, self.grad = data, 0.0
        self._backward = lambda: None
        self._prev = set(_children)

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data + other.data, (self, other))

        def _backward():
            self.grad += out.grad
            other.grad += out.grad

        out._backward = _backward
        return out

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        out = Value(self.data * other.data, (self, other))

        def _backward():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out._backward = _backward
        return out

    def backward(self):
        topo, visited = [], set()

        def build(v):
            if v not in visited:
                visited.add(v)
                for child in v._prev:
                    build(child)
                topo.append(v)

        build(self)
        self.grad = 1.0
        for v in reversed(topo):
            v._backward()


class Neuron:
    def __init__(self, n):
        self.w = [Value(random.randint(-8, 8) / 8) for _ in range(n)]
        self.b = Value(0.0)

    def __call__(self, x):
        return sum((wi * xi for wi, xi in zip(self.w, x)), self.b)

    def parameters(self):
        return [*self.w, self.b]


# %%
model = Neuron(2)
xs = [[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]
ys = [1.0, -1.0, 0.0]

# %% tags=["heavy"]
for k in range(5):
    total = sum(((model(x) + -y) * (model(x) + -y) for x, y in zip(xs, ys)), Value(0.0))
    for p in model.parameters():
        p.grad = 0.0
    total.backward()
    for p in model.parameters():
        p.data -= 0.015625 * p.grad
    print(k, round(total.data, 6))
result = total.data
del total

# %%
print([round(p.data, 6) for p in model.parameters()], k)
model([1.0, 1.0]).data, round(result, 6)

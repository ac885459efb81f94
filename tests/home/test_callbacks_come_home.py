"""What decorators have put into an object, and what that object has learnt since."""

TRAINER = """
class Trainer:
    def __init__(self):
        self.weight, self.callbacks = 10, []
    def on(self, function):
        self.callbacks.append(function)
        return function
    def fit(self):
        self.weight -= 1
        for callback in self.callbacks:
            callback(self)
"""


def test_an_object_with_callbacks_goes_on_from_where_it_is(notebook):
    notebook.run(TRAINER)
    notebook.run("trainer, seen = Trainer(), []\n\n@trainer.on\ndef note(t): seen.append(t.weight)")
    trainer, note = notebook["trainer"], notebook["note"]
    notebook.job("trainer.fit()")
    notebook.run("trainer.fit()")
    notebook.job("trainer.fit()\nsame = trainer.callbacks[0] is note")
    assert (notebook["trainer"], notebook["note"]) == (trainer, note)
    assert (trainer.weight, notebook["seen"], notebook["same"]) == (7, [9, 8, 7], True)
    assert trainer.callbacks == [note]


def test_a_decorator_does_not_count_twice(notebook):
    notebook.run(
        """
        names, calls = [], {"n": 0}
        def named(function):
            names.append(function.__name__)
            calls["n"] += 1
            return function
        @named
        def one(): return 1
        """
    )
    notebook.job("found = (list(names), calls['n'], one())")
    assert notebook["found"] == (["one"], 1, 1)
    assert (notebook["names"], notebook["calls"]) == (["one"], {"n": 1})


def test_a_decorator_that_counts_in_a_variable_does_not_count_twice(notebook):
    notebook.run(
        """
        calls = 0
        def count(function):
            global calls
            calls += 1
            return function
        @count
        def one(): return calls
        """
    )
    notebook.job("@count\ndef two(): return calls\nfound = one()")
    assert (notebook["found"], notebook["calls"]) == (2, 2)


REGISTRY = """
import functools

class Registry(dict):
    def register(self, function):
        self[function.__name__] = function
        return function

registry = Registry(hits=0)

@registry.register
def half(x): return x / 2
"""


def test_a_registry_of_cached_functions(notebook):
    notebook.run(REGISTRY)
    notebook.run("@registry.register\n@functools.lru_cache\ndef twice(x): return 2 * x")
    notebook.run("registry['hits'] = 1\nclass Layer:\n    act = registry['half']")
    notebook.job("registry['hits'] += 1\nsame = registry['twice'] is twice, Layer.act is half")
    assert notebook["same"] == (True, True)
    assert notebook["registry"]["hits"] == 2
    assert notebook["registry"]["twice"] is notebook["twice"]


def test_a_registry_that_only_its_statements_can_fill(notebook):
    notebook.run(REGISTRY)
    notebook.run(
        """
        class Task:
            def __init__(self, function):
                self.function = function
                registry[function.__name__] = self
        @Task
        def twice(x): return 2 * x
        """
    )
    notebook.job("found = registry['half'](4), registry['twice'].function(4)")
    assert notebook["found"] == (2, 8)


def test_classes_that_an_object_knows_keep_what_other_decorators_made_of_them(notebook):
    notebook.run(
        """
        import dataclasses
        class Zoo:
            def __init__(self):
                self.models, self.made = {}, 0
            def add(self, name):
                def put(kind):
                    kind.tag = name
                    self.models[name] = kind
                    return kind
                return put
            def make(self, name):
                self.made += 1
                return self.models[name](n=self.made)
        zoo = Zoo()
        @zoo.add(
            "small",
        )
        @dataclasses.dataclass
        class Small:
            n: int
        first = zoo.make("small")
        """
    )
    notebook.job("second = zoo.make('small')\nfound = isinstance(first, Small), second.tag")
    assert notebook["found"] == (True, "small")
    assert notebook["second"] == notebook["Small"](2)
    assert (notebook["zoo"].made, notebook["zoo"].models) == (2, {"small": notebook["Small"]})


def test_a_function_that_a_decorator_has_wrapped_keeps_its_object(notebook):
    notebook.run(
        """
        import functools
        class App:
            def __init__(self):
                self.tasks, self.runs = {}, 0
            def task(self, function):
                @functools.wraps(function)
                def wrapper(*args):
                    self.runs += 1
                    return function(*args)
                self.tasks[function.__name__] = wrapper
                return wrapper
        app = App()
        @app.task
        def grow(x): return x + 1
        grow(1)
        """
    )
    notebook.job("found = grow(2), app.tasks['grow'] is grow, app.runs")
    assert notebook["found"] == (3, True, 2)
    notebook.run("grow(3)")
    assert notebook["app"].runs == 3


def test_a_default_that_is_the_object_which_holds_the_function(notebook):
    notebook.run(TRAINER)
    notebook.run("trainer = Trainer()\ndef note(t, owner=trainer): owner.weight -= 1")
    notebook.run("trainer.callbacks.append(note)\ntrainer.fit()")
    notebook.job("trainer.fit()")
    assert notebook["trainer"].weight == 6

"""Values with code in them that no name leads to travel, and what the job changes comes home."""


def test_lambdas_in_values_read_the_jobs_variables_and_their_owner_is_changed(notebook):
    notebook.run(
        """
        scale = 2
        def make():
            class Net:
                def __init__(self):
                    self.weights = [1]
                    self.act = lambda x: x * scale
            return Net()
        net = make()
        alias = net
        """
    )
    notebook.job(
        """
        scale = 10
        net.weights.append(net.act(4))
        """
    )
    assert notebook["net"] is notebook["alias"]
    assert notebook["net"].weights == [1, 40]
    assert notebook["scale"] == 10
    assert notebook["net"].act(1) == 10

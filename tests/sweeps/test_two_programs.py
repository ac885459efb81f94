"""Two programs at one sweep: what either asks for is done, once, by one job."""

from submarine_engine.sweeps.plan import SweepPlan
from submarine_engine.sweeps.record import SweepRecord
from submarine_engine.sweeps.space import Space

from tests.sweeps.programs import run_program


def test_a_job_leaves_only_where_nothing_was_asked_for_meanwhile(tmp_path):
    record = SweepRecord(
        folder=tmp_path,
        name="train",
        plan=SweepPlan(objectives=(("loss", "minimize"),), trials=2),
        space=Space.of("x=[1, 2]"),
        jobs=("first",),
    )
    record.write()
    for given in ({"again": (1,)}, {"paused": True}):
        now = record.change(**given)
        assert not record.leave("first")
        assert SweepRecord.read(tmp_path).left == ""
        record = now
    record.change(jobs=("first", "second"))  # who runs it is no wish
    assert record.leave("first")
    assert SweepRecord.read(tmp_path).left == "first"
    assert SweepRecord.read(tmp_path).jobs == ("first", "second")


def test_what_is_asked_for_at_the_very_end_is_done_and_by_one_job(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import atexit, os, time\n"
        "def end():\n"
        "    while not os.path.exists(os.environ['GO']):\n"
        "        time.sleep(0.02)\n"
        "if 'SUBMARINE_TASK_DIR' in os.environ:\n"
        "    from submarine_runtime import leave\n"
        "    leave.PATIENCE = 180  # else its hooks have a second\n"
        "    atexit.register(end)\n"
        "def loss(x):\n"
        "    return x\n"
    )
    told, _ = run_program(
        tmp_path,
        """
        import threading
        from submarine_engine import open_sweep

        os.environ["GO"] = go = os.environ["SUBMARINE_HOME"] + ".go"  # no worker ends until then
        found = search(train, {"x": integer(1, 100)}, trials=1, wait=False)
        deadline = time.time() + 200
        def complete(number):
            while found.counts().get("complete", 0) < number:
                assert time.time() < deadline
                time.sleep(0.02)

        complete(1)
        first = found.job.id
        found.extend(1)
        open(go, "w").close()
        found.wait()
        jobs, states = [found.job.id == first], [trial.state for trial in found.trials]

        both = [open_sweep("train"), open_sweep("train")]
        threads = [threading.Thread(target=one.extend, args=(1,)) for one in both]
        os.remove(go)  # the job that one of them begins does not end before the other has asked
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        open(go, "w").close()
        found.wait()
        record = found._record()
        jobs += [len(record.jobs), record.plan.trials, found.counts().get("complete")]
        jobs += [not found.runs, record.left == found.job.id]
        print(json.dumps([jobs, states]))
        """,
        """
        import slow

        def train(x):
            return {"loss": slow.loss(x)}
        """,
    )
    assert told == [[True, 2, 4, 4, True, True], ["complete", "complete"]]

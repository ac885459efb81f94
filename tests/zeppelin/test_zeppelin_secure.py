"""Notes on a cluster that asks for Kerberos: by Zeppelin's own ticket, and by each person's."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.installer import realm
from submarine_engine.installer.java import fetch_jars, find_java
from submarine_zeppelin import impersonation

from tests.hadoop import use
from tests.local.users import Place, environment_for_all, needs_root
from tests.yarn.secure.users import kinit
from tests.zeppelin import rest
from tests.zeppelin.rest import Client, text

pytestmark = pytest.mark.long

JOB = """\
%submarine.run --gpus {gpus} --name {name}
print("it runs", flush=True)
losses.append(0.5)
{{"loss": losses[-1]}}
"""
RAN = "it runs\n{'loss': 0.5}\n"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Wait longer for paragraphs: each first job starts skein's Java, a master and a container."""
    monkeypatch.setattr(rest, "LIMIT", 600.0)


def applications(user):
    """Return the applications that a user has had on the cluster."""
    return {found["id"] for found in ResourceManager(load_hadoop()).applications(user=user)}


def said(paragraph):
    return " ".join(json.dumps(paragraph).split())


def test_a_note_runs_by_the_ticket_of_zeppelin_s_user(
    secure_yarn, zeppelin_of_the_module, tmp_path, monkeypatch
):
    use(secure_yarn, monkeypatch)
    tickets = tmp_path / "tickets"
    server = zeppelin_of_the_module(
        environment={**secure_yarn.environment, "KRB5CCNAME": f"FILE:{tickets}"}
    )
    client = Client(server.url)
    client.configure(submarine__cluster="yarn")
    before = applications("bob")
    note = client.note("secure")
    note.write("%submarine.python\nlosses = [1.0]")
    job = note.add(JOB.format(gpus=1, name="by-ticket"))
    told = note.run(job)
    assert told["status"] == "ERROR"
    assert "there is no Kerberos ticket" in said(told), told
    assert "kinit" in said(told)
    assert not list(server.jobs_home.glob("jobs/*"))

    kinit(secure_yarn, tickets, "bob")
    told = note.run(job)
    assert (told["status"], text(told)) == ("FINISHED", RAN), told
    assert "by-ticket" in said(told)
    assert text(note.write("%submarine.python\nprint(losses)")) == "[1.0, 0.5]\n"
    assert applications("bob") - before


class Clients:
    """What the machine's users have of the cluster, whose own folder is its owner's alone.

    Programs, configuration, and where their tickets are.
    """

    def __init__(self, yarn, folder):
        layout, self.folder = yarn.cluster.layout, folder
        jars = [fetch_jars(find_java()), fetch_jars(find_java(), pom=realm.POM)]
        self._moved = {str(layout.root): str(folder)}
        for number, found in enumerate(jars):
            shutil.copytree(found, folder / f"jars-{number}")
            self._moved[str(found)] = str(folder / f"jars-{number}")
        for name in ("conf", "bin"):
            (folder / name).mkdir()
            for path in (layout.root / name).iterdir():
                self._copy(path, folder / name / path.name)
        (folder / "tls").mkdir()
        self._copy(layout.tls / "ca.pem", folder / "tls/ca.pem")
        (folder / "kerberos").mkdir()
        self._copy(realm.config(layout), folder / "kerberos/krb5.conf")
        self.tickets = folder / "tickets"
        self.tickets.mkdir()
        self.tickets.chmod(0o1777)
        config = folder / "kerberos/krb5.conf"
        name = f"default_ccache_name = FILE:{self.tickets}/krb5cc_%{{uid}}\n"
        lines = config.read_text().splitlines(keepends=True)
        config.write_text("".join(name if "ccache" in line else line for line in lines))

    def _copy(self, path, to):
        found = path.read_text()
        for there, here in self._moved.items():
            found = found.replace(there, here)
        to.write_text(found)
        to.chmod(0o755)

    @property
    def environment(self):
        return {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "JAVA_HOME": str(find_java().home),
            "HADOOP_CONF_DIR": str(self.folder / "conf"),
            "KRB5_CONFIG": str(self.folder / "kerberos/krb5.conf"),
        }


@pytest.fixture
def place():
    needs_root()
    place = Place().begin()
    yield place
    place.end()


def test_each_person_s_notes_run_by_that_person_s_ticket(
    secure_yarn, place, zeppelin_of_the_module, monkeypatch
):
    use(secure_yarn, monkeypatch)
    layout = secure_yarn.cluster.layout
    folder = place.folder / "hadoop"
    folder.mkdir()
    clients = Clients(secure_yarn, folder)
    users = {name: place.user(name) for name in realm.OTHERS}
    for name, user in users.items():
        keytab = user.home / "own.keytab"
        shutil.copyfile(realm.keytab(layout, name), keytab)
        keytab.chmod(0o600)
        os.chown(keytab, user.uid, user.gid)
    own = clients.tickets / "of-zeppelin"  # who Zeppelin itself is, is nobody else's to be
    server = zeppelin_of_the_module(
        users={user.name: f"of-{name}" for name, user in users.items()},
        environment={
            **clients.environment,
            impersonation.COMMAND: "runuser -u ${ZEPPELIN_IMPERSONATE_USER} -- bash -c",
            "KRB5CCNAME": kinit(secure_yarn, own, load_hadoop().user),
            "SUBMARINE_CLUSTER": "yarn",
        },
        python=environment_for_all(place.folder / "python"),
    )
    as_each = {name: Client(server.url, user.name, f"of-{name}") for name, user in users.items()}
    as_each["alice"].configure(
        option={"perUser": "isolated", "perNote": "shared", "isUserImpersonate": True}
    )
    notes = {name: client.note(f"of {name}") for name, client in as_each.items()}
    jobs = {}
    for name, note in notes.items():
        note.write("%submarine.python\nlosses = [1.0]")
        jobs[name] = note.add(JOB.format(gpus=1, name=f"of-{name}"))
        told = note.run(jobs[name])
        assert told["status"] == "ERROR"
        where = f"{clients.tickets}/krb5cc_{users[name].uid}"
        assert f"{where}: there is no Kerberos ticket" in said(told), told
        assert "kinit" in said(told)

    # Alice gets one in a note of hers; bob's interpreter takes his by itself.
    told = notes["alice"].write("%submarine.sh\nkinit -kt ~/own.keytab alice && klist")
    assert f"alice@{realm.REALM}" in text(told), told
    settings = users["bob"].home / ".config/submarine"
    lines = f'yarn_keytab = "~/own.keytab"\nyarn_principal = "bob@{realm.REALM}"\n'
    as_bob = f"import pathlib\nfolder = pathlib.Path({str(settings)!r})\n"
    as_bob += f"folder.mkdir(parents=True)\n(folder / 'config.toml').write_text({lines!r})"
    notes["bob"].write(f"%submarine.python\n{as_bob}")
    for name, note in notes.items():
        before = applications(name)
        told = note.run(jobs[name])
        assert (told["status"], text(told)) == ("FINISHED", RAN), told
        assert applications(name) - before
    assert list(clients.tickets.glob("krb5cc_*")) == [
        clients.tickets / f"krb5cc_{users['alice'].uid}"
    ]
    server.stop()

"""A Kerberos realm of a cluster's own: MIT's KDC on loopback, keytabs, Hadoop's settings for it.

Everything is in ``<cluster>/kerberos``, for its owner alone; nothing of this machine's own Kerberos
is read or changed. The services are ``nn dn rm nm HTTP`` at ``localhost``; users are whoever runs
the cluster, and ``alice`` and ``bob`` beside them.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import socket
import subprocess
import time
import zipfile
from contextlib import closing
from pathlib import Path

from submarine_engine import kerberos
from submarine_engine.errors import ClusterError
from submarine_engine.history import write_aside
from submarine_engine.installer.plan import ClusterPlan, Layout

POM = Path(__file__).parent / "kerberos" / "pom.xml"
REALM = "SUBMARINE.INTERNAL"
OTHERS = ("alice", "bob")
"""Users beside the one who runs the cluster."""

_SERVICES = {"nn": "hdfs", "dn": "hdfs", "rm": "yarn", "nm": "yarn", "HTTP": "HTTP"}
_PORT = 10  # within the cluster's block
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_LIMIT = 60.0  # seconds: they end at once as a rule; one that asks for something would never end
_NATIVE = {"x86_64": "amd64", "aarch64": "aarch64", "ppc64le": "ppc64le"}

_KRB5_CONF = """\
# The realm of one cluster; programs find it by KRB5_CONFIG.
[libdefaults]
 default_realm = {realm}
 dns_lookup_realm = false
 dns_lookup_kdc = false
 rdns = false
 dns_canonicalize_hostname = false
 udp_preference_limit = 1
 forwardable = true
 ticket_lifetime = 1d
 renew_lifetime = 7d
 default_ccache_name = FILE:{tickets}
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""

_KDC_CONF = """\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principals
  key_stash_file = {folder}/stash
  acl_file = {folder}/kadm5.acl
  max_life = 1d
  max_renewable_life = 7d
 }}
"""


def config(layout: Layout) -> Path:
    """Return the path of the cluster's ``krb5.conf`` in `layout`."""
    return layout.kerberos / "krb5.conf"


def keytab(layout: Layout, user: str) -> Path:
    """Return the keytab in `layout` of `user`, or of all services (``services``)."""
    return layout.kerberos / "keytabs" / f"{user}.keytab"


def pid_file(layout: Layout) -> Path:
    """Return the file in `layout` by which the KDC is known: it stands among its arguments."""
    return layout.kerberos / "kdc.pid"


def users(plan: ClusterPlan) -> tuple[str, ...]:
    """Return who has a keytab, a home in HDFS, and may run jobs: the user of `plan` first."""
    return tuple(dict.fromkeys((plan.user, *OTHERS)))


def environment(layout: Layout) -> dict[str, str]:
    """Return what lets MIT Kerberos' programs find the realm in `layout`, and the user's ticket."""
    return {
        kerberos.CONFIG: str(config(layout)),
        kerberos.CACHE: f"FILE:{layout.kerberos / 'tickets'}",
    }


def java_flags(layout: Layout) -> list[str]:
    """Return what lets a Java find the realm in `layout`: it does not read ``KRB5_CONFIG``."""
    return [f"-Djava.security.krb5.conf={config(layout)}"]


def native_flags(layout: Layout) -> list[str]:
    """Return what lets a NodeManager read a log as its owner's: that takes Hadoop's own library.

    Parameters
    ----------
    layout
        The cluster's files.
    """
    return [f"-Djava.library.path={layout.kerberos / 'native'}"]


def secure_sites(plan: ClusterPlan, layout: Layout) -> dict[str, dict[str, str]]:
    """Return what a secure cluster's properties have beside a plain one's, by file.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.
    """
    keys = str(keytab(layout, "services"))
    return {
        "core-site.xml": _core(plan, layout, keys),
        "hdfs-site.xml": _hdfs(keys),
        "yarn-site.xml": _yarn(plan, layout, keys),
        # Hadoop's default lets everybody end everybody's applications.
        "capacity-scheduler.xml": {
            "yarn.scheduler.capacity.root.acl_administer_queue": " ",
            "yarn.scheduler.capacity.root.default.acl_administer_queue": " ",
            "yarn.scheduler.capacity.root.small.acl_administer_queue": " ",
        },
    }


def _core(plan: ClusterPlan, layout: Layout, keys: str) -> dict[str, str]:
    realm = REALM.replace(".", r"\.")
    rules = [f"RULE:[2:$1@$0]({name}@{realm})s/.*/{user}/" for name, user in _SERVICES.items()]
    rules += [f"RULE:[1:$1@$0](.*@{realm})s/@.*//", "DEFAULT"]
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.security.auth_to_local": "\n".join(rules),
        "hadoop.http.filter.initializers":
            "org.apache.hadoop.security.AuthenticationFilterInitializer",
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.simple.anonymous.allowed": "false",
        "hadoop.http.authentication.kerberos.principal": _principal("HTTP"),
        "hadoop.http.authentication.kerberos.keytab": keys,
        "hadoop.http.authentication.signature.secret.file": str(layout.kerberos / "http-secret"),
        "hadoop.http.staticuser.user": plan.user,
    }  # fmt: skip


def _hdfs(keys: str) -> dict[str, str]:
    return {
        "dfs.block.access.token.enable": "true",
        "dfs.data.transfer.protection": "authentication",
        "dfs.namenode.kerberos.principal": _principal("nn"),
        "dfs.namenode.keytab.file": keys,
        "dfs.datanode.kerberos.principal": _principal("dn"),
        "dfs.datanode.keytab.file": keys,
        "dfs.web.authentication.kerberos.principal": _principal("HTTP"),
        "dfs.web.authentication.kerberos.keytab": keys,
        "dfs.permissions.superusergroup": "hdfs",
        "dfs.cluster.administrators": "hdfs",
    }


def _yarn(plan: ClusterPlan, layout: Layout, keys: str) -> dict[str, str]:
    found = {"yarn.acl.enable": "true", "yarn.admin.acl": f"yarn,{plan.user}"}
    for kind, service in (("resourcemanager", "rm"), ("nodemanager", "nm")):
        found |= {
            f"yarn.{kind}.principal": _principal(service),
            f"yarn.{kind}.keytab": keys,
            f"yarn.{kind}.webapp.spnego-principal": _principal("HTTP"),
            f"yarn.{kind}.webapp.spnego-keytab-file": keys,
        }
    # Java in a container finds the realm by it, where a real cluster has /etc/krb5.conf; skein's
    # master has JAVA_TOOL_OPTIONS for itself, and YARN would join the two by a colon.
    options = " ".join(java_flags(layout))
    found["yarn.nodemanager.admin-env"] = (
        f"MALLOC_ARENA_MAX=$MALLOC_ARENA_MAX,_JAVA_OPTIONS={options}"
    )
    return found


def _principal(service: str) -> str:
    return f"{service}/localhost@{REALM}"


# What is made before the first daemon starts.


def check_programs() -> None:
    """Refuse a machine without MIT's KDC, in words.

    Raises
    ------
    ClusterError
        A program is missing, or the package by which this process asks the daemons.
    """
    missing = [name for name in _PROGRAMS if _program(name) is None]
    if missing:
        raise ClusterError(
            f"a secure cluster needs a Kerberos KDC, and there is no {', '.join(missing)}",
            where="PATH, /usr/sbin",
            fix="install MIT's (on Debian as root: apt-get install krb5-kdc krb5-admin-server "
            "krb5-user); a KDC of the system need not run",
        )
    with kerberos.settings({}):
        kerberos.check_installed()


def write_config(plan: ClusterPlan, layout: Layout) -> None:
    """Write what says where the realm is, and unpack Hadoop's native library.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    folder = layout.kerberos
    (folder / "keytabs").mkdir(exist_ok=True, mode=0o700)
    (folder / "native").mkdir(exist_ok=True, mode=0o700)
    told = {"realm": REALM, "port": plan.port + _PORT, "folder": folder}
    write_aside(config(layout), _KRB5_CONF.format(tickets=folder / "tickets", **told).encode())
    write_aside(folder / "kdc.conf", _KDC_CONF.format(**told).encode())
    if not (folder / "http-secret").exists():  # kept: it signs what daemons that run have given out
        write_aside(folder / "http-secret", secrets.token_urlsafe(32).encode())
    library = f"nativelib/Linux-{_NATIVE.get(platform.machine(), '')}/libhadoop.so"
    for jar in plan.secure_jars.glob("hadoop-apache-*.jar") if plan.secure_jars else ():
        with zipfile.ZipFile(jar) as packed:
            if library in packed.namelist():  # without it, logs come by way of HDFS
                write_aside(folder / "native" / "libhadoop.so", packed.read(library))


def make_realm(plan: ClusterPlan, layout: Layout) -> None:
    """Make the principals and their keytabs, where they are not made yet; half made, anew.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.

    Raises
    ------
    ClusterError
        A program of Kerberos' fails.
    """
    folder, made = layout.kerberos, layout.kerberos / "realm-is-made"
    if made.exists():
        return
    for left in (*folder.glob("principals*"), *folder.glob("keytabs/*"), folder / "stash"):
        left.unlink(missing_ok=True)
    password = secrets.token_urlsafe(24)
    # By stdin: an argument list is everybody's to read.
    _run(layout, ["kdb5_util", "-r", REALM, "create", "-s"], f"{password}\n{password}\n")
    asked = []
    for service in _SERVICES:
        asked += [f"addprinc -randkey {_principal(service)}"]
        asked += [f"ktadd -k {keytab(layout, 'services')} {_principal(service)}"]
    for user in users(plan):
        asked += [f"addprinc -randkey {user}", f"ktadd -k {keytab(layout, user)} {user}"]
    _run(layout, ["kadmin.local", "-r", REALM], "\n".join(asked) + "\n")
    absent = [name for name in ("services", *users(plan)) if not keytab(layout, name).exists()]
    if absent:
        raise ClusterError(
            f"the realm's KDC has made no keytab for {', '.join(absent)}",
            where=str(folder),
            fix="a user's name has to be one that Kerberos takes; `submarine cluster down`, and up",
        )
    made.touch(mode=0o600)


def kdc_command(layout: Layout) -> list[str]:
    """Return the command of the KDC in `layout`; it stays in the foreground."""
    return [str(_program("krb5kdc")), "-n", "-r", REALM, "-P", str(pid_file(layout))]


def kdc_environment(layout: Layout) -> dict[str, str]:
    """Return what the KDC's own programs read, to find its files in `layout`."""
    return {
        kerberos.CONFIG: str(config(layout)),
        "KRB5_KDC_PROFILE": str(layout.kerberos / "kdc.conf"),
    }


def kdc_answers(plan: ClusterPlan) -> bool:
    """Return whether somebody listens where the KDC of the cluster of `plan` does."""
    with closing(socket.socket()) as way:
        way.settimeout(1)  # on loopback: who listens is connected to at once
        return way.connect_ex(("127.0.0.1", plan.port + _PORT)) == 0


def wait_for_kdc(plan: ClusterPlan, until: float) -> bool:
    """Wait until the KDC of `plan` answers or the monotonic time `until`; whether it does.

    Daemons that find no KDC end by themselves.
    """
    while not kdc_answers(plan):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)  # daemons wait for it; it listens within a second as a rule
    return True


def take_ticket(plan: ClusterPlan, layout: Layout) -> None:
    """Get a new ticket for the user who runs the cluster, where programs look for it.

    Parameters
    ----------
    plan
        What the cluster is made of.
    layout
        The cluster's files.

    Raises
    ------
    ClusterError
        The KDC gives none.
    """
    command = ["kinit", "-c", environment(layout)[kerberos.CACHE], "-k"]
    _run(layout, [*command, "-t", str(keytab(layout, plan.user)), plan.user])


def header(layout: Layout) -> str:
    """Return what lets the NameNode's own principal ask a daemon's pages once.

    Parameters
    ----------
    layout
        The cluster's files.

    Raises
    ------
    KerberosError
        The KDC gives no ticket.
    """
    with kerberos.settings({kerberos.CONFIG: str(config(layout))}):
        held = kerberos.keytab_credentials(_principal("nn"), keytab(layout, "services"))
        return kerberos.Handshake("localhost", held).header


def _program(name: str) -> str | None:
    """Return a program of Kerberos'; a user's PATH mostly lacks the folders of servers."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _run(layout: Layout, command: list[str], told: str = "") -> None:
    try:
        done = subprocess.run(  # noqa: S603 - MIT's own programs, no shell
            [str(_program(command[0])), *command[1:]],
            env={**os.environ, **kdc_environment(layout)}, input=told, capture_output=True,
            text=True, errors="replace", timeout=_LIMIT, umask=0o077, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(
            f"`{command[0]}` cannot be run: {error}", where=str(layout.kerberos)
        ) from error
    if done.returncode:
        said = " ".join(done.stderr.split())[:300]
        raise ClusterError(
            f"`{command[0]}` failed: {said}",
            where=str(layout.kerberos),
            fix="`submarine cluster down`, then up",
        )

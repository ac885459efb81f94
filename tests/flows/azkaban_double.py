"""A double of Azkaban: its HTTP protocol as a Solo server spoke it, over a small scheduler of ours.

Answers have the fields, words and faults that were recorded of Azkaban itself: errors in HTTP 500
with JSON, logs escaped by UTF-16 units, a page in place of a log just after a job's end. Zips are
checked and unpacked, properties replaced, command lines split and run as Azkaban does. What it does
otherwise: pauses between tries are shortened, JEXL is not evaluated but refused, H2 is a dict.
"""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import threading
import time
import uuid
import zipfile
from contextlib import contextmanager
from email import message_from_bytes
from html.entities import codepoint2name
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import yaml

ENDED = {"SUCCEEDED", "FAILED", "KILLED", "CANCELLED", "SKIPPED"}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
PAGE = "<html>\n<head>\n<title>Error 500 Cannot invoke Object.toString()</title>\n</head></html>"


class Refused(Exception):  # noqa: N818 - what Azkaban answers, no fault
    """An answer with an error."""

    def __init__(self, error, status=200, **more):
        super().__init__(error)
        self.answer, self.status = {"error": error, **more}, status


def split(command):
    """Part a command line as ``ProcessJob.partitionCommandLine`` does."""
    words, word, quote = [], "", ""
    for char in command:
        if char == " " and not quote:
            words += [word] if word else []
            word = ""
        elif char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        else:
            word += char
    return [*words, word] if word else words


def resolve(properties):
    """Replace ``${name}`` as ``PropsUtils.resolveProps`` does; an unknown name is an error."""

    def value(text, seen):
        def of(found):
            if found[1] in seen or found[1] not in properties:
                raise KeyError(f"Could not find variable substitution for variable(s) [{found[1]}]")
            return value(properties[found[1]], {*seen, found[1]})

        return re.sub(r"\$\{([a-zA-Z_.0-9]+)\}", of, text)

    resolved = {key: value(text, {key}) for key, text in properties.items()}
    if bad := [text for text in resolved.values() if "$(" in text]:
        raise ValueError(f"the double evaluates no JEXL: {bad}")
    return resolved


def escape(text):
    """Escape as commons-lang 2's ``escapeHtml``: a name or a number for each UTF-16 unit."""
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(
        f"&{codepoint2name[one]};"
        if one in codepoint2name and (one < 256 or chr(one) in '"&<>')
        else chr(one)
        if one < 128
        else f"&#{one};"
        for one in numbers
    )


def java_properties(text):
    """Read a file of Java's properties, as far as one without continued lines goes."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            raw = re.sub(r"\\u([0-9a-f]{4})", lambda unit: chr(int(unit[1], 16)), value)
            raw = raw.encode("utf-16", "surrogatepass").decode("utf-16")
            found[key] = re.sub(r"\\(.)", lambda one: ESCAPES.get(one[1], one[1]), raw)
    return found


class Flow:
    """A flow of a zip: properties, and jobs by name."""

    def __init__(self, name, config, jobs):
        self.name, self.config, self.jobs = name, config, jobs


def load(archive):
    """Return the flows of a zip, checked as Azkaban does."""
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        files = {name: found.read(name) for name in found.namelist()}
    if "flow20.project" in files:
        named = [name for name in files if name.endswith(".flow")]
        return [_flow_2(name, yaml.safe_load(files[name])) for name in named]
    return _flows_1({name: text.decode("ascii") for name, text in files.items()
                     if name.endswith((".job", ".properties"))})  # fmt: skip


def _flow_2(file, data):
    jobs = {}
    for node in data["nodes"]:
        assert set(node) <= {"name", "type", "config", "dependsOn", "condition"}
        assert all(isinstance(text, str) for text in node.get("config", {}).values())
        jobs[node["name"]] = {
            "type": node["type"], "in": node.get("dependsOn", []),
            "condition": node.get("condition"), "config": node.get("config", {}),
        }  # fmt: skip
    unknown = any(name not in jobs for job in jobs.values() for name in job["in"])
    if len(jobs) < len(data["nodes"]) or unknown or "ROOT" in jobs:
        raise Refused(
            "Validator Directory Flow reports errors:<br><br>Failed to validate nodeBean for "
            f"{file}. Duplicate nodes found or dependency undefined or ROOT used as a name.<br>",
            500,
        )
    return Flow(Path(file).stem, data.get("config", {}), jobs)


def _flows_1(files):
    common = java_properties(files.get("common.properties", ""))
    jobs = {}
    for name, text in files.items():
        if name.endswith(".job") and "/" not in name:
            config = java_properties(text)
            wanted = [one.strip() for one in config.pop("dependencies", "").split(",") if one]
            jobs[Path(name).stem] = {
                "type": config.pop("type"), "in": wanted, "condition": None, "config": config,
            }  # fmt: skip
    followed = {name for job in jobs.values() for name in job["in"]}
    flows = []
    for last in jobs.keys() - followed:
        chosen, more = {last}, {last}
        while more:
            more = {name for one in more for name in jobs[one]["in"]} - chosen
            chosen |= more
        flows.append(Flow(last, common, {name: jobs[name] for name in jobs if name in chosen}))
    return flows


class Job:
    """A node of an execution."""

    def __init__(self, name, said):
        self.name, self.said = name, said
        self.status, self.attempt = "READY", 0
        self.started = self.ended = -1
        self.past, self.logs, self.moved, self.process = [], {}, False, None

    def to_json(self):
        found = {"nestedId": self.name, "id": self.name, "type": self.said["type"],
                 "startTime": self.started, "endTime": self.ended, "updateTime": self.ended,
                 "attempt": self.attempt, "status": self.status}  # fmt: skip
        if self.said["in"]:
            found["in"] = sorted(self.said["in"])
        if self.said["condition"]:
            found["condition"] = self.said["condition"]
        if self.past:
            found["pastAttempts"] = self.past
        return found


class Execution:
    """One run of a flow, in a thread and a folder of its own."""

    def __init__(self, number, project, flow, options, folder, user):  # noqa: PLR0913, PLR0917 - plain data
        self.number, self.project, self.flow, self.options = number, project, flow, options
        self.folder, self.user = folder, user
        self.status, self.killed = "PREPARING", False
        self.submitted = int(time.time() * 1000)
        self.jobs = {name: Job(name, said) for name, said in flow.jobs.items()}
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        self.status = "RUNNING"
        with self.changed:
            while any(job.status not in ENDED for job in self.jobs.values()):
                for job in self.jobs.values():
                    if job.status == "READY" and (end := self.implied(job)) is not None:
                        self.begin(job, end)
                if any(job.status in ("RUNNING", "QUEUED") for job in self.jobs.values()):
                    self.changed.wait()
        # What comes last decides: a node that runs in any case hides the failure before it.
        followed = {name for job in self.jobs.values() for name in job.said["in"]}
        lasts = [job for job in self.jobs.values() if job.name not in followed]
        failed = any(job.status != "SUCCEEDED" for job in lasts)
        self.status = "KILLED" if self.killed else "FAILED" if failed else "SUCCEEDED"

    def implied(self, job):
        """Return whether a job is to run now; None where it is not known yet."""
        before = [self.jobs[name].status for name in job.said["in"]]
        condition = job.said["condition"] or "all_success"
        if any(one not in ENDED for one in before):
            return None
        failed = [one in ("FAILED", "KILLED", "CANCELLED") for one in before]
        runs = {"all_done": True, "one_failed": any(failed), "all_success": not any(failed)}
        runs = runs[condition]
        stopped = self.options.get("failureAction") != "finishPossible" and any(
            one.status == "FAILED" for one in self.jobs.values()
        )
        return runs and not self.killed and not stopped

    def begin(self, job, runs):
        job.started = int(time.time() * 1000)
        if not runs:
            job.status, job.ended = "CANCELLED", job.started
        elif job.said["type"] == "noop":
            job.status, job.ended = "SUCCEEDED", job.started
        else:
            job.status = "RUNNING"
            threading.Thread(target=self.tries, args=(job,), daemon=True).start()

    def tries(self, job):
        most = int(job.said["config"].get("retries", 0))
        while True:
            end = self.once(job)
            with self.changed:
                if end == "SUCCEEDED" or job.attempt >= most or self.killed:
                    job.ended, job.status = int(time.time() * 1000), end
                    self.changed.notify_all()
                    return
                job.past.append({"startTime": job.started, "endTime": int(time.time() * 1000),
                                 "attempt": job.attempt, "status": "FAILED"})  # fmt: skip
                job.attempt, job.status, job.started = job.attempt + 1, "QUEUED", -1
            time.sleep(int(job.said["config"].get("retry.backoff", 0)) / 1000 / 50)
            with self.changed:
                job.started, job.status = int(time.time() * 1000), "RUNNING"

    def once(self, job):
        """Run a job's command; return how it ended."""
        log = job.logs[job.attempt] = bytearray()

        def say(text, level="INFO"):
            stamp = time.strftime("%d-%m-%Y %H:%M:%S UTC", time.gmtime())
            log.extend(f"{stamp} {job.name} {level} - {text}\n".encode())

        say(f"Starting command job {job.name} at {job.started}.")
        properties = {
            "azkaban.flow.execid": str(self.number), "azkaban.job.id": job.name,
            "azkaban.job.attempt": str(job.attempt), **self.flow.config,
            **self.options["flowParameters"], **job.said["config"],
        }  # fmt: skip
        say(f"all props for the job: {properties}")
        try:
            command = resolve(properties)["command"]
        except (KeyError, ValueError) as error:
            say(f"Bad property definition! {error.args[0]}", "ERROR")
            say(f"Wrapping up command job {job.name} with status FAILED.")
            return "FAILED"
        say(f"Command: {command}")
        job.process = subprocess.Popen(
            split(command), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        if self.killed:  # while there was no process yet
            job.process.terminate()
        say(f"Spawned process with id {job.process.pid}")
        for line in job.process.stdout:
            say(line.decode("utf-8", "replace").rstrip("\n"))
        code = job.process.wait()
        job.process.stdout.close()
        words = "successfully" if code == 0 else "unsuccessfully"
        say(f"Process with id {job.process.pid} completed {words} in 0 seconds.")
        end = "SUCCEEDED" if code == 0 else "KILLED" if self.killed else "FAILED"
        say(f"Wrapping up command job {job.name} with status {end}.")
        return end

    def kill(self):
        with self.changed:
            self.killed = True
            self.changed.notify_all()
        for job in self.jobs.values():
            if job.process and job.process.poll() is None:
                job.process.send_signal(signal.SIGTERM)

    def to_json(self):
        with self.changed:
            nodes = [job.to_json() for job in self.jobs.values()]
            return {"project": self.project, "execid": self.number, "submitTime": self.submitted,
                    "submitUser": self.user, "flow": self.flow.name, "flowId": self.flow.name,
                    "status": self.status, "attempt": 0, "nodes": nodes}  # fmt: skip


class AzkabanDouble:
    """The server's state, and its answers by path and verb.

    Parameters
    ----------
    folder
        Where executions have their folders.
    """

    def __init__(self, folder):
        self.folder = folder
        self.users = {"ana": "secret of ana", "ben": "secret of ben"}
        self.sessions, self.projects, self.schedules, self.executions = {}, {}, {}, {}
        self.seen = []  # every request: method, path with query, body
        self.knows_flow_2 = True
        self.lose = ""  # the next answer to that verb is lost on its way
        self.url = ""

    def end_sessions(self):
        self.sessions.clear()

    def answer(self, method, path, words, file=None):  # noqa: PLR0911 - a case a line
        """Return status, content type and body."""
        verb = words.get("ajax") or words.get("action")
        if verb == "login":
            if self.users.get(words.get("username")) != words.get("password"):
                return _json({"error": "Incorrect Login. Username/Password not found."})
            session = str(uuid.uuid4())
            self.sessions[session] = words["username"]
            return _json({"session.id": session, "status": "success"})
        user = self.sessions.get(words.get("session.id"))
        if user is None:
            if file is not None:
                return 200, "text/plain", b"Login error. Need username and password"
            if method == "GET" and verb:
                return _json({"error": "session"})
            told = {"action": "login", "message": "Invalid Session. Need to re-login"}
            return _json({**told, "status": "error"})
        if words.get("download"):
            return self.download(user, words["project"])
        found = getattr(self, f"{path.strip('/')}_{verb}", None)
        assert found, f"the double knows no {verb} at {path}"
        try:
            return found(user, words, **({} if file is None else {"file": file}))
        except Refused as error:
            return _json(error.answer, error.status)

    def project(self, user, name, need="READ"):
        found = self.projects.get(name)
        if found is None:
            raise Refused(f"Project {name} doesn't exist.", project=name)
        if found["owner"] != user:
            raise Refused(f"Permission denied. Need {need} access.", project=name)
        return found

    def download(self, user, name):
        found = self.projects.get(name)
        if found is None or found["owner"] != user:
            return 302, None, b""
        return 200, "application/zip", found["zip"]

    def manager_create(self, user, words):
        name = words["name"]
        if name in self.projects:
            return _json({"message": "Project already exists.", "status": "error"})
        if not words["description"]:
            return _json({"message": "Description cannot be empty.", "status": "error"})
        if not re.fullmatch(r"[a-zA-Z][a-zA-Z_0-9|-]*", name):
            told = "Project names must start with a letter, followed by letters, digits, - or _."
            return _json({"message": told, "status": "error"})
        self.projects[name] = {"id": len(self.projects) + 1, "owner": user, "version": 0,
                               "zip": b"", "flows": {}}  # fmt: skip
        return _json({"path": f"manager?project={name}", "action": "redirect", "status": "success"})

    def manager_upload(self, user, words, file):
        found = self.projects.get(words["project"])
        if found is None:
            raise Refused(f"Installation Failed. Project '{words['project']} doesn't exist.", 410)
        if found["owner"] != user:
            raise Refused(f"Installation Failed. User '{user}' does not have write access.", 400)
        told = {"projectId": str(found["id"]), "version": str(found["version"])}
        try:
            flows = load(file) if self.knows_flow_2 or b"flow20.project" not in file else []
        except Refused as error:
            raise Refused(error.answer["error"], 500, **told) from None
        found["zip"], found["flows"] = file, {flow.name: flow for flow in flows}
        found["version"] += 1
        return _json({**told, "version": str(found["version"])})

    def manager_fetchprojectflows(self, user, words):
        found = self.project(user, words["project"])
        told = [{"flowId": name} for name in found["flows"]]
        return _json({"flows": told, "project": words["project"], "projectId": found["id"]})

    def manager_fetchFlowExecutions(self, user, words):  # noqa: N802 - Azkaban's word
        self.project(user, words["project"])
        found = [
            {"execId": one.number, "flowId": one.flow.name, "status": one.status}
            for one in reversed(self.executions.values())
            if (one.project, one.flow.name) == (words["project"], words["flow"])
        ]
        start, length = int(words["start"]), int(words["length"])
        return _json({"executions": found[start : start + length], "total": len(found)})

    def executor_executeFlow(self, user, words):  # noqa: N802 - likewise
        found = self.project(user, words["project"], "EXECUTE")
        flow = found["flows"].get(words["flow"])
        if flow is None:
            raise Refused(f"Flow '{words['flow']}' cannot be found in project")
        number = len(self.executions) + 1
        folder = self.folder / str(number)
        with zipfile.ZipFile(io.BytesIO(found["zip"])) as archive:
            archive.extractall(folder)
        options = {**words, "flowParameters": _group(words)}
        started = Execution(number, words["project"], flow, options, folder, user)
        self.executions[number] = started
        started.thread.start()
        told = f"Execution queued successfully with exec id {number}"
        return _json({"project": words["project"], "message": told, "flow": flow.name,
                      "execid": number})  # fmt: skip

    def execution(self, user, words):
        found = self.executions.get(int(words["execid"]))
        if found is None:
            raise Refused(f"Cannot find execution '{words['execid']}'")
        if self.projects[found.project]["owner"] != user:
            raise Refused(f"User '{user}' doesn't have READ permissions on {found.project}")
        return found

    def executor_fetchexecflow(self, user, words):
        return _json(self.execution(user, words).to_json())

    def executor_flowInfo(self, user, words):  # noqa: N802 - likewise
        found = self.execution(user, words)
        mail = found.options.get("failureEmails", "").split(",")
        return _json({"flowParam": found.options["flowParameters"], "failureEmails": mail})

    def executor_cancelFlow(self, user, words):  # noqa: N802 - likewise
        found = self.execution(user, words)
        if found.status in ENDED:
            told = f"Execution {found.number} of flow {found.flow.name} isn't running."
            raise Refused(told)
        found.kill()
        return _json({})

    def executor_fetchExecJobLogs(self, user, words):  # noqa: N802 - likewise
        found = self.execution(user, words)
        job = found.jobs.get(words["jobId"])
        if job is None:
            raise Refused(f"Job {words['jobId']} doesn't exist in {found.number}")
        if job.status in ENDED and not job.moved:  # it is on its way to the data base
            job.moved = True
            return 500, "text/html; charset=iso-8859-1", PAGE.encode()
        log = bytes(job.logs.get(int(words.get("attempt", job.attempt)), b""))
        offset = int(words["offset"])
        part = log[offset : offset + int(words["length"])]
        while part and offset + len(part) < len(log) and log[offset + len(part)] & 0xC0 == 0x80:
            part = part[:-1]  # never half a character
        return _json({"length": len(part), "offset": offset, "data": escape(part.decode())})

    def schedule_scheduleCronFlow(self, user, words):  # noqa: N802 - likewise
        found = self.project(user, words["projectName"], "SCHEDULE")
        cron = words["cronExpression"]
        if len(cron.split()) not in (6, 7) or cron.split().count("?") != 1:
            raise Refused(f"This expression <{cron}> can not be parsed to quartz cron.")
        key = found["id"], words["flow"]
        number = self.schedules.get(key, {"scheduleId": len(self.schedules) + 1})["scheduleId"]
        self.schedules[key] = {"scheduleId": number, "cronExpression": cron, "words": words}
        told = f"{words['projectName']}.{words['flow']} scheduled."
        return _json({"message": told, "scheduleId": number, "status": "success"})

    def schedule_fetchSchedule(self, _, words):  # noqa: N802 - likewise
        found = self.schedules.get((int(words["projectId"]), words["flowId"]))
        return _json({"schedule": {**found, "scheduleId": str(found["scheduleId"]), "words": None}}
                     if found else {})  # fmt: skip

    def schedule_removeSched(self, _, words):  # noqa: N802 - likewise
        for key, one in list(self.schedules.items()):
            if one["scheduleId"] == int(words["scheduleId"]):
                del self.schedules[key]
                return _json({"message": "removed from Schedules.", "status": "success"})
        return _json({"message": "does not exist", "status": "error"})


def _group(words):
    found = (re.fullmatch(r"flowOverride\[(.+)\]", key) for key in words)
    return {one[1]: words[one[0]] for one in found if one}


def _json(data, status=200):
    return status, "application/json", json.dumps(data).encode()


def asked(query, headers, body):
    """Return the words of a request, and the file that it brings."""
    kind, file = headers.get("Content-Type", ""), None
    form = body.decode() if kind.startswith("application/x-www") else ""
    words = {
        key: values[-1]
        for text in (query, form)
        for key, values in parse_qs(text, keep_blank_values=True).items()
    }
    if kind.startswith("multipart/"):
        head = f"Content-Type: {kind}\r\n\r\n".encode()
        for part in message_from_bytes(head + body).get_payload():
            name = part.get_param("name", header="content-disposition")
            data = part.get_payload(decode=True)
            if part.get_filename():
                file = data
            else:
                words[name] = data.decode()
    for cookie in headers.get("Cookie", "").split(";"):
        if cookie.strip().startswith("azkaban.browser.session.id="):
            words["session.id"] = cookie.partition("=")[2]
    return words, file


@contextmanager
def azkaban_double(folder):
    """Give a double that listens on loopback."""
    double = AzkabanDouble(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.take(b"")

        def do_POST(self):
            self.take(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def take(self, body):
            double.seen.append((self.command, self.path, body))
            parts = urlsplit(self.path)
            words, file = asked(parts.query, self.headers, body)
            status, told, answer = double.answer(self.command, parts.path, words, file)
            if double.lose and double.lose == words.get("ajax"):
                double.lose = ""
                self.close_connection = True
                return
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/")
            if told:
                self.send_header("Content-Type", told)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    double.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield double
    finally:
        for one in double.executions.values():
            one.kill()
        for one in double.executions.values():
            one.thread.join(180)
        server.shutdown()
        server.server_close()
        thread.join()

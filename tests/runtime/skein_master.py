"""The master of an application of skein's, as far as its store goes, on gRPC's own server."""

from __future__ import annotations

from concurrent import futures
from contextlib import contextmanager

import grpc
import skein
from skein.proto import skein_pb2, skein_pb2_grpc

JOB, CONTAINER = "20250101-000000-abcde", "container_1_2_3"


class MasterDouble(skein_pb2_grpc.AppMasterServicer):
    """A double of the application's master: its store, by skein's own protocol."""

    def __init__(self, credentials):
        self.credentials = credentials
        self.kept = {}
        self.calls = 0

    def PutKey(self, request, context):  # noqa: ARG002, N802 - as gRPC calls it
        self.kept[request.key] = request.value
        return skein_pb2.PutKeyResponse()

    def GetRange(self, request, context):  # noqa: N802 - likewise
        self.calls += 1
        if request.start.endswith("refused"):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        keys = request.result_type == skein_pb2.GetRangeRequest.KEYS
        found = [
            skein_pb2.KeyValue(key=name, value=b"" if keys else value)
            for name, value in sorted(self.kept.items())
            if request.start <= name < request.end
        ]
        return skein_pb2.GetRangeResponse(count=len(found), result=found)

    def DeleteRange(self, request, context):  # noqa: ARG002, N802 - likewise
        found = [name for name in self.kept if request.start <= name < request.end]
        items = [skein_pb2.KeyValue(key=name, value=self.kept.pop(name)) for name in found]
        shown = items if request.result_type == skein_pb2.DeleteRangeRequest.ITEMS else []
        return skein_pb2.DeleteRangeResponse(count=len(items), result=shown)


@contextmanager
def serve(credentials):
    """Run a master on this machine; put its credentials into a folder as skein does.

    Yields
    ------
    MasterDouble, int
        The master, and its port.
    """
    security = skein.Security.new_credentials()
    cert, secret = security._get_bytes("cert"), security._get_bytes("key")
    (credentials / ".skein.crt").write_bytes(cert)
    (credentials / ".skein.pem").write_bytes(secret)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    double = MasterDouble(credentials)
    skein_pb2_grpc.add_AppMasterServicer_to_server(double, server)
    trusted = grpc.ssl_server_credentials([(secret, cert)], cert, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", trusted)
    server.start()
    yield double, port
    server.stop(None).wait()

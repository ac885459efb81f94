// What Zeppelin 0.10 to 0.12 and an interpreter process say to each other: TSocket, unframed, strict
// binary protocol, both ways. Names, field ids and types are those of the wire.

struct RemoteInterpreterContext {
  1: string noteId
  2: string noteName
  3: string paragraphId
  4: string replName
  5: string paragraphTitle
  6: string paragraphText
  7: string authenticationInfo
  8: string config
  9: string gui
  10: string noteGui
  11: map<string, string> localProperties
}

struct RemoteInterpreterResultMessage {
  1: string type
  2: string data
}

struct RemoteInterpreterResult {
  1: string code
  2: list<RemoteInterpreterResultMessage> msg
  3: string config
  4: string gui
  5: string noteGui
}

struct RemoteApplicationResult {
  1: bool success
  2: string msg
}

struct InterpreterCompletion {
  1: string name
  2: string value
  3: string meta
}

exception InterpreterRPCException {
  1: string errorMessage
}

struct RegisterInfo {
  1: string host
  2: i32 port
  3: string interpreterGroupId
}

struct OutputUpdateEvent {
  1: string noteId
  2: string paragraphId
  3: i32 index
  4: string type
  5: string data
  6: string appId
}

struct OutputUpdateAllEvent {
  1: string noteId
  2: string paragraphId
  3: list<RemoteInterpreterResultMessage> msg
}

struct ParagraphInfo {
  1: string noteId
  2: string paragraphId
  3: string paragraphTitle
  4: string paragraphText
}

service RemoteInterpreterService {
  void createInterpreter(1: string intpGroupId, 2: string sessionId, 3: string className,
    4: map<string, string> properties, 5: string userName) throws (1: InterpreterRPCException ex)
  void init(1: map<string, string> properties) throws (1: InterpreterRPCException ex)
  void open(1: string sessionId, 2: string className) throws (1: InterpreterRPCException ex)
  void close(1: string sessionId, 2: string className) throws (1: InterpreterRPCException ex)
  void reconnect(1: string host, 2: i32 port) throws (1: InterpreterRPCException ex)
  RemoteInterpreterResult interpret(1: string sessionId, 2: string className, 3: string st,
    4: RemoteInterpreterContext interpreterContext) throws (1: InterpreterRPCException ex)
  void cancel(1: string sessionId, 2: string className,
    3: RemoteInterpreterContext interpreterContext) throws (1: InterpreterRPCException ex)
  i32 getProgress(1: string sessionId, 2: string className,
    3: RemoteInterpreterContext interpreterContext) throws (1: InterpreterRPCException ex)
  string getFormType(1: string sessionId, 2: string className)
    throws (1: InterpreterRPCException ex)
  list<InterpreterCompletion> completion(1: string sessionId, 2: string className, 3: string buf,
    4: i32 cursor, 5: RemoteInterpreterContext interpreterContext)
    throws (1: InterpreterRPCException ex)
  void shutdown()
  string getStatus(1: string sessionId, 2: string jobId) throws (1: InterpreterRPCException ex)
  list<string> resourcePoolGetAll() throws (1: InterpreterRPCException ex)
  binary resourceGet(1: string sessionId, 2: string paragraphId, 3: string resourceName)
    throws (1: InterpreterRPCException ex)
  bool resourceRemove(1: string sessionId, 2: string paragraphId, 3: string resourceName)
    throws (1: InterpreterRPCException ex)
  binary resourceInvokeMethod(1: string sessionId, 2: string paragraphId, 3: string resourceName,
    4: string invokeMessage) throws (1: InterpreterRPCException ex)
  void angularObjectUpdate(1: string name, 2: string sessionId, 3: string paragraphId,
    4: string object) throws (1: InterpreterRPCException ex)
  void angularObjectAdd(1: string name, 2: string sessionId, 3: string paragraphId,
    4: string object) throws (1: InterpreterRPCException ex)
  void angularObjectRemove(1: string name, 2: string sessionId, 3: string paragraphId)
    throws (1: InterpreterRPCException ex)
  void angularRegistryPush(1: string registry) throws (1: InterpreterRPCException ex)
  RemoteApplicationResult loadApplication(1: string applicationInstanceId, 2: string packageInfo,
    3: string sessionId, 4: string paragraphId) throws (1: InterpreterRPCException ex)
  RemoteApplicationResult unloadApplication(1: string applicationInstanceId)
    throws (1: InterpreterRPCException ex)
  RemoteApplicationResult runApplication(1: string applicationInstanceId)
    throws (1: InterpreterRPCException ex)
}

service RemoteInterpreterEventService {
  void registerInterpreterProcess(1: RegisterInfo registerInfo)
    throws (1: InterpreterRPCException ex)
  void unRegisterInterpreterProcess(1: string intpGroupId) throws (1: InterpreterRPCException ex)
  void updateOutput(1: OutputUpdateEvent event) throws (1: InterpreterRPCException ex)
  void updateAllOutput(1: OutputUpdateAllEvent event) throws (1: InterpreterRPCException ex)
  void checkpointOutput(1: string noteId, 2: string paragraphId)
    throws (1: InterpreterRPCException ex)
  void sendParagraphInfo(1: string intpGroupId, 2: string json)
    throws (1: InterpreterRPCException ex)
  list<ParagraphInfo> getParagraphList(1: string user, 2: string noteId)
    throws (1: InterpreterRPCException ex)
}

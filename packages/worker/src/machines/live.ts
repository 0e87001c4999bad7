import type { LiveMachine } from "./contract.ts";
import { attachExec } from "./exec/attach.ts";
import { forgetExec, resizeExec, signalExec, writeExecInput } from "./exec/control.ts";
import { KernelKills } from "./exec/kernel-kills.ts";
import { listExecs } from "./exec/list.ts";
import { startExec } from "./exec/start.ts";
import { ExecWaits } from "./exec/wait.ts";
import { makeFolder, moveFile, removeFile } from "./files/change.ts";
import { listFiles, readFile, readTree, statFile, watchFiles } from "./files/read.ts";
import { writeFile, writeTree } from "./files/write.ts";
import { readMemoryUse } from "./memory.ts";
import { dialPort, listPorts } from "./ports/dial.ts";
import type { MachineSession } from "./session/session.ts";

export interface LiveParts {
  session: MachineSession;
  outerAddress: string | null;
  /** Variables that its network needs. */
  networkEnviron: Readonly<Record<string, string>>;
  memoryGroup: string | null;
  saveDisk: LiveMachine["saveDisk"];
}

/** A machine's verbs over its session. */
export function makeLiveMachine(parts: LiveParts): LiveMachine {
  const { session, outerAddress, networkEnviron, memoryGroup, saveDisk } = parts;
  const kills = new KernelKills(memoryGroup);
  const waits = new ExecWaits(session, kills);
  return {
    id: session.id,
    outerAddress,
    startedAt: session.startedAt,
    ended: session.ended,
    get agent() {
      return session.agent;
    },
    startExec: (start) => {
      kills.begin(start.id);
      return startExec(session, start, networkEnviron);
    },
    attachExec: (id, from) => attachExec(session, id, from),
    waitExec: (id, options) => waits.wait(id, options),
    writeExecInput: (id, source) => writeExecInput(session, id, source),
    signalExec: (id, signal, tree) => {
      if (signal === "KILL") kills.excuse(id);
      return signalExec(session, id, signal, tree);
    },
    resizeExec: (id, rows, columns) => resizeExec(session, id, rows, columns),
    listExecs: () => listExecs(session),
    forgetExec: (id) => forgetExec(session, id),
    writeFile: (path, source, options) => writeFile(session, path, source, options),
    readFile: (path, options) => readFile(session, path, options),
    statFile: (path, options) => statFile(session, path, options),
    listFiles: (path, options) => listFiles(session, path, options),
    makeFolder: (path, options) => makeFolder(session, path, options),
    moveFile: (from, to, options) => moveFile(session, from, to, options),
    removeFile: (path, options) => removeFile(session, path, options),
    watchFiles: (path, options) => watchFiles(session, path, options),
    writeTree: (path, source, options) => writeTree(session, path, source, options),
    readTree: (path, options) => readTree(session, path, options),
    dialPort: (port) => dialPort(session, port),
    listPorts: () => listPorts(session),
    saveDisk,
    memoryBytes: () => readMemoryUse(memoryGroup),
    stop: (ms) => session.stop(ms),
  };
}

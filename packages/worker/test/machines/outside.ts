import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { findAgent } from "../../src/agent/find.ts";
import type { LiveMachine } from "../../src/machines/contract.ts";
import { makeLiveMachine } from "../../src/machines/live.ts";
import { MachineSession } from "../../src/machines/session/session.ts";
import { randomId } from "./support.ts";

/** Mounts, processes and networks of its own, so that an attempt hits nothing but the files that a test made. */
const THROWAWAY = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--ipc", "--uts"];

export interface Outside {
  /** The verbs of a machine, answered by the agent as the host's root among the host's files. */
  machine: LiveMachine;
  close(): Promise<void>;
}

/** A machine whose isolation is switched off: what a machine refuses must succeed here, or the attempt proves nothing. */
export async function startOutside(): Promise<Outside> {
  const id = randomId("m");
  const child = spawn("unshare", [...THROWAWAY, findAgent() ?? "", "machine"], {
    stdio: ["pipe", "pipe", "ignore"],
    cwd: "/",
  });
  const folder = mkdtempSync(`${tmpdir()}/sandpool-outside-`);
  const server = createServer();
  await once(server.listen(`${folder}/s`), "listening");
  const socket = connect(`${folder}/s`);
  const [theirs] = (await once(server, "connection")) as [Socket];
  child.stdout.pipe(theirs).pipe(child.stdin);
  for (const end of [socket, theirs, child.stdin]) end.on("error", () => undefined);
  const shim = { state: "running" as const, pid: child.pid ?? null, started_at: 1, exit: null, version: "0" };
  const adopt = async (): Promise<never> => Promise.reject(new Error("the agent has ended"));
  const session = new MachineSession({ id, socket, shim, agent: {} }, { driver: { adopt }, warn: () => undefined });
  await session.ask({
    op: "machine",
    id,
    hostname: "outside",
    memory_bytes: null,
    environ: {},
    wall_clock_ms: Date.now(),
  });
  const saveDisk = (): Promise<never> => Promise.reject(new Error("there is no disk"));
  const parts = { session, outerAddress: null, networkEnviron: {}, memoryGroup: null, saveDisk };
  return {
    machine: makeLiveMachine(parts),
    close: async () => {
      session.close(null);
      const ended = once(child, "exit");
      if (child.exitCode === null && child.signalCode === null) {
        child.kill("SIGKILL");
        await ended;
      }
      theirs.destroy();
      server.close();
      rmSync(folder, { recursive: true });
    },
  };
}

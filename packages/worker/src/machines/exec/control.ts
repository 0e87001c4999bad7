import type { Readable } from "node:stream";
import { feed } from "../session/feed.ts";
import { said } from "../session/reply.ts";
import type { MachineSession } from "../session/session.ts";

/** Feeds standard input in order, and closes it at the source's end. A program that reads no more ends it early. */
export async function writeExecInput(
  session: MachineSession,
  id: string,
  source: Readable,
): Promise<{ bytes: number }> {
  const { head } = await feed(session, { op: "exec.input", id }, source);
  return { bytes: said.integer(head.bytes, "bytes") };
}

export async function signalExec(
  session: MachineSession,
  id: string,
  signal: string,
  tree: boolean,
): Promise<{ signalled: number }> {
  // KILL to a tree answers when nothing is left.
  const { head } = await session.askOnce({ op: "exec.signal", id, signal, tree });
  return { signalled: said.integer(head.signalled, "signalled") };
}

export async function resizeExec(session: MachineSession, id: string, rows: number, columns: number): Promise<void> {
  await session.ask({ op: "exec.resize", id, rows, columns });
}

export async function forgetExec(session: MachineSession, id: string): Promise<void> {
  await session.ask({ op: "exec.forget", id });
}

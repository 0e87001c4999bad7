import type { Readable } from "node:stream";
import type { FileEntry, ListFilesOptions, ReadFileOptions } from "../contract.ts";
import { fetchStream } from "../session/fetch.ts";
import { readableOf } from "../session/inlet.ts";
import { said } from "../session/reply.ts";
import type { MachineSession } from "../session/session.ts";
import { readEntry } from "./entry.ts";

export async function readFile(
  session: MachineSession,
  path: string,
  { offset = 0, length = null, user = null }: ReadFileOptions,
): Promise<{ stat: FileEntry; content: Readable }> {
  const { reply, content } = await fetchStream(session, { op: "file.read", path, offset, length, user });
  try {
    return { stat: readEntry(reply.head.stat, "stat"), content };
  } catch (error) {
    content.destroy();
    throw error;
  }
}

export async function statFile(
  session: MachineSession,
  path: string,
  { follow = true, user = null }: { follow?: boolean; user?: string | null },
): Promise<FileEntry> {
  const { head } = await session.ask({ op: "file.stat", path, follow, user });
  return readEntry(head.entry, "entry");
}

export async function listFiles(
  session: MachineSession,
  path: string,
  { depth = 1, after = null, user = null }: ListFilesOptions,
): Promise<{ entries: FileEntry[]; more: boolean }> {
  const { head } = await session.ask({ op: "file.list", path, depth, after, user });
  return { entries: said.list(head.entries, "entries", readEntry), more: head.more === true };
}

/** JSON lines of changes; destroying the stream ends the watch. */
export async function watchFiles(
  session: MachineSession,
  path: string,
  { recursive = false, user = null }: { recursive?: boolean; user?: string | null },
): Promise<Readable> {
  const { content } = await fetchStream(session, { op: "file.watch", path, recursive, user });
  return content;
}

/**
 * A tar out. What stands in the way at once (no such folder) rejects; what comes later is the stream's error.
 * The agent replies after the last byte, so that the first ones, or the end, are the sign that it works.
 */
export async function readTree(
  session: MachineSession,
  path: string,
  { user = null }: { user?: string | null },
): Promise<Readable> {
  return await session.again("tree.read", async (channel) => {
    const inlet = channel.openInlet();
    const begun = new Promise<void>((resolve) => {
      inlet.onNews = resolve;
    });
    const asked = channel.ask({ op: "tree.read", path, s: inlet.id, user }, { timeoutMs: null });
    asked.catch(() => undefined);
    await Promise.race([begun, asked]);
    // Its error came before the reply that says the same with details.
    if (inlet.ended !== null && inlet.ended !== "whole") await asked;
    return readableOf(inlet);
  });
}

import type { Readable } from "node:stream";
import type { WriteFileOptions } from "../contract.ts";
import { feed } from "../session/feed.ts";
import { said } from "../session/reply.ts";
import type { MachineSession } from "../session/session.ts";

/** Resolves once the content is safely there under its name. The source is not destroyed where it fails. */
export async function writeFile(
  session: MachineSession,
  path: string,
  source: Readable,
  options: WriteFileOptions,
): Promise<{ bytes: number; sha256: string }> {
  const { mode = null, user = null, size = null, parents = true, signal } = options;
  const { head } = await feed(session, { op: "file.write", path, mode, user, size, parents }, source, signal);
  return { bytes: said.integer(head.bytes, "bytes"), sha256: said.text(head.sha256, "sha256") };
}

/** A tar in. */
export async function writeTree(
  session: MachineSession,
  path: string,
  source: Readable,
  options: { user?: string | null },
): Promise<{ entries: number; bytes: number }> {
  const { head } = await feed(session, { op: "tree.write", path, user: options.user ?? null }, source);
  return { entries: said.integer(head.entries, "entries"), bytes: said.integer(head.bytes, "bytes") };
}

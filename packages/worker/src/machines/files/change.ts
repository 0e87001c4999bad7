import type { MachineSession } from "../session/session.ts";

export async function makeFolder(
  session: MachineSession,
  path: string,
  { parents = false, mode = null, user = null }: { parents?: boolean; mode?: number | null; user?: string | null },
): Promise<void> {
  const head = { op: "file.make", path, parents, mode, user };
  // Only with `parents` a folder that is there already is no error.
  await (parents ? session.ask(head) : session.askOnce(head));
}

export async function moveFile(
  session: MachineSession,
  from: string,
  to: string,
  { replace = false, user = null }: { replace?: boolean; user?: string | null },
): Promise<void> {
  await session.askOnce({ op: "file.move", from, to, replace, user });
}

export async function removeFile(
  session: MachineSession,
  path: string,
  { recursive = false, user = null }: { recursive?: boolean; user?: string | null },
): Promise<void> {
  // A large tree takes its time.
  await session.askOnce({ op: "file.remove", path, recursive, user }, { timeoutMs: null });
}

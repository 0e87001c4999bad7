import { randomUUID } from "node:crypto";
import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../host/remove-tree.ts";
import type { Storage, StoredPart } from "./contract.ts";
import { diskBytes } from "./measure.ts";
import type { CachedKind, Uses } from "./uses.ts";

/** Where a kind lies, which names in it are things of that kind, and what tells when one was used last. */
const PLACES = {
  archives: { folder: ["archives", "trees"], name: /^[0-9a-f]{64}$/, mark: "archive.json" },
  layers: { folder: ["layers"], name: /^[0-9a-f]{16,}$/, mark: "." },
} as const;

/** Looks after archives and layers under `dataDir`, which never change once they are there, and measures machines. */
export function openStorage(dataDir: string, uses: Uses): Storage {
  // What never changes is measured once.
  const known = new Map<string, number>();
  const folderOf = (kind: CachedKind): string => join(dataDir, ...PLACES[kind].folder);

  const measure = async (kind: CachedKind, id: string): Promise<number> => {
    const key = `${kind} ${id}`;
    const bytes = known.get(key) ?? (await diskBytes(join(folderOf(kind), id)));
    known.set(key, bytes);
    return bytes;
  };

  const cached = async (kind: CachedKind): Promise<StoredPart[]> => {
    const names = await readdir(folderOf(kind)).catch(() => []);
    const parts: StoredPart[] = [];
    for (const id of names.filter((name) => PLACES[kind].name.test(name))) {
      const mark = await stat(markOf(dataDir, kind, id)).catch(() => null);
      if (mark === null) continue;
      parts.push({ kind, id, bytes: await measure(kind, id), usedAt: mark.mtimeMs, held: uses.isHeld(kind, id) });
    }
    return parts;
  };

  return {
    parts: async () => [...(await cached("archives")), ...(await cached("layers")), ...(await machines(dataDir))],
    remove: async (kind, id) => {
      // Out of sight by one rename; a crash after it leaves the rest to the next start.
      const incoming = join(dataDir, kind, "incoming");
      await mkdir(incoming, { recursive: true, mode: 0o711 });
      const trash = join(incoming, randomUUID());
      if (uses.isHeld(kind, id)) return false;
      await rename(join(folderOf(kind), id), trash).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
      });
      if (kind === "archives") await forgetOwners(dataDir, id);
      known.delete(`${kind} ${id}`);
      await removeTree(trash);
      return true;
    },
  };
}

/** The file or folder whose time says when an archive or layer was used last. */
export function markOf(dataDir: string, kind: CachedKind, id: string): string {
  return join(dataDir, ...PLACES[kind].folder, id, PLACES[kind].mark);
}

async function forgetOwners(dataDir: string, sha256: string): Promise<void> {
  const owners = join(dataDir, "archives", "owners");
  for (const owner of await readdir(owners).catch(() => [])) await rm(join(owners, owner, sha256), { force: true });
}

async function machines(dataDir: string): Promise<StoredPart[]> {
  const folder = join(dataDir, "machines");
  const ids = (await readdir(folder).catch(() => [])).filter((name) => /^m[0-9a-z]{20}$/.test(name));
  return Promise.all(
    ids.map(async (id) => {
      const found = await stat(join(folder, id)).catch(() => null);
      const bytes = await diskBytes(join(folder, id));
      // With a layer it is on this host, running or being made or removed.
      const held = (await stat(join(folder, id, "layer")).catch(() => null)) !== null;
      return { kind: "machines" as const, id, bytes, usedAt: found?.mtimeMs ?? Date.now(), held };
    }),
  );
}

import type { Collected, Storage as StorageReply } from "@sandpool/protocol";
import type { ImageDescription, ImageStore, Storage, StoredPart } from "@sandpool/worker";
import type { Logger } from "pino";
import { diskOf } from "../machines/admission.ts";
import { removeDisk } from "../machines/disk.ts";
import type { MachineRegistry } from "../machines/registry.ts";
import type { ServerLimits } from "../options.ts";

/** What was used so lately is not removed: somebody may be about to use it again. */
const LATELY_MS = 10 * 60_000;

export interface StorageContext {
  storage: Storage;
  images: ImageStore;
  registry: MachineRegistry;
  limits: ServerLimits;
  dataDir: string;
  logger: Logger;
}

/** Something that can be removed, because nothing uses it and it can be had again. */
interface Removable {
  kind: Collected["removed"][number]["kind"];
  id: string;
  bytes: number;
  usedAt: number;
  remove(): Promise<boolean>;
}

/** What the data folder keeps, by kind. */
export async function showStorage(context: StorageContext): Promise<StorageReply> {
  const [parts, images, disk] = await Promise.all([
    context.storage.parts(),
    keptImages(context),
    diskOf(context.dataDir),
  ]);
  const sum = (kind: string, of: readonly { bytes: number | null }[]) => ({
    kind: kind as StorageReply["parts"][number]["kind"],
    count: of.length,
    bytes: of.reduce((total, { bytes }) => total + (bytes ?? 0), 0),
  });
  const ofKind = (kind: StoredPart["kind"]) => parts.filter((part) => part.kind === kind);
  return {
    disk: { total: disk.totalBytes, free: disk.freeBytes, low_water: context.limits.diskLowWaterBytes },
    parts: [
      sum("archives", ofKind("archives")),
      sum("layers", ofKind("layers")),
      sum("images", images),
      sum("machines", ofKind("machines")),
    ],
  };
}

/** Removes what nothing uses, least recently used first; with `dryRun` it only says what that would be. */
export async function collect(context: StorageContext, { dryRun }: { dryRun: boolean }): Promise<Collected> {
  return removeFirst(await removables(context), dryRun, () => true);
}

/** The same until what is kept is below the cap and the disk has room again. */
export async function collectToCap(context: StorageContext): Promise<Collected> {
  const { storage, limits, dataDir } = context;
  const cached = (await storage.parts()).filter((part) => part.kind !== "machines");
  const images = await keptImages(context);
  let keptBytes = [...cached, ...images].reduce((total, { bytes }) => total + (bytes ?? 0), 0);
  let { freeBytes } = await diskOf(dataDir);
  const isOver = () => keptBytes > limits.storageCapBytes || freeBytes < limits.diskLowWaterBytes;
  if (!isOver()) return { removed: [], bytes: 0 };
  return removeFirst(await removables(context), false, (bytes) => {
    const wasOver = isOver();
    keptBytes -= bytes;
    freeBytes += bytes;
    return wasOver;
  });
}

async function removeFirst(
  parts: Removable[],
  dryRun: boolean,
  isWanted: (bytes: number) => boolean,
): Promise<Collected> {
  const removed: Collected["removed"] = [];
  for (const part of parts.sort((a, b) => a.usedAt - b.usedAt)) {
    if (!isWanted(part.bytes)) break;
    if (!dryRun && !(await part.remove())) continue;
    removed.push({ kind: part.kind, id: part.id, bytes: part.bytes });
  }
  return { removed, bytes: removed.reduce((total, { bytes }) => total + bytes, 0) };
}

async function removables(context: StorageContext): Promise<Removable[]> {
  const { storage, registry, dataDir } = context;
  const before = Date.now() - LATELY_MS;
  const found: Removable[] = [];
  for (const part of await storage.parts()) {
    const { kind, id } = part;
    if (part.usedAt > before || part.held) continue;
    if (kind !== "machines") found.push({ ...part, remove: () => storage.remove(kind, id) });
    else if (registry.byId(id) === null) {
      found.push({ ...part, remove: () => removeDisk(dataDir, id).then(() => true) });
    }
  }
  for (const image of await keptImages(context)) {
    const usedAt = Date.parse(image.created_at ?? "") || 0;
    // An imported one cannot be had again.
    if (image.kind === "imported" || usedAt > before || usersOf(registry, image).length > 0) continue;
    const remove = () => removeImage(context, image);
    found.push({ kind: "images", id: image.id, bytes: image.bytes ?? 0, usedAt, remove });
  }
  return found;
}

type KeptImage = ImageDescription & { id: string };

/** Each image once, whatever names it has. */
async function keptImages({ images }: StorageContext): Promise<KeptImage[]> {
  const kept = (await images.list()).filter((image): image is KeptImage => image.id !== null && image.kind !== "host");
  const byId = new Map<string, KeptImage>();
  // One that was imported under any of its names counts as such.
  for (const image of kept) if (byId.get(image.id)?.kind !== "imported") byId.set(image.id, image);
  return [...byId.values()];
}

async function removeImage({ images, registry, logger }: StorageContext, image: KeptImage): Promise<boolean> {
  try {
    await images.remove(image.id, usersOf(registry, image));
    return true;
  } catch (error) {
    logger.warn({ err: error, image: image.id }, "an image was not removed");
    return false;
  }
}

function usersOf(registry: MachineRegistry, image: KeptImage): string[] {
  return registry
    .all()
    .filter(({ record }) => record.plan.imageId === image.id)
    .map(({ record }) => record.name);
}

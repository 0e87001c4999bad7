import { statfs } from "node:fs/promises";
import { formatSize, SandpoolError } from "@sandpool/protocol";
import { type FailureParts, fail } from "../fail.ts";

/** `image_failed`: what was wrong with the image, its source or its build. */
export function imageFailed(problem: string, parts: FailureParts = {}): SandpoolError {
  return fail("image_failed", problem, parts);
}

/** A tar's entry that breaks a rule; its name is shown escaped and shortened. */
export function refusedEntry(problem: string, entry: string): SandpoolError {
  const shown = entry.slice(0, 200);
  return imageFailed(`The image was refused: ${problem} (entry ${JSON.stringify(shown)}).`, {
    hint: "Images hold files, folders, symbolic and hard links; make it again without that entry.",
    details: { entry: shown },
  });
}

/** Errors of the file system in the words of this part; others as they are. */
export function explainDisk(error: unknown): unknown {
  if (error instanceof SandpoolError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT") return diskFull("The host's disk is full.", {}, error);
  if (code === "ENAMETOOLONG" || code === "EMLINK" || code === "ELOOP")
    return imageFailed(`The image cannot be unpacked: ${code}.`, { details: { reason: message.slice(0, 300) } });
  return error;
}

/** @throws `disk_full` where less than `leastBytes` are free, with the figures */
export async function checkFreeDisk(folder: string, leastBytes: number): Promise<void> {
  const disk = await statfs(folder);
  const freeBytes = disk.bavail * disk.bsize;
  if (freeBytes >= leastBytes) return;
  throw diskFull(
    `The disk of the data folder has ${formatSize(freeBytes)} free; ${formatSize(leastBytes)} are needed for this image and what must stay free.`,
    { free_bytes: freeBytes, needed_bytes: leastBytes },
  );
}

function diskFull(message: string, details: Record<string, unknown>, cause?: unknown): SandpoolError {
  return fail("disk_full", message, {
    hint: "Free some space; `sandpool gc` removes what nothing uses, `sandpool image remove NAME` an image.",
    details,
    cause,
  });
}

import { readFileSync } from "node:fs";

export interface MountEntry {
  root: string;
  point: string;
  options: string[];
  type: string;
  superOptions: string[];
}

export function readMounts(file = "/proc/self/mountinfo"): MountEntry[] {
  return parseMounts(readFileSync(file, "utf8"));
}

/** See proc(5), "mountinfo": optional fields end with a lone `-`. */
export function parseMounts(text: string): MountEntry[] {
  const entries: MountEntry[] = [];
  for (const line of text.split("\n")) {
    const [before = "", after] = line.split(" - ", 2);
    if (after === undefined) continue;
    const fields = before.split(" ");
    const [type = "", , superOptions = ""] = after.split(" ");
    entries.push({
      root: unescapePath(fields[3] ?? ""),
      point: unescapePath(fields[4] ?? ""),
      options: (fields[5] ?? "").split(","),
      type,
      superOptions: superOptions.split(","),
    });
  }
  return entries;
}

/** Mount points strictly below `folder`, outermost first. */
export function mountsBelow(folder: string, mounts: readonly MountEntry[]): string[] {
  const prefix = folder.endsWith("/") ? folder : `${folder}/`;
  const points = mounts.map((mount) => mount.point).filter((point) => point.startsWith(prefix));
  return [...new Set(points)].sort((left, right) => left.length - right.length);
}

/** The mount that holds `path`: the last mounted of those with the longest mount point. */
export function mountOf(path: string, mounts: readonly MountEntry[]): MountEntry | undefined {
  let found: MountEntry | undefined;
  for (const mount of mounts) {
    const inside = mount.point === "/" || path === mount.point || path.startsWith(`${mount.point}/`);
    if (inside && (found === undefined || mount.point.length >= found.point.length)) found = mount;
  }
  return found;
}

function unescapePath(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}

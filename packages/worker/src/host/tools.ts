import { accessSync, constants, readFileSync } from "node:fs";
import { runTool, TOOL_PATH } from "./run.ts";

export type ToolName = "runc" | "crun" | "newuidmap" | "newgidmap" | "uv";

export interface ToolReport {
  name: ToolName;
  path: string | null;
  version: string | null;
  /** The command that installs it, null when it is there. */
  install: string | null;
}

const PACKAGES: Record<ToolName, { debian: string; fedora: string; other: string }> = {
  runc: { debian: "runc", fedora: "runc", other: "runc" },
  crun: { debian: "crun", fedora: "crun", other: "crun" },
  newuidmap: { debian: "uidmap", fedora: "shadow-utils", other: "shadow-uidmap" },
  newgidmap: { debian: "uidmap", fedora: "shadow-utils", other: "shadow-uidmap" },
  uv: { debian: "", fedora: "", other: "" },
};

export async function reportTool(name: ToolName): Promise<ToolReport> {
  const path = findTool(name);
  if (path === null) return { name, path, version: null, install: installCommand(name) };
  return { name, path, version: await readVersion(name, path), install: null };
}

/** Absolute path of a tool, null when it is not installed. */
export function findTool(name: string): string | null {
  const folders = [
    ...TOOL_PATH.split(":"),
    ...(process.env.PATH ?? "").split(":").filter((part) => part.startsWith("/")),
  ];
  for (const folder of folders) {
    try {
      accessSync(`${folder}/${name}`, constants.X_OK);
      return `${folder}/${name}`;
    } catch {
      // Not in this folder.
    }
  }
  return null;
}

export function installCommand(name: ToolName, osRelease = readOsRelease()): string {
  if (name === "uv") return "pip install uv";
  const family = osRelease.match(/^ID(?:_LIKE)?=.*$/gm)?.join(" ") ?? "";
  if (/debian|ubuntu/.test(family)) return `apt-get install -y ${PACKAGES[name].debian}`;
  if (/fedora|rhel|centos/.test(family)) return `dnf install -y ${PACKAGES[name].fedora}`;
  if (/arch/.test(family)) return `pacman -S ${PACKAGES[name].fedora === "shadow-utils" ? "shadow" : name}`;
  if (/alpine/.test(family)) return `apk add ${PACKAGES[name].other}`;
  return `install ${PACKAGES[name].debian} with the system's package manager`;
}

async function readVersion(name: ToolName, path: string): Promise<string | null> {
  // newuidmap and newgidmap know no --version.
  if (name === "newuidmap" || name === "newgidmap") return null;
  const finished = await runTool(path, ["--version"]);
  return finished.code === 0
    ? (finished.stdout
        .split("\n")[0]
        ?.replace(/^.*?(\d)/, "$1")
        .trim() ?? null)
    : null;
}

function readOsRelease(): string {
  try {
    return readFileSync("/etc/os-release", "utf8");
  } catch {
    return "";
  }
}

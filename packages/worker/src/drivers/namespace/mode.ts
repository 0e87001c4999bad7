import { type CgroupHierarchy, detectCgroups } from "../../host/cgroups/detect.ts";
import { tryGroups } from "../../host/cgroups/try.ts";
import { readNumber } from "../../host/limits.ts";
import { readMounts } from "../../host/mountinfo.ts";
import { findTool, installCommand } from "../../host/tools.ts";
import { giveSubordinateIds, readSubordinateIds } from "../../host/uids/subordinate.ts";
import { findRuntime, isKnownVulnerable, type OciRuntime } from "./runtime.ts";

/** What the namespace driver can use on this host. */
export interface NamespaceMode {
  mode: "root" | "rootless";
  runtime: OciRuntime;
  /** Null in rootless mode and where no memory controller is writable. */
  cgroups: CgroupHierarchy | null;
  warnings: string[];
}

export interface Unavailable {
  reason: string;
  hint: string;
}

/** Looks at the host once. What is missing is named exactly, with the command that mends it. */
export async function detectMode(key: string): Promise<NamespaceMode | Unavailable> {
  if (process.platform !== "linux") {
    return {
      reason: `the namespace driver needs Linux, this is ${process.platform}`,
      hint: "run the server on a Linux host",
    };
  }
  const runtime = await findRuntime();
  if (runtime === null) {
    return { reason: "neither runc nor crun is installed", hint: installCommand("runc") };
  }
  const root = process.geteuid?.() === 0;
  if (runtime.name === "crun" && isHybrid()) {
    return { reason: "crun refuses hosts with both cgroup versions mounted, as here", hint: installCommand("runc") };
  }
  const missing = missingNamespaces() ?? (root ? null : missingRootless());
  if (missing !== null) return missing;
  const warnings = isKnownVulnerable(runtime)
    ? [`runc ${runtime.version} predates 1.1.12 and CVE-2024-21626; upgrade it (${installCommand("runc")})`]
    : [];
  return root ? await rootMode(runtime, warnings, key) : rootlessMode(runtime, warnings);
}

async function rootMode(runtime: OciRuntime, warnings: string[], key: string): Promise<NamespaceMode> {
  const cgroups = detectCgroups();
  const problem = cgroups === null ? "no memory cgroup hierarchy is mounted writable" : await tryGroups(cgroups, key);
  if (problem === null) return { mode: "root", runtime, cgroups, warnings };
  warnings.push(
    `no cgroups (${problem}): memory is bounded by RLIMIT_AS and processes by RLIMIT_NPROC of each environment only`,
  );
  return { mode: "root", runtime, cgroups: null, warnings };
}

function rootlessMode(runtime: OciRuntime, warnings: string[]): NamespaceMode {
  return {
    mode: "rootless",
    runtime,
    cgroups: null,
    warnings: [
      ...warnings,
      "rootless: all sandboxes of this user share one range of host uids, and root inside is this user outside",
      "rootless: no cgroups; memory is bounded by RLIMIT_AS and processes by RLIMIT_NPROC of each environment, not for the whole sandbox",
    ],
  };
}

function isHybrid(): boolean {
  const types = new Set(readMounts().map((mount) => mount.type));
  return types.has("cgroup") && types.has("cgroup2");
}

/** Sysctls that switch user namespaces off; absent files mean the kernel has no such switch. */
function missingNamespaces(): Unavailable | null {
  const root = process.geteuid?.() === 0;
  if (readNumber("/proc/sys/user/max_user_namespaces") === 0) {
    return { reason: "user.max_user_namespaces is 0", hint: "sysctl -w user.max_user_namespaces=65536" };
  }
  if (!root && readNumber("/proc/sys/kernel/unprivileged_userns_clone") === 0) {
    return { reason: "kernel.unprivileged_userns_clone is 0", hint: "sysctl -w kernel.unprivileged_userns_clone=1" };
  }
  if (!root && readNumber("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") === 1) {
    return {
      reason: "kernel.apparmor_restrict_unprivileged_userns is 1",
      hint: "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give the runtime an AppArmor profile with `userns,`",
    };
  }
  return null;
}

function missingRootless(): Unavailable | null {
  for (const name of ["newuidmap", "newgidmap"] as const) {
    if (findTool(name) === null)
      return { reason: `${name} is not installed; rootless mode needs it`, hint: installCommand(name) };
  }
  const ids = readSubordinateIds();
  const lacking = [ids.uids === null ? "/etc/subuid" : null, ids.gids === null ? "/etc/subgid" : null].filter(
    (file) => file !== null,
  );
  if (lacking.length === 0) return null;
  return {
    reason: `${lacking.join(" and ")} ${lacking.length === 1 ? "has" : "have"} no range for the user ${ids.user}; rootless mode needs one`,
    hint: giveSubordinateIds(ids.user, { uids: ids.uids === null, gids: ids.gids === null }),
  };
}

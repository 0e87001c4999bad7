import type { DriverProbe } from "../driver.ts";
import type { NamespaceMode, Unavailable } from "./mode.ts";

export function probeNamespace(mode: NamespaceMode | Unavailable): DriverProbe {
  if ("reason" in mode) {
    const { reason, hint } = mode;
    return {
      name: "namespace",
      available: false,
      mode: "none",
      rowMemory: "rlimit",
      runtime: null,
      reason,
      hint,
      warnings: [],
    };
  }
  return {
    name: "namespace",
    available: true,
    mode: mode.mode,
    rowMemory: mode.cgroups === null ? "rlimit" : "cgroup",
    runtime: mode.runtime,
    reason: null,
    hint: null,
    warnings: mode.warnings,
  };
}

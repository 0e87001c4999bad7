import { DriverError, type SandboxSpec } from "./driver.ts";

/** Checks a spec once, before anything is made. Past it, code trusts the fields. */
export function checkSpec(spec: SandboxSpec, agentPath: string | null): void {
  // Also an argument of the runtime's command line, a folder and a cgroup: nothing that could be an option or a path.
  if (!/^[a-z0-9][a-z0-9-]{0,47}$/.test(spec.id)) {
    throw invalid(
      `the sandbox id ${JSON.stringify(spec.id)} is not 1 to 48 lower-case letters, digits and "-"`,
      "choose another id",
    );
  }
  if (spec.argv === undefined && agentPath === null)
    throw invalid("no argv and no agent binary was given", "build the agent (cargo build)");
  if (spec.argv?.length === 0) throw invalid("argv is empty", "give the program's path as its first item");
  // A working directory below /proc is how a leaked descriptor becomes the host's root (CVE-2024-21626).
  if (!/^\/(?!proc(\/|$))/.test(spec.cwd ?? "/")) {
    throw invalid(
      `cwd ${JSON.stringify(spec.cwd)} is not an absolute path outside /proc`,
      "give a folder of the sandbox",
    );
  }
  for (const [name, value] of Object.entries(spec.environ)) {
    if (/^[^=\0]+$/.test(name) && !value.includes("\0")) continue;
    throw invalid(`the variable ${JSON.stringify(name)} has "=" or NUL in its name, or NUL in its value`, "rename it");
  }
  for (const [name, value] of Object.entries(limitsOf(spec))) {
    if (Number.isSafeInteger(value) && value > 0) continue;
    throw invalid(`${name} is ${value}; a positive integer was expected`, "every sandbox has a limit");
  }
}

function limitsOf({ memoryBytes, processes, cpuShares, rowMemory }: SandboxSpec): Record<string, number> {
  return {
    memoryBytes,
    processes,
    ...(cpuShares === undefined ? {} : { cpuShares }),
    ...(rowMemory === undefined
      ? {}
      : {
          "rowMemory.count": rowMemory.limitsBytes.length,
          ...(rowMemory.statesBytes === undefined ? {} : { "rowMemory.statesBytes": rowMemory.statesBytes }),
          ...Object.fromEntries(
            rowMemory.limitsBytes.map((bytes, index) => [`rowMemory.limitsBytes[${index}]`, bytes]),
          ),
        }),
  };
}

function invalid(message: string, hint: string): DriverError {
  return new DriverError("sandbox_spec_invalid", message, hint);
}

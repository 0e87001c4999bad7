import { accessSync, constants } from "node:fs";
import { join } from "node:path";

/**
 * The agent's binary: SANDPOOL_AGENT, else the release build in this checkout, else the one beside the installed package; null without any.
 */
export function findAgent(): string | null {
  const named = process.env.SANDPOOL_AGENT;
  if (named !== undefined && named !== "") return named;
  const machine = process.arch === "arm64" ? "aarch64" : "x86_64";
  const checkout = join(import.meta.dirname, "../../../..");
  const candidates = [
    join(checkout, `agent/target/${machine}-unknown-linux-musl/release/sandpool-agent`),
    join(checkout, `agent/target/${machine}-unknown-linux-gnu/release/sandpool-agent`),
    join(checkout, "agent/target/release/sandpool-agent"),
    join(import.meta.dirname, "../../bin/sandpool-agent"),
  ];
  return candidates.find(isExecutable) ?? null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CommandFailure } from "../output/failure.ts";

/** `${XDG_DATA_HOME:-~/.local/share}/sandpool`. */
export function defaultDataFolder(): string {
  return join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "sandpool");
}

/** The native agent: a published package carries it, a checkout builds it. `SANDPOOL_AGENT` names another. */
export function findAgent(): string {
  const candidates = process.env.SANDPOOL_AGENT
    ? [process.env.SANDPOOL_AGENT]
    : AGENT_PLACES.map((place) => fileURLToPath(new URL(place, import.meta.url)));
  const found = candidates.find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new CommandFailure(
    "agent_missing",
    `The agent's binary was not found; looked at ${candidates.join(" and ")}.`,
    `In a checkout run "make setup", which builds it; elsewhere install the package again.`,
  );
}

const AGENT_PLACES = ["../../assets/sandpool-agent", "../../../../agent/target/release/sandpool-agent"];

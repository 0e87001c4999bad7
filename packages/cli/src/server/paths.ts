import { homedir } from "node:os";
import { join } from "node:path";

/** `${XDG_DATA_HOME:-~/.local/share}/sandpool`. */
export function defaultDataFolder(): string {
  return join(process.env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "sandpool");
}

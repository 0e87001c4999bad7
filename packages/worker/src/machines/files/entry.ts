import type { FileEntry } from "../contract.ts";
import { said } from "../session/reply.ts";

/** The agent's words for kinds, and the contract's. */
const KINDS = new Map<string, FileEntry["kind"]>([
  ["file", "file"],
  ["directory", "folder"],
  ["symlink", "link"],
]);

/** An entry as the agent told it. @throws `agent_failed` where it is none */
export function readEntry(value: unknown, name: string): FileEntry {
  const entry = said.object(value, name);
  const number = (member: string): number => said.number(entry[member], `${name}.${member}`);
  const base64 = said.orNull(entry.path_base64, `${name}.path_base64`, said.text);
  return {
    name: said.text(entry.name, `${name}.name`),
    path: said.text(entry.path, `${name}.path`),
    ...(base64 === null ? {} : { path_base64: base64 }),
    kind: KINDS.get(said.text(entry.kind, `${name}.kind`)) ?? "other",
    size: number("size"),
    mode: number("mode"),
    uid: number("uid"),
    gid: number("gid"),
    mtime_ms: number("mtime_ms"),
    target: said.orNull(entry.target, `${name}.target`, said.text),
  };
}

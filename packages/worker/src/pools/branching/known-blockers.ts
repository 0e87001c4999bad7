import type { UncopiedSource } from "@sandpool/protocol";
import type { PoolCore } from "../core.ts";
import type { Shard } from "../shards/shard.ts";
import { uncopied } from "./refuse.ts";

/** What a source is copied to: rows of which shards. Left out where the copy stays beside its source. */
export interface WantedCopy {
  source: { row: number } | { state: string };
  /** Where the source is. */
  shard: Shard;
  /** Where its copy shall be. */
  to: Shard;
}

/** The sources that no agent need be asked about: their copies would cross to another sandbox, or they ended with their own. */
export function findUncopied(core: PoolCore, wanted: readonly WantedCopy[]): UncopiedSource[] {
  const found = new Map<string, { source: WantedCopy["source"]; blockers: Map<string, Record<string, unknown>> }>();
  const note = (source: WantedCopy["source"], blocker: Record<string, unknown>): void => {
    const key = JSON.stringify(source);
    const known = found.get(key) ?? { source, blockers: new Map() };
    known.blockers.set(JSON.stringify(blocker), blocker);
    found.set(key, known);
  };
  for (const { source, shard, to } of wanted) {
    if (shard !== to) note(source, { shards: [shard.index, to.index] });
    if ("row" in source && !isLive(core, shard, source.row)) note(source, { failed: shard.failure?.kind ?? "crash" });
  }
  return [...found.values()].map(({ source, blockers }) => uncopied(source, [...blockers.values()]));
}

/** Whether the shard's agent, and not the worker, answers for a row: its sandbox runs, and the row was reset since a restart. */
function isLive(core: PoolCore, shard: Shard, row: number): boolean {
  if (core.closing.aborted || shard.running === null) return false;
  return shard.unready?.has(row) !== true;
}

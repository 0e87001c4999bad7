import type { SandpoolError, UncopiedSource } from "@sandpool/protocol";
import { fail } from "../../fail.ts";

type Blocker = Readonly<Record<string, unknown>>;

const mostShown = 3;

/** A source that the worker itself knows cannot be copied. */
export function uncopied(source: { row: number } | { state: string }, blockers: Blocker[]): UncopiedSource {
  return { ...source, blockers, text: blockers.map(describeBlocker).join("; ") };
}

/** `fork_unsupported` for everything that could not be copied. */
export function refuseSources(sources: readonly UncopiedSource[]): SandpoolError {
  const shown = sources.slice(0, mostShown).map((source) => `${nameOf(source)} cannot be copied: ${source.text}`);
  const more = sources.length > mostShown ? `; and ${sources.length - mostShown} more` : "";
  return fail("fork_unsupported", `${shown.join("; ")}${more}. Nothing was changed.`, {
    hint: hintFor(sources),
    details: { sources },
  });
}

/** The sources that an agent named in its refusal, in the pool's words: it knows states by their slots. */
export function readSources(
  error: SandpoolError,
  stateOf: (slot: number) => string | undefined,
  fallback: readonly UncopiedSource[],
): readonly UncopiedSource[] {
  const { sources } = error.details;
  if (!Array.isArray(sources) || sources.length === 0) return fallback;
  return sources.map((given: Record<string, unknown>) => {
    const blockers = Array.isArray(given.blockers) ? (given.blockers as Blocker[]) : [];
    const text = typeof given.text === "string" ? given.text : blockers.map(describeBlocker).join("; ");
    const state = typeof given.state === "number" ? stateOf(given.state) : undefined;
    return { ...(state === undefined ? { row: Number(given.row) } : { state }), blockers, text };
  });
}

/** `{"threads":3,"names":["openblas"]}` as `threads: 3 (openblas)`. */
export function describeBlocker(blocker: Blocker): string {
  const { names, descriptors, ...rest } = blocker;
  const beside = [names, descriptors].flatMap((list) => (Array.isArray(list) ? list.map(String) : []));
  const facts = Object.entries(rest).map(([name, value]) => `${name.replaceAll("_", " ")}${valueText(value)}`);
  return `${facts.join(", ")}${beside.length === 0 ? "" : ` (${beside.join(", ")})`}`;
}

function valueText(value: unknown): string {
  if (value === true) return "";
  if (Array.isArray(value)) return `: ${value.map(String).join(", ")}`;
  if (typeof value !== "object" || value === null) return `: ${String(value)}`;
  return `: ${Object.entries(value)
    .map(([name, item]) => `${name.replaceAll("_", " ")} ${String(item)}`)
    .join(", ")}`;
}

function nameOf({ row, state }: UncopiedSource): string {
  return state === undefined ? `row ${row}` : `state ${state}`;
}

function hintFor(sources: readonly UncopiedSource[]): string {
  const has = (name: string): boolean =>
    sources.some(({ blockers }) => blockers.some((blocker) => Object.hasOwn(blocker, name)));
  if (has("shards"))
    return "Processes do not move between sandboxes: make the pool with shards=1, or choose rows of one sandbox.";
  if (has("unreset") || has("failed")) return "Reset the row first.";
  if (has("threads") || has("processes")) {
    return "End the environment's threads and child programs before the copy, or give it get_state and set_state.";
  }
  return "docs/branching.md says what can be copied; an environment with get_state and set_state always can.";
}

import type { AutoresetMode, CreatePoolRequest, Vector } from "@sandpool/protocol";
import { fail } from "../../fail.ts";

/** What the first row's hello says of a vectorised environment; null for any other. */
export function readVector(hello: Readonly<Record<string, unknown>>): Vector | null {
  const { vector } = hello;
  if (typeof vector !== "object" || vector === null) return null;
  const said = vector as Readonly<Record<string, unknown>>;
  return {
    class: String(said.class ?? "unknown").slice(0, 200),
    autoreset: said.autoreset === "same_step" || said.autoreset === "next_step" ? said.autoreset : null,
    partial_reset: said.partial_reset === true,
    row_seeds: said.row_seeds === true,
  };
}

/**
 * The mode in which the pool resets: a vectorised environment's own, else what was asked for.
 * @throws `vectorized_unsupported` where another mode than the environment's own was asked for
 */
export function resolveAutoreset(requested: CreatePoolRequest["autoreset"], vector: Vector | null): AutoresetMode {
  if (vector === null) return requested === "auto" ? "same_step" : requested;
  if (requested === null || requested === "auto" || requested === vector.autoreset) return vector.autoreset;
  const own = vector.autoreset === null ? "does not reset by itself" : `resets by itself in mode "${vector.autoreset}"`;
  throw fail(
    "vectorized_unsupported",
    `autoreset: received "${requested}"; the vectorised environment ${vector.class} ${own}.`,
    {
      hint: `Pass "auto"${vector.autoreset === null ? "" : ` or "${vector.autoreset}"`}, or make ${vector.class} with the mode you need.`,
      details: { class: vector.class, received: requested, expected: vector.autoreset },
    },
  );
}

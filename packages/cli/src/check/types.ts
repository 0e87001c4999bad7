import type { PoolReply, RLPool } from "sandpool";
import { describeValue } from "./contains.ts";
import type { CheckReport } from "./findings.ts";
import { observationOf } from "./rows.ts";
import { describeSpace, dtypeName, type Space } from "./spaces.ts";

/** The types of what an environment sends and takes, and how its observations are laid out. */
export function describeTypes(
  pool: RLPool,
  actionSpace: Space | null,
  infoTypes: ReadonlyMap<string, string>,
): NonNullable<CheckReport["types"]> {
  const info = [...infoTypes].map(([key, type]) => `${key}: ${type}`).join(", ");
  return {
    observation: describeValue(observationOf(pool.initialObservations, 0)),
    action: actionSpace === null ? null : describeSpace(actionSpace),
    info: info === "" ? "empty" : info,
    layout: describeLayout(pool.description.layout),
  };
}

function describeLayout(layout: PoolReply["layout"]): string {
  if (layout.kind === "list") return "list pool: one value a row, as JSON";
  const fields = layout.fields.map(({ dtype, shape }) => `${dtypeName(dtype)} [${["n", ...shape].join(", ")}]`);
  return `array pool: ${fields.join(", ")}`;
}

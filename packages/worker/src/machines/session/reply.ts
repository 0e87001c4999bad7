import type { SandpoolError } from "@sandpool/protocol";
import { fail } from "../../fail.ts";

/** What an agent said: it runs inside a machine, so nothing in it is what it should be before it was looked at. */
export type Said = Readonly<Record<string, unknown>>;

/** Readers of one value; each throws `agent_failed` that names the member. */
export const said = {
  object(value: unknown, name: string): Said {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Said;
    throw odd(name, "an object");
  },
  list<Item>(value: unknown, name: string, read: (item: unknown, name: string) => Item): Item[] {
    if (!Array.isArray(value)) throw odd(name, "a list");
    return value.map((item) => read(item, `${name}[]`));
  },
  text(value: unknown, name: string): string {
    if (typeof value === "string") return value;
    throw odd(name, "text");
  },
  integer(value: unknown, name: string): number {
    if (Number.isSafeInteger(value)) return value as number;
    throw odd(name, "an integer");
  },
  /** Sizes of sparse files and times may be beyond exact integers. */
  number(value: unknown, name: string): number {
    if (Number.isFinite(value)) return value as number;
    throw odd(name, "a number");
  },
  oneOf<Choice extends string>(value: unknown, name: string, choices: readonly Choice[]): Choice {
    if (choices.includes(value as Choice)) return value as Choice;
    throw odd(name, choices.join(" or "));
  },
  orNull<Value>(value: unknown, name: string, read: (value: unknown, name: string) => Value): Value | null {
    return value === null || value === undefined ? null : read(value, name);
  },
};

function odd(name: string, expected: string): SandpoolError {
  return fail("agent_failed", `The machine's agent answered with a "${name}" that is not ${expected}.`, {
    hint: "The agent and the server may be of different versions, or a program inside has taken its place; make the machine anew.",
    details: { member: name },
  });
}

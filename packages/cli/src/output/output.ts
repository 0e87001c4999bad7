import Table from "cli-table3";
import pc from "picocolors";
import { escapeControl } from "sandpool/escape";

type Colors = ReturnType<typeof pc.createColors>;

export type Cell = string | number | null | undefined;

/** Where a command writes. Everything passed as text is escaped here, at the one place that reaches a terminal. */
export class Output {
  readonly json: boolean;
  /** Colours of standard output; plain without a terminal or with NO_COLOR. */
  readonly colors: Colors;
  /** Standard error is a terminal, so progress may be drawn on it. */
  readonly interactive: boolean;

  constructor(options: { json: boolean }) {
    this.json = options.json;
    this.colors = pc.createColors(!options.json && wantsColor(process.stdout));
    this.interactive = !options.json && process.stderr.isTTY === true && process.env.TERM !== "dumb";
  }

  /** One line of trusted structure; its variable parts have gone through `safe`. */
  line(text = ""): void {
    process.stdout.write(`${text}\n`);
  }

  /** Exactly one JSON document or line. JSON escapes C0 itself; the other hidden characters are escaped too. */
  document(value: unknown, indent = 2): void {
    process.stdout.write(`${toSafeJson(value, indent)}\n`);
  }

  /** A table without borders, headed; columns stay aligned whatever the cells hold. */
  table(head: readonly string[], rows: readonly (readonly Cell[])[]): void {
    const table = new Table({
      head: head.map((title) => this.colors.bold(title)),
      chars: BORDERLESS,
      style: { head: [], border: [], "padding-left": 0, "padding-right": 2 },
    });
    for (const row of rows) table.push(row.map((cell) => safe(cell)));
    this.line(table.toString().replace(/[ \t]+$/gm, ""));
  }

  /** Text for people beside the result: standard error, so that pipes stay clean. */
  note(text: string): void {
    if (!this.json) process.stderr.write(`${text}\n`);
  }
}

/** A value from a user, a sandbox or a server as text a terminal shows as it is. */
export function safe(value: Cell): string {
  return value === null || value === undefined ? "-" : escapeControl(String(value));
}

/** Text of several lines, escaped but for its line ends. */
export function safeLines(text: string): string {
  return escapeControl(text, { keepLines: true });
}

/** JSON whose text holds no control or hidden character, so that it is safe in a terminal and the same value to a program. */
export function toSafeJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, replaceBigint, indent).replace(/[\p{Cf}\u007f-\u009f\u2028\u2029]/gu, escapeAsJson);
}

function escapeAsJson(character: string): string {
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}

function replaceBigint(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? value.toString() : value;
}

function wantsColor(stream: NodeJS.WriteStream): boolean {
  if (process.env.NO_COLOR) return false;
  if (process.env.FORCE_COLOR && process.env.FORCE_COLOR !== "0") return true;
  return stream.isTTY === true && process.env.TERM !== "dumb";
}

const BORDERLESS = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "",
};

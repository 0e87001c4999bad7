import { InvalidArgumentError } from "commander";
import type { MachineSizeInput } from "sandpool";

/** A parser for repeated `K=V`: collects them; the last one of a name holds. */
export function pairs(text: string, previous: Record<string, string> = {}): Record<string, string> {
  const [name, value] = splitPair(text);
  return { ...previous, [name]: value };
}

/** A parser for seconds, fractions too. */
export function seconds(text: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0;
  if (value > 0) return value;
  throw new InvalidArgumentError("Expected a positive number of seconds, such as 30 or 0.5.");
}

/** A parser for sizes: `small`, `medium`, `large`, or `vcpu=2,memory=4GiB,disk=20GiB`, where parts may be left out. */
export function machineSize(text: string): MachineSizeInput {
  if (text === "small" || text === "medium" || text === "large") return text;
  const size: { vcpu?: number; memory?: string; disk?: string } = {};
  for (const part of text.split(",")) {
    const [name, value] = part.includes("=") ? splitPair(part) : ["", ""];
    if (name === "vcpu" && /^\d+$/.test(value)) size.vcpu = Number(value);
    else if (name === "memory" || name === "disk") size[name] = value;
    else throw new InvalidArgumentError("Expected small, medium, large, or figures: vcpu=2,memory=4GiB,disk=20GiB.");
  }
  return size;
}

/** A parser for names of signals, with or without `SIG`. */
export function signalName(text: string): string {
  const name = text.toUpperCase().replace(/^SIG/, "");
  if (/^[A-Z][A-Z0-9+-]{1,15}$/.test(name)) return name;
  throw new InvalidArgumentError("Expected the name of a signal, such as TERM or INT.");
}

function splitPair(text: string): [string, string] {
  const place = text.indexOf("=");
  if (place < 1) throw new InvalidArgumentError("Expected NAME=VALUE.");
  return [text.slice(0, place), text.slice(place + 1)];
}

import { isAscii } from "node:buffer";
import { SandpoolError } from "@sandpool/protocol";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Parses a JSON body. Deep nesting is refused before anything is built, invalid UTF-8 before it is replaced.
 * A member `__proto__` becomes an own member like any other; nothing here merges objects.
 */
export function parseJson(body: Buffer, maxDepth: number): unknown {
  checkDepth(body, maxDepth);
  try {
    return JSON.parse(decode(body));
  } catch (cause) {
    throw new SandpoolError("invalid_request", `the body is not JSON: ${(cause as Error).message}`, {
      hint: "send one JSON object in UTF-8",
      cause,
    });
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decode(body: Buffer): string {
  return isAscii(body) ? body.toString("latin1") : utf8.decode(body);
}

function checkDepth(body: Buffer, maxDepth: number): void {
  let depth = 0;
  for (let at = 0; at < body.length; at += 1) {
    const byte = body[at] as number;
    if (byte === QUOTE) at = endOfString(body, at);
    else if (byte === 0x5b || byte === 0x7b) {
      depth += 1;
      if (depth > maxDepth) throw tooDeep(maxDepth);
    } else if (byte === 0x5d || byte === 0x7d) depth -= 1;
  }
}

/** Index of the quote that ends the string which starts at `from`. */
function endOfString(body: Buffer, from: number): number {
  let at = from + 1;
  while (at < body.length && body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1;
  return at;
}

function tooDeep(maxDepth: number): SandpoolError {
  return new SandpoolError("invalid_request", `the body is nested deeper than ${maxDepth}`, {
    hint: `nest lists and objects at most ${maxDepth} deep`,
    details: { limit: maxDepth },
  });
}

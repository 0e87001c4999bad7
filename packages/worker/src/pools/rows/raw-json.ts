const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const openers = new Set([0x5b, 0x7b]);
const closers = new Set([0x5d, 0x7d]);
const blanks = new Set([0x20, 0x09, 0x0a, 0x0d]);

/**
 * Splits comma-joined JSON values without reading them, so that `1.0` and 300-digit integers stay what they are.
 * The text must be valid JSON: it was checked where it entered.
 *
 * @example splitValues(Buffer.from('1.0,{"a":[1,2]}')) // two slices: 1.0 and {"a":[1,2]}
 */
export function splitValues(text: Buffer): Buffer[] {
  const values: Buffer[] = [];
  let start = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const byte = text[at] as number;
    if (byte === quote) at = endOfString(text, at);
    else if (openers.has(byte)) depth += 1;
    else if (closers.has(byte)) depth -= 1;
    else if (byte === comma && depth === 0) {
      values.push(text.subarray(start, at));
      start = at + 1;
    }
  }
  if (values.length > 0 || !isBlank(text)) values.push(text.subarray(start));
  return values;
}

/**
 * Puts other elements into the list that is member `name` of the object `text`: element j of the result is element `from[j]`.
 * A member that is absent or no list is left alone, and so is every other byte.
 *
 * @example pickElements(Buffer.from('{"actions":[1.0,2,3]}'), "actions", [2, 0]) // {"actions":[3,1.0]}
 */
export function pickElements(text: Buffer, name: string, from: readonly number[]): Buffer {
  const range = memberRange(text, name);
  if (range === null || text[range.start] !== 0x5b) return text;
  const values = splitValues(text.subarray(range.start + 1, range.end - 1));
  const chunks: Buffer[] = [text.subarray(0, range.start + 1)];
  for (const [position, element] of from.entries()) {
    if (position > 0) chunks.push(Buffer.from(","));
    chunks.push(values[element] ?? Buffer.from("null"));
  }
  chunks.push(text.subarray(range.end - 1));
  return Buffer.concat(chunks);
}

/** Where the value of a top-level member stands; the last one counts, as in JSON.parse. */
function memberRange(text: Buffer, name: string): { start: number; end: number } | null {
  const open = skipBlanks(text, 0);
  const close = text.lastIndexOf(0x7d);
  if (text[open] !== 0x7b || close < open) return null;
  let found: { start: number; end: number } | null = null;
  for (const member of splitValues(text.subarray(open + 1, close))) {
    const base = member.byteOffset - text.byteOffset;
    const keyStart = skipBlanks(text, base);
    const keyEnd = endOfString(text, keyStart) + 1;
    const afterKey = skipBlanks(text, keyEnd);
    if (text[afterKey] !== colon) continue;
    if (JSON.parse(text.toString("utf8", keyStart, keyEnd)) !== name) continue;
    let end = base + member.length;
    while (blanks.has(text[end - 1] as number)) end -= 1;
    found = { start: skipBlanks(text, afterKey + 1), end };
  }
  return found;
}

/** The index of the closing quote of the string that begins at `at`. */
function endOfString(text: Buffer, at: number): number {
  let index = at + 1;
  while (index < text.length && text[index] !== quote) index += text[index] === backslash ? 2 : 1;
  return index;
}

function skipBlanks(text: Buffer, at: number): number {
  let index = at;
  while (index < text.length && blanks.has(text[index] as number)) index += 1;
  return index;
}

function isBlank(text: Buffer): boolean {
  return skipBlanks(text, 0) === text.length;
}

import { SandpoolError } from "./errors.ts";

const MAX_DEPTH = 8;

/** What a batch's map may hold. Maps have no prototype, so no key can reach one. */
export type PlainValue = null | boolean | number | string | PlainValue[] | { [key: string]: PlainValue };

/**
 * Reads one msgpack value made of nil, booleans, numbers, text, lists and maps with text keys.
 * It exists beside msgpackr because msgpackr builds functions from the names in a record extension, even with records
 * off, and a server does not generate code from what a client sent.
 */
export function readMsgpack(bytes: Buffer): PlainValue {
  const reader = new MsgpackReader(bytes);
  const value = reader.value(0);
  if (reader.at !== bytes.length) throw refuse(`the map ends at byte ${reader.at}, its length says ${bytes.length}`);
  return value;
}

class MsgpackReader {
  at = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  value(depth: number): PlainValue {
    if (depth > MAX_DEPTH) throw refuse(`the map is nested deeper than ${MAX_DEPTH}`);
    const token = this.#bytes[this.#take(1)] as number;
    if (token < 0x80) return token;
    if (token < 0x90) return this.#map(token & 15, depth);
    if (token < 0xa0) return this.#list(token & 15, depth);
    if (token < 0xc0) return this.#text(token & 31);
    if (token >= 0xe0) return token - 256;
    return this.#long(token, depth);
  }

  #long(token: number, depth: number): PlainValue {
    const bytes = this.#bytes;
    switch (token) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xca:
        return bytes.readFloatBE(this.#take(4));
      case 0xcb:
        return bytes.readDoubleBE(this.#take(8));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#text(this.#unsigned(token - 0xd9));
      case 0xdc:
      case 0xdd:
        return this.#list(this.#unsigned(token - 0xdb), depth);
      case 0xde:
      case 0xdf:
        return this.#map(this.#unsigned(token - 0xdd), depth);
      default:
        return this.#integer(token);
    }
  }

  #integer(token: number): number {
    if (token >= 0xcc && token <= 0xce) return this.#unsigned(token - 0xcc);
    if (token === 0xcf) return exact(this.#bytes.readBigUInt64BE(this.#take(8)));
    if (token === 0xd0) return this.#bytes.readInt8(this.#take(1));
    if (token === 0xd1) return this.#bytes.readInt16BE(this.#take(2));
    if (token === 0xd2) return this.#bytes.readInt32BE(this.#take(4));
    if (token === 0xd3) return exact(this.#bytes.readBigInt64BE(this.#take(8)));
    throw refuse(`byte 0x${token.toString(16)} at ${this.at - 1} starts a kind of value that is not accepted`);
  }

  /** An unsigned integer of 1, 2 or 4 bytes for power 0, 1 or 2. */
  #unsigned(power: number): number {
    const length = 1 << power;
    return this.#bytes.readUIntBE(this.#take(length), length);
  }

  #text(length: number): string {
    const from = this.#take(length);
    return this.#bytes.toString("utf8", from, from + length);
  }

  #list(length: number, depth: number): PlainValue[] {
    const list: PlainValue[] = [];
    for (let i = 0; i < length; i += 1) list.push(this.value(depth + 1));
    return list;
  }

  #map(length: number, depth: number): { [key: string]: PlainValue } {
    const map: { [key: string]: PlainValue } = Object.create(null);
    for (let i = 0; i < length; i += 1) {
      const key = this.value(depth + 1);
      if (typeof key !== "string") throw refuse(`a key of the map is ${JSON.stringify(key)}, not text`);
      if (key in map) throw refuse(`the key ${JSON.stringify(key)} stands twice`);
      map[key] = this.value(depth + 1);
    }
    return map;
  }

  #take(length: number): number {
    const from = this.at;
    if (from + length > this.#bytes.length) throw refuse(`the map breaks off after ${this.#bytes.length} bytes`);
    this.at = from + length;
    return from;
  }
}

function exact(value: bigint): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw refuse(`the integer ${value} is beyond 2^53-1`);
  return number;
}

function refuse(message: string): SandpoolError {
  return new SandpoolError("invalid_request", `binary batch: ${message}`, {
    hint: "send u32 length, a msgpack map of nil, booleans, numbers, text, lists and maps, then the buffers",
  });
}

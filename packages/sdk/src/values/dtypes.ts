/// <reference lib="es2025.float16" />

/** Every typed array an array of the wire can become. */
export type ArrayData =
  | Float16Array
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array;

interface ArrayDataConstructor {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, byteOffset: number, length: number): ArrayData;
}

const CONSTRUCTORS: Readonly<Record<string, ArrayDataConstructor>> = {
  f2: Float16Array,
  f4: Float32Array,
  f8: Float64Array,
  c8: Float32Array,
  c16: Float64Array,
  i1: Int8Array,
  i2: Int16Array,
  i4: Int32Array,
  i8: BigInt64Array,
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  u8: BigUint64Array,
  b1: Uint8Array,
};

// The dtypes that may cross the wire, as in the Python client: numbers, booleans, dates and fixed-length text.
const WIRE_DTYPE =
  /^(?:\|b1|[|<>=]?[iu][1248]|[<>]f(?:2|4|8|16)|[<>]c(?:8|16|32)|[<>][mM]8(?:\[\d{0,6}[A-Za-zμ]{1,2}\])?|\|S\d{1,7}|[<>]U\d{1,6})$/;

/** Whether a dtype string from the wire is one that a client reads. */
export function isWireDtype(dtype: string): boolean {
  return WIRE_DTYPE.test(dtype);
}

/** Whether one item of the dtype is a plain number, bigint or boolean in JavaScript. */
export function isScalarDtype(dtype: string): boolean {
  return dtype[1] !== "c" && dtype.slice(1) in CONSTRUCTORS;
}

/**
 * Views bytes as the typed array of a numpy dtype string such as `<f4`. Complex numbers become pairs of floats, booleans and
 * dtypes without a JavaScript equivalent (text, dates, records) stay bytes. Copies only when the bytes are not aligned.
 */
export function viewAsTypedArray(dtype: string, bytes: Uint8Array): ArrayData {
  const ArrayClass = CONSTRUCTORS[dtype.slice(1)] ?? Uint8Array;
  const itemBytes = ArrayClass.BYTES_PER_ELEMENT;
  const aligned =
    bytes.buffer instanceof ArrayBuffer && bytes.byteOffset % itemBytes === 0 ? bytes : new Uint8Array(bytes);
  return new ArrayClass(aligned.buffer as ArrayBuffer, aligned.byteOffset, Math.floor(aligned.byteLength / itemBytes));
}

/** The numpy dtype string of a typed array. */
export function dtypeOf(data: ArrayData): string {
  if (data instanceof Float16Array) return "<f2";
  if (data instanceof Float32Array) return "<f4";
  if (data instanceof Float64Array) return "<f8";
  if (data instanceof Int8Array) return "|i1";
  if (data instanceof Int16Array) return "<i2";
  if (data instanceof Int32Array) return "<i4";
  if (data instanceof BigInt64Array) return "<i8";
  if (data instanceof Uint16Array) return "<u2";
  if (data instanceof Uint32Array) return "<u4";
  if (data instanceof BigUint64Array) return "<u8";
  return "|u1";
}

/** Bytes of one item of a dtype string; text dtypes count four bytes a character, as numpy does. */
export function itemBytesOf(dtype: string): number {
  const match = /^[<>|=]?([a-zA-Z])(\d+)/.exec(dtype);
  if (match === null) return 1;
  return match[1] === "U" ? Number(match[2]) * 4 : Number(match[2]);
}

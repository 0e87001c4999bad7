import { ArgumentError } from "../errors.ts";
import { type ArrayData, dtypeOf, itemBytesOf } from "./dtypes.ts";

export type NestedList = number | bigint | boolean | NestedList[];

/**
 * An n-dimensional array in C order, as numpy's: a dtype string such as `<f4`, a shape, and a typed array.
 *
 * | dtype | data | an item |
 * |---|---|---|
 * | `<f2` `<f4` `<f8` | `Float16Array` `Float32Array` `Float64Array` | number |
 * | `|u1` `<u2` `<u4` `|i1` `<i2` `<i4` | `Uint8Array` … `Int32Array` | number |
 * | `<i8` `<u8` | `BigInt64Array` `BigUint64Array` | number, a bigint beyond 2^53 |
 * | `|b1` | `Uint8Array` of 0 and 1 | boolean |
 * | `<c8` `<c16` | `Float32Array` `Float64Array`, real and imaginary parts in turn | (read `data`) |
 * | text, dates | `Uint8Array`, the bytes as they are | (read `data`) |
 *
 * @example
 * const array = new NdArray("<f4", [2, 3], new Float32Array(6));
 * array.row(1).toList(); // [0, 0, 0]
 * array.at(1, 2); // 0
 */
export class NdArray {
  /** As numpy writes it, little-endian. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** All items, the last axis fastest. */
  readonly data: ArrayData;

  /** Throws `ArgumentError` when the bytes of `data` are not those of dtype and shape. */
  constructor(dtype: string, shape: readonly number[], data: ArrayData) {
    const expectedBytes = itemBytesOf(dtype) * sizeOf(shape);
    if (data.byteLength !== expectedBytes) {
      throw new ArgumentError(
        `An array of dtype ${dtype} and shape [${shape.join(", ")}] was given ${data.byteLength} bytes; expected ${expectedBytes}.`,
      );
    }
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
  }

  /** A one-dimensional array around a typed array, or one of `shape`, without a copy. */
  static from(data: ArrayData, shape: readonly number[] = [data.length]): NdArray {
    return new NdArray(dtypeOf(data), shape, data);
  }

  /** The number of items: the product of the shape. */
  get size(): number {
    return sizeOf(this.shape);
  }

  /** Item `index` of the first axis, as a view on the same memory. Throws `RangeError` outside of it. */
  row(index: number): NdArray {
    const length = this.shape[0];
    if (length === undefined || !Number.isInteger(index) || index < 0 || index >= length) {
      throw new RangeError(
        `Row ${index} of an array of shape [${this.shape.join(", ")}]: expected 0 to ${(length ?? 0) - 1}.`,
      );
    }
    const rowLength = this.data.length / length;
    const data = this.data.subarray(index * rowLength, (index + 1) * rowLength);
    return new NdArray(this.dtype, this.shape.slice(1), data);
  }

  /** Every item of the first axis, as views on the same memory. */
  *rows(): Generator<NdArray, void, undefined> {
    for (let index = 0; index < (this.shape[0] ?? 0); index += 1) yield this.row(index);
  }

  /** The item at one index an axis: a boolean for `|b1`, a number where it is exact, else a bigint. Throws `RangeError` outside of the shape. */
  at(...indices: number[]): number | bigint | boolean {
    const inside =
      indices.length === this.shape.length &&
      indices.every((index, axis) => Number.isInteger(index) && index >= 0 && index < (this.shape[axis] ?? 0));
    if (!inside) {
      throw new RangeError(
        `Index [${indices.join(", ")}] of an array of shape [${this.shape.join(", ")}]: expected one index an axis, from 0 on.`,
      );
    }
    return this.scalarAt(indices.reduce((offset, index, axis) => offset * (this.shape[axis] ?? 0) + index, 0));
  }

  /** The only item of an array of one: a boolean for `|b1`, a number where it is exact, else a bigint. */
  item(): number | bigint | boolean {
    return this.scalarAt(0);
  }

  /** Nested lists of numbers, bigints (64-bit integers beyond 2^53) or booleans; a plain value for shape `[]`. */
  toList(): NestedList {
    return this.listFrom(0, 0);
  }

  /** The items as little-endian bytes, a view on the same memory. */
  toBytes(): Uint8Array {
    return new Uint8Array(this.data.buffer, this.data.byteOffset, this.data.byteLength);
  }

  /** An independent copy. */
  copy(): NdArray {
    return new NdArray(this.dtype, this.shape, this.data.slice());
  }

  /** Bytes of one item of the dtype. */
  get itemBytes(): number {
    return itemBytesOf(this.dtype);
  }

  private listFrom(axis: number, offset: number): NestedList {
    const length = this.shape[axis];
    if (length === undefined) return this.scalarAt(offset);
    const stride = sizeOf(this.shape.slice(axis + 1));
    return Array.from({ length }, (_, index) => this.listFrom(axis + 1, offset + index * stride));
  }

  private scalarAt(offset: number): number | bigint | boolean {
    const value = this.data[offset] ?? 0;
    if (this.dtype.slice(1) === "b1") return value !== 0;
    if (typeof value !== "bigint") return value;
    return BigInt.asIntN(54, value) === value ? Number(value) : value;
  }
}

/** The number of items of a shape. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** Zeros of a dtype and shape, as bytes to be filled. */
export function zeroBytes(dtype: string, shape: readonly number[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(itemBytesOf(dtype) * sizeOf(shape));
}

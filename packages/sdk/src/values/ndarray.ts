import { type ArrayData, dtypeOf, itemBytesOf } from "./dtypes.ts";

export type NestedList = number | bigint | boolean | NestedList[];

/**
 * An n-dimensional array in C order, as numpy's: a dtype string such as `<f4`, a shape, and a typed array.
 *
 * @example new NdArray("<f4", [2, 3], new Float32Array(6)).row(1).toList(); // [0, 0, 0]
 */
export class NdArray {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: ArrayData;

  constructor(dtype: string, shape: readonly number[], data: ArrayData) {
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
  }

  /** A one-dimensional array around a typed array, without a copy. */
  static from(data: ArrayData): NdArray {
    return new NdArray(dtypeOf(data), [data.length], data);
  }

  /** The number of items: the product of the shape. */
  get size(): number {
    return this.shape.reduce((product, length) => product * length, 1);
  }

  /** Item `index` of the first axis, as a view on the same memory. */
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
    const stride = this.shape.slice(axis + 1).reduce((product, inner) => product * inner, 1);
    return Array.from({ length }, (_, index) => this.listFrom(axis + 1, offset + index * stride));
  }

  private scalarAt(offset: number): number | bigint | boolean {
    const value = this.data[offset] ?? 0;
    if (this.dtype.slice(1) === "b1") return value !== 0;
    if (typeof value !== "bigint") return value;
    return BigInt.asIntN(54, value) === value ? Number(value) : value;
  }
}

/**
 * A small seeded generator (SplitMix64, Steele, Lea and Flood 2014), so that a check with the same seed sends the same actions.
 */
export class Random {
  private state: bigint;

  constructor(seed: number) {
    this.state = BigInt(seed);
  }

  /** 64 uniform bits. */
  bits(): bigint {
    this.state = BigInt.asUintN(64, this.state + 0x9e3779b97f4a7c15n);
    let mixed = this.state;
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 30n)) * 0xbf58476d1ce4e5b9n);
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
    return mixed ^ (mixed >> 31n);
  }

  /** Uniform in [0, 1). */
  uniform(): number {
    return Number(this.bits() >> 11n) / 2 ** 53;
  }

  /** A whole number from 0 to `count` - 1. */
  below(count: number): number {
    return Math.floor(this.uniform() * count);
  }

  /** A whole number from `low` to `high`, both included; the bias of the modulo is below 2^-11 for any range in use. */
  between(low: bigint, high: bigint): bigint {
    return low + (this.bits() % (high - low + 1n));
  }

  /** Exponential with mean 1. */
  exponential(): number {
    return -Math.log1p(-this.uniform());
  }

  /** Standard normal (Box and Muller 1958). */
  normal(): number {
    return Math.sqrt(2 * this.exponential()) * Math.cos(2 * Math.PI * this.uniform());
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }
}

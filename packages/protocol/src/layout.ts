import { type Static, Type } from "typebox";

/** One array of an observation: dtype as numpy writes it (`<f4`) and the shape of one row. */
export const LayoutField = Type.Object({ dtype: Type.String(), shape: Type.Array(Type.Integer({ minimum: 0 })) });
export type LayoutField = Static<typeof LayoutField>;

/** How the fields of an array pool make up one observation. */
export type LayoutTree = { field: number } | { dict: [string, LayoutTree][] } | { tuple: LayoutTree[] };

const LayoutTree = Type.Unsafe<LayoutTree>(
  Type.Object({}, { description: '{"field":0} | {"dict":[["key",tree],…]} | {"tuple":[tree,…]}' }),
);

/** The form of a pool's observations, fixed at creation. */
export const Layout = Type.Union([
  Type.Object({ kind: Type.Literal("list") }),
  Type.Object({ kind: Type.Literal("array"), fields: Type.Array(LayoutField), tree: LayoutTree }),
]);
export type Layout = Static<typeof Layout>;

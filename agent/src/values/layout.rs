//! The form of a pool's observations: one list, or arrays of fixed dtypes and shapes in a tree.

use super::dtype::Dtype;
use super::fault::Fault;
use serde_json::{Value, json};

/// One array of the observation: what each row holds of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The element type.
    pub dtype: Dtype,
    /// The shape of one row.
    pub shape: Vec<usize>,
    /// Bytes of one row.
    pub bytes: usize,
}

/// How fields form an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// The field of that number.
    Field(usize),
    /// A dict, in the space's order.
    Dict(Vec<(String, Tree)>),
    /// A tuple.
    Tuple(Vec<Tree>),
}

/// The form of observations, decided once for a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// A list of values, each its own form.
    List,
    /// Arrays over all rows.
    Array {
        /// The arrays.
        fields: Vec<Field>,
        /// Their arrangement.
        tree: Tree,
    },
}

impl Field {
    /// A field; fails when a row of it would not fit into a frame.
    pub fn new(dtype: Dtype, shape: Vec<usize>) -> Result<Self, Fault> {
        const ROW_LIMIT_BYTES: usize = 1 << 30;
        let bytes = shape.iter().try_fold(dtype.size, |product, length| product.checked_mul(*length));
        match bytes.filter(|bytes| *bytes <= ROW_LIMIT_BYTES) {
            Some(bytes) => Ok(Self { dtype, shape, bytes }),
            None => Err(Fault::new(format!(
                "received the shape {shape:?}, expected an array of at most {ROW_LIMIT_BYTES} bytes"
            ))),
        }
    }
}

impl Layout {
    /// Bytes of one row over all fields; 0 for a list.
    pub fn row_bytes(&self) -> usize {
        match self {
            Self::List => 0,
            Self::Array { fields, .. } => fields.iter().map(|field| field.bytes).sum(),
        }
    }

    /// The layout of a `layout` request.
    pub fn from_json(value: &Value) -> Result<Self, Fault> {
        let refuse = |what: &str| {
            Fault::new(format!("received the layout {value}, expected {what} (see docs/internals/agent-channel.md)"))
        };
        match value["kind"].as_str() {
            Some("list") => Ok(Self::List),
            Some("array") => {
                let fields = value["fields"].as_array().ok_or_else(|| refuse("a list of fields"))?;
                let fields = fields.iter().map(field_from_json).collect::<Result<Vec<_>, _>>()?;
                let tree =
                    tree_from_json(&value["tree"], fields.len(), 1).ok_or_else(|| refuse("a tree over its fields"))?;
                Ok(Self::Array { fields, tree })
            }
            _ => Err(refuse("the kind list or array")),
        }
    }

    /// The layout as the channel says it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::List => json!({"kind": "list"}),
            Self::Array { fields, tree } => {
                let fields: Vec<Value> =
                    fields.iter().map(|field| json!({"dtype": field.dtype.code(), "shape": field.shape})).collect();
                json!({"kind": "array", "fields": fields, "tree": tree_to_json(tree)})
            }
        }
    }
}

fn field_from_json(value: &Value) -> Result<Field, Fault> {
    let dtype = Dtype::parse(value["dtype"].as_str().unwrap_or("").as_bytes())?;
    let shape = shape_from_json(&value["shape"]).filter(|_| dtype.is_numeric());
    match shape {
        Some(shape) => Field::new(dtype, shape),
        None => Err(Fault::new(format!("received the field {value}, expected a numeric dtype and a shape"))),
    }
}

/// A list of lengths.
pub fn shape_from_json(value: &Value) -> Option<Vec<usize>> {
    let lengths = value.as_array()?.iter();
    lengths.map(|length| length.as_u64().and_then(|length| usize::try_from(length).ok())).collect()
}

fn tree_from_json(value: &Value, fields: usize, depth: usize) -> Option<Tree> {
    if depth > super::scan::DEPTH_LIMIT {
        return None;
    }
    let object = value.as_object()?;
    if let Some(field) = object.get("field") {
        return field.as_u64().filter(|field| (*field as usize) < fields).map(|field| Tree::Field(field as usize));
    }
    if let Some(members) = object.get("dict") {
        let pairs = members
            .as_array()?
            .iter()
            .map(|pair| Some((pair.get(0)?.as_str()?.to_owned(), tree_from_json(pair.get(1)?, fields, depth + 1)?)));
        return pairs.collect::<Option<Vec<_>>>().map(Tree::Dict);
    }
    let members = object.get("tuple")?.as_array()?.iter();
    members.map(|member| tree_from_json(member, fields, depth + 1)).collect::<Option<Vec<_>>>().map(Tree::Tuple)
}

fn tree_to_json(tree: &Tree) -> Value {
    match tree {
        Tree::Field(field) => json!({"field": field}),
        Tree::Dict(members) => {
            let pairs: Vec<Value> = members.iter().map(|(key, tree)| json!([key, tree_to_json(tree)])).collect();
            json!({"dict": pairs})
        }
        Tree::Tuple(members) => {
            json!({"tuple": members.iter().map(tree_to_json).collect::<Vec<_>>()})
        }
    }
}

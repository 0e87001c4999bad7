//! A shard's proposal for the form of observations.

use super::array::Array;
use super::dtype::{Dtype, Kind};
use super::layout::{Field, Layout, Tree, shape_from_json};
use super::scan::Scanner;
use serde_json::Value;

const FLOAT64: Dtype = Dtype::new(Kind::Float, 8);
const INT64: Dtype = Dtype::new(Kind::Signed, 8);
const INT8: Dtype = Dtype::new(Kind::Signed, 1);

/// The layout of an announced observation space; a list where it is not made of fixed arrays.
pub fn from_space(space: &Value) -> Layout {
    let mut fields = Vec::new();
    match tree_of(space, &mut fields, 1) {
        Some(tree) if !fields.is_empty() => Layout::Array { fields, tree },
        _ => Layout::List,
    }
}

/// The layout of the first observation of an environment that announced no space; the text was scanned before.
pub fn from_observation(text: &[u8]) -> Layout {
    let mut scanner = Scanner::new(text);
    scanner.skip_space();
    let field = match scanner.peek() {
        b'{' => array_field(&mut scanner),
        b'[' => {
            let mut shape = Vec::new();
            rectangle(&mut scanner, 0, &mut shape).then(|| Field::new(FLOAT64, shape).ok()).flatten()
        }
        _ if number(&mut scanner) => Field::new(FLOAT64, Vec::new()).ok(),
        _ => None,
    };
    match field {
        Some(field) => Layout::Array { fields: vec![field], tree: Tree::Field(0) },
        None => Layout::List,
    }
}

fn tree_of(space: &Value, fields: &mut Vec<Field>, depth: usize) -> Option<Tree> {
    if depth > super::scan::DEPTH_LIMIT {
        return None;
    }
    let announced = || Dtype::parse(space["dtype"].as_str()?.as_bytes()).ok();
    let field = match space["type"].as_str()? {
        "Box" => Field::new(announced()?, shape_from_json(&space["shape"])?),
        "Discrete" => Field::new(announced().unwrap_or(INT64), Vec::new()),
        "MultiDiscrete" => Field::new(announced().unwrap_or(INT64), shape_of(space, &space["nvec"])?),
        "MultiBinary" => Field::new(INT8, multi_binary_shape(space)?),
        "Dict" => {
            let pairs = space["spaces"]
                .as_array()?
                .iter()
                .map(|pair| Some((pair.get(0)?.as_str()?.to_owned(), tree_of(pair.get(1)?, fields, depth + 1)?)));
            return pairs.collect::<Option<Vec<_>>>().map(Tree::Dict);
        }
        "Tuple" => {
            let members = space["spaces"].as_array()?.iter();
            let trees = members.map(|member| tree_of(member, fields, depth + 1));
            return trees.collect::<Option<Vec<_>>>().map(Tree::Tuple);
        }
        _ => return None,
    };
    let field = field.ok().filter(|field| field.dtype.is_numeric())?;
    fields.push(field);
    Some(Tree::Field(fields.len() - 1))
}

/// The shape that is announced, else that of the array or list a member holds.
fn shape_of(space: &Value, member: &Value) -> Option<Vec<usize>> {
    shape_from_json(&space["shape"]).or_else(|| shape_from_json(&member["$nd"][1])).or_else(|| {
        match from_observation(member.to_string().as_bytes()) {
            Layout::Array { fields, .. } => Some(fields[0].shape.clone()),
            Layout::List => None,
        }
    })
}

fn multi_binary_shape(space: &Value) -> Option<Vec<usize>> {
    if let Some(shape) = shape_from_json(&space["shape"]) {
        return Some(shape);
    }
    match &space["n"] {
        Value::Number(length) => Some(vec![usize::try_from(length.as_u64()?).ok()?]),
        lengths => shape_from_json(lengths),
    }
}

fn array_field(scanner: &mut Scanner<'_>) -> Option<Field> {
    scanner.at += 1;
    scanner.skip_space();
    if scanner.key().ok()? != b"$nd" {
        return None;
    }
    let array = Array::parse(scanner).ok()?;
    if !array.dtype.is_numeric() {
        return None;
    }
    Field::new(array.dtype, array.shape().to_vec()).ok()
}

/// True for a rectangular nested list of numbers; `shape` gets its lengths.
fn rectangle(scanner: &mut Scanner<'_>, level: usize, shape: &mut Vec<usize>) -> bool {
    if scanner.peek() != b'[' {
        return shape.len() == level && number(scanner);
    }
    scanner.at += 1;
    scanner.skip_space();
    let first = shape.len() == level;
    if first {
        shape.push(0);
    }
    let mut length = 0;
    if scanner.peek() == b']' {
        scanner.at += 1;
    } else {
        loop {
            // Only the very first path may still add levels; any later member has to match them.
            let expected = shape.len();
            if !rectangle(scanner, level + 1, shape) {
                return false;
            }
            if (length > 0 || !first) && shape.len() != expected {
                return false;
            }
            length += 1;
            match scanner.closes(b']') {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) => return false,
            }
        }
    }
    if first {
        shape[level] = length;
    }
    shape[level] == length
}

/// Takes one number, a bare NaN or Infinity or a `$float`.
fn number(scanner: &mut Scanner<'_>) -> bool {
    match scanner.peek() {
        b'-' | b'0'..=b'9' | b'N' | b'I' => scanner.value(1).is_ok(),
        b'{' => {
            let tagged = scanner.text[scanner.at + 1..].trim_ascii_start();
            tagged.starts_with(b"\"$float\"") && scanner.value(1).is_ok()
        }
        _ => false,
    }
}

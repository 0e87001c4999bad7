//! Stacked values: taken as blocks and taken apart again, and whatever is damaged is refused without harm.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sandpool_agent::values::dtype::{Dtype, Kind};
use sandpool_agent::values::fit::fit;
use sandpool_agent::values::layout::{Field, Layout, Tree};
use sandpool_agent::values::packed;
use sandpool_agent::values::reply::Member;
use sandpool_agent::values::stack::{blocks, unstack};
use serde_json::{Value, json};
use std::borrow::Cow;

/// A dict of a uint8 image, a float32 vector and, in a tuple, an int64 scalar.
fn layout() -> (Vec<Field>, Tree) {
    let field = |kind, size, shape| Field::new(Dtype::new(kind, size), shape).expect("a field");
    let fields =
        vec![field(Kind::Unsigned, 1, vec![2, 2]), field(Kind::Float, 4, vec![3]), field(Kind::Signed, 8, Vec::new())];
    let tree = Tree::Dict(vec![
        ("image".to_owned(), Tree::Field(0)),
        ("$odd".to_owned(), Tree::Field(1)),
        ("pair".to_owned(), Tree::Tuple(vec![Tree::Field(2)])),
    ]);
    (fields, tree)
}

/// The bytes of each field for that many rows.
fn columns(count: usize) -> [Vec<u8>; 3] {
    let image = (0..count * 4).map(|at| at as u8).collect();
    let floats = (0..count * 3).flat_map(|at| (at as f32 * 0.5).to_le_bytes()).collect();
    let numbers = (0..count).flat_map(|at| (at as i64 - 2).to_le_bytes()).collect();
    [image, floats, numbers]
}

/// The same observations stacked, with bytes that follow the line or in base64.
fn stacked(count: usize, raw: bool) -> (String, Vec<u8>) {
    let mut tail = Vec::new();
    let parts = columns(count).map(|bytes| {
        if !raw {
            return json!(STANDARD.encode(&bytes)).to_string();
        }
        tail.extend_from_slice(&bytes);
        format!("{},{}", tail.len() - bytes.len(), bytes.len())
    });
    let [image, floats, numbers] = parts;
    let text = format!(
        r#"{{ "image":{{"$nd":["|u1",[{count},2,2],{image}]}},"$$odd":{{"$nd":["<f4",[{count},3],{floats}]}},
        "pair":{{"$tuple":[{{"$nd":["<i8",[{count}],{numbers}]}}]}}}}"#
    );
    (text, tail)
}

#[test]
fn raw_stacks_are_borrowed_as_they_are() {
    let (fields, tree) = layout();
    for count in [1, 2, 7] {
        let (text, raw) = stacked(count, true);
        let found = blocks(&fields, &tree, count, &text.into_bytes(), &raw).expect("blocks");
        for (block, column) in found.iter().zip(columns(count)) {
            assert!(matches!(block, Cow::Borrowed(_)), "no copy");
            assert_eq!(block.as_ref(), column);
        }
        let (text, _) = stacked(count, false);
        let found = blocks(&fields, &tree, count, text.as_bytes(), &[]).expect("blocks");
        assert_eq!(found.iter().map(|block| block.to_vec()).collect::<Vec<_>>(), columns(count));
    }
}

#[test]
fn each_row_of_a_stack_is_what_that_row_alone_would_have_said() {
    let (fields, tree) = layout();
    let count = 5;
    for raw in [true, false] {
        let (text, tail) = stacked(count, raw);
        for row in 0..count {
            let mut alone = Vec::new();
            assert!(unstack(text.as_bytes(), &tail, count, row, &mut alone).expect("a row"), "it holds arrays");
            let mut fitted = Vec::new();
            fit(&fields, &tree, &alone, &[], &mut fitted).expect("it fits");
            let parts = fields.iter().zip(columns(count));
            let expected: Vec<u8> =
                parts.flat_map(|(field, column)| column[row * field.bytes..(row + 1) * field.bytes].to_vec()).collect();
            assert_eq!(fitted, expected);
            let value: Value = serde_json::from_slice(&alone).expect("JSON");
            assert_eq!(value["pair"]["$tuple"][0], row as i64 - 2, "a number is a plain one");
        }
    }
}

#[test]
fn numbers_are_cast_and_lists_are_taken_where_a_stack_may_be() {
    let field = Field::new(Dtype::new(Kind::Float, 4), vec![2]).expect("a field");
    let doubles: Vec<u8> = [1.5f64, -2.0, 0.1, 4.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let singles: Vec<u8> = [1.5f32, -2.0, 0.1, 4.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let fields = [field];
    let tree = Tree::Field(0);
    let found = blocks(&fields, &tree, 2, br#"{"$nd":["<f8",[2,2],0,32]}"#, &doubles).expect("blocks");
    assert_eq!(found[0].as_ref(), singles);
    let found = blocks(&fields, &tree, 2, b"[[1.5, -2],[0.1,4e0]]", &[]).expect("blocks");
    assert_eq!(found[0].as_ref(), singles);
}

#[test]
fn unstacking_reaches_into_lists() {
    let mut out = Vec::new();
    let text = br#"{"words":["a","b"],"more":[{"$float":"nan"},NaN],"none":{}}"#;
    assert!(!unstack(text, &[], 2, 1, &mut out).expect("a row"));
    assert_eq!(String::from_utf8(out).expect("UTF-8"), r#"{"words":"b","more":{"$float":"nan"},"none":{}}"#);
    for wrong in
        ["[1]", "[1,2,3]", "7", "\"text\"", r#"{"a":1}"#, r#"{"$nd":["<f4",[],"AAAAAA=="]}"#, r#"{"$bytes":""}"#]
    {
        assert!(unstack(wrong.as_bytes(), &[], 2, 0, &mut Vec::new()).is_err(), "{wrong}");
    }
}

#[test]
fn rewards_and_flags_are_taken_from_arrays_and_lists_of_their_length_alone() {
    let never = |_: usize| false;
    let mut rewards = Vec::new();
    let mut flags = Vec::new();
    let member = |text: &'static str| packed::item(text.as_bytes()).expect("a value");
    let cases = [r#"{"$nd":["<f4",[2],"AACAPwAAAEA="]}"#, "[1,2.0]", r#"[true,{"$nd":["<f4",[],"AAAAQA=="]}]"#];
    for case in cases {
        packed::rewards(&member(case), &[], 2, &never, &mut rewards).expect(case);
        assert_eq!(rewards, [1.0, 2.0], "{case}");
    }
    packed::flags(&member(r#"{"$nd":["|b1",[3],"AAEC"]}"#), &[], 3, "done", &never, &mut flags).expect("flags");
    assert_eq!(flags, [0, 1, 1], "a byte that is neither 0 nor 1 is true, and never passed on");
    packed::flags(&member("[true,null,false]"), &[], 3, "done", &|place| place == 1, &mut flags).expect("flags");
    assert_eq!(flags, [1, 0, 0]);
    for wrong in ["[1]", "[1,2,3]", "{}", "7", "null", r#"{"$nd":["<f8",[1],"AAAAAAAAAAA="]}"#] {
        assert!(packed::rewards(&member(wrong), &[], 2, &never, &mut rewards).is_err(), "{wrong}");
        assert!(packed::flags(&member(wrong), &[], 2, "done", &never, &mut flags).is_err(), "{wrong}");
    }
}

#[test]
fn whatever_is_damaged_is_taken_whole_or_refused() {
    let (fields, tree) = layout();
    let count = 3;
    let bytes_of_rows: usize = Layout::Array { fields: fields.clone(), tree: tree.clone() }.row_bytes() * count;
    let mut state = 88172645463325252u64;
    let mut next = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let mut taken = 0;
    for turn in 0..20_000 {
        let (text, raw) = stacked(count, turn % 2 == 0);
        let mut line = format!(r#"{{"id":3,"obs":{text},"raw":{}}}"#, raw.len()).into_bytes();
        for _ in 0..1 + next(3) {
            let at = next(line.len());
            match next(3) {
                0 => line[at] = b" \"{}[]0:,$n9"[next(12)],
                1 => drop(line.remove(at)),
                _ => line.insert(at, b"0]}{[,\"1"[next(8)]),
            }
        }
        let Ok(reply) = packed::scan(&line) else { continue };
        let Some(Member { text, .. }) = reply.obs else { continue };
        if let Ok(found) = blocks(&fields, &tree, count, text, &raw) {
            assert_eq!(found.iter().map(|block| block.len()).sum::<usize>(), bytes_of_rows);
            taken += 1;
        }
        for row in 0..count {
            let mut alone = Vec::new();
            if unstack(text, &raw, count, row, &mut alone).is_ok() {
                serde_json::from_slice::<serde::de::IgnoredAny>(&alone).expect("JSON");
            }
        }
    }
    assert!(taken > 100, "some damage is harmless: {taken}");
}

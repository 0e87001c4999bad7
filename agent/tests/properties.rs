//! What holds for every text, array and number: checked on many, from a fixed seed.

use sandpool_agent::values::dtype::{Dtype, Kind};
use sandpool_agent::values::elements::{Element, parse_number};
use sandpool_agent::values::fit::fit;
use sandpool_agent::values::layout::{Field, Layout, Tree};
use sandpool_agent::values::propose;
use sandpool_agent::values::rewrite::{Arrays, rewrite};
use sandpool_agent::values::scan::scan_value;
use sandpool_agent::values::{lists, numbers, reply};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// xorshift64
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

fn space(random: &mut Random, out: &mut String) {
    out.push_str(random.pick(&["", "", "", " ", "\n", "\t \r"]));
}

fn text(random: &mut Random, out: &mut String) {
    out.push('"');
    let pieces = [
        "a",
        "plain text longer than one word",
        "é",
        "日本",
        "😀",
        "\\n",
        "\\\"",
        "\\\\",
        "\\u00e9",
        "\\ud83d\\ude00",
        "/",
        "\u{7f}",
    ];
    for _ in 0..random.below(5) {
        out.push_str(random.pick(&pieces));
    }
    out.push('"');
}

fn value(random: &mut Random, depth: u64, out: &mut String) {
    space(random, out);
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 => out.push_str(random.pick(&["0", "-0", "17", "-3.25", "1e5", "2.5E-3", "123456789012345678901234567890"])),
        1 => out.push_str(random.pick(&["true", "false", "null"])),
        2 => text(random, out),
        3 => out.push_str(r#"{"$nd":["<i2",[2],"AQACAA=="]}"#),
        4 => out.push_str(random.pick(&["[]", "{}", r#"{"$float":"-inf"}"#, r#"{"$bytes":"AAE="}"#])),
        5 | 6 => {
            out.push('[');
            for position in 0..random.below(4) {
                if position > 0 {
                    out.push(',');
                }
                value(random, depth - 1, out);
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for position in 0..random.below(4) {
                if position > 0 {
                    out.push(',');
                }
                space(random, out);
                out.push_str(&format!("\"key{position}\""));
                space(random, out);
                out.push(':');
                value(random, depth - 1, out);
            }
            space(random, out);
            out.push('}');
        }
    }
    space(random, out);
}

#[test]
fn every_valid_text_is_accepted_and_rewritten_to_the_same_value() {
    let mut random = Random(0x5eed_0001);
    for _ in 0..20_000 {
        let mut generated = String::new();
        value(&mut random, 5, &mut generated);
        let found = scan_value(generated.as_bytes()).unwrap_or_else(|fault| panic!("{fault}: {generated}"));
        assert_eq!(found.arrays, generated.contains("$nd"));
        let mut tagged = Vec::new();
        rewrite(generated.as_bytes(), &[], Arrays::Tagged, &mut tagged).expect("a rewritten text");
        let before: Value = serde_json::from_str(&generated).expect("JSON");
        let after: Value = serde_json::from_slice(&tagged).expect("JSON");
        assert_eq!(before, after);
        let mut listed = Vec::new();
        rewrite(&tagged, &[], Arrays::Lists, &mut listed).expect("lists");
        let lists = String::from_utf8(listed).expect("UTF-8");
        assert!(!lists.contains("$nd") && scan_value(lists.as_bytes()).is_ok(), "{lists}");
    }
}

#[test]
fn whatever_is_accepted_after_damage_is_still_json() {
    let mut random = Random(0x5eed_0002);
    let mut accepted = 0;
    for _ in 0..100_000 {
        let mut generated = String::new();
        value(&mut random, 4, &mut generated);
        let mut bytes = generated.into_bytes();
        for _ in 0..=random.below(2) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = random.next() as u8,
                2 => bytes.insert(at, random.pick(b"{}[],:\"\\0123.eE+-tfnNI$ \x00\xc3\xed\xff")),
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        let Ok(found) = scan_value(&bytes) else { continue };
        accepted += 1;
        let mut plain = Vec::new();
        if rewrite(&bytes, &[], Arrays::Tagged, &mut plain).is_err() {
            assert!(found.arrays, "only an array can turn out not to be one: {}", String::from_utf8_lossy(&bytes));
            continue;
        }
        std::str::from_utf8(&plain).expect("UTF-8");
        let parsed = serde_json::from_slice::<IgnoredAny>(&plain);
        assert!(parsed.is_ok(), "{:?}: {}", parsed, String::from_utf8_lossy(&bytes));
    }
    assert!(accepted > 5_000, "{accepted} damaged texts were still valid");
}

#[test]
fn a_scanned_answer_has_the_members_that_a_json_parser_finds() {
    let mut random = Random(0x5eed_0003);
    for _ in 0..10_000 {
        let (mut observation, mut info) = (String::new(), String::new());
        value(&mut random, 3, &mut observation);
        value(&mut random, 3, &mut info);
        let id = random.below(1 << 40);
        let line =
            format!(r#" {{"info":{info}, "x":[{observation}],"obs" :{observation},"terminated":true,"id":{id}}} "#);
        let scanned = reply::scan(line.as_bytes()).expect("an answer");
        let parsed: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(scanned.id, Some(id));
        assert_eq!(scanned.terminated, Some(true));
        let obs: Value = serde_json::from_slice(scanned.obs.expect("obs").text).expect("JSON");
        assert_eq!(obs, parsed["obs"]);
        assert_eq!(scanned.info.is_none(), parsed["info"].is_null());
    }
}

#[test]
fn floats_read_back_as_what_was_written() {
    let mut random = Random(0x5eed_0004);
    for _ in 0..100_000 {
        let float = f64::from_bits(random.next());
        let mut written = Vec::new();
        numbers::write_f64(&mut written, float);
        if float.is_finite() {
            assert_eq!(numbers::parse_f64(&written).expect("a number").to_bits(), float.to_bits());
        }
        let integer = random.next() as i64;
        written.clear();
        numbers::write_i64(&mut written, integer);
        assert_eq!(written, integer.to_string().into_bytes());
    }
}

#[test]
fn every_half_precision_float_survives_a_round_trip() {
    let half = Dtype::new(Kind::Float, 2);
    for bits in 0..=u16::MAX {
        let element = Element::read(half, &bits.to_le_bytes());
        if element.real().is_nan() {
            continue;
        }
        let mut written = Vec::new();
        element.write(half, &mut written);
        assert_eq!(written, bits.to_le_bytes(), "{bits:#06x}");
    }
    // IEEE 754: 1/3 is 0x3555, the largest is 65504 = 0x7bff, halfway above it rounds to infinity.
    for (value, bits) in [(1.0 / 3.0, 0x3555u16), (65504.0, 0x7bff), (65520.0, 0x7c00), (6e-8, 0x0001), (-2.0, 0xc000)]
    {
        let mut written = Vec::new();
        Element::Float(value).write(half, &mut written);
        assert_eq!(written, bits.to_le_bytes(), "{value}");
    }
}

#[test]
fn rectangular_lists_become_float64_rows_in_order() {
    let mut random = Random(0x5eed_0005);
    for _ in 0..2_000 {
        let rank = random.below(4) as usize;
        let shape: Vec<usize> = (0..rank).map(|_| 1 + random.below(3) as usize).collect();
        let count: usize = shape.iter().product();
        let floats: Vec<f64> = (0..count).map(|_| random.below(1000) as f64 / 8.0 - 20.0).collect();
        let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
        let mut list = Vec::new();
        lists::write(Dtype::new(Kind::Float, 8), &shape, &bytes, &mut list);
        let Layout::Array { fields, tree } = propose::from_observation(&list) else {
            panic!("no array: {}", String::from_utf8_lossy(&list));
        };
        assert_eq!(fields[0].shape, shape);
        let mut row = Vec::new();
        fit(&fields, &tree, &list, &[], &mut row).expect("a row");
        assert_eq!(row, bytes);
    }
}

#[test]
fn what_is_not_rectangular_or_not_numbers_makes_a_list_pool() {
    for text in [
        "[1,[2]]",
        "[[1],2]",
        "[[1,2],[3]]",
        "[[],[1]]",
        "[true]",
        "[\"a\"]",
        "null",
        "{}",
        "\"a\"",
        "[null]",
        "[[1],[]]",
    ] {
        assert_eq!(propose::from_observation(text.as_bytes()), Layout::List, "{text}");
    }
    for (text, shape) in [("[]", vec![0]), ("[[],[]]", vec![2, 0]), ("3", vec![]), ("[NaN,-Infinity]", vec![2])] {
        let Layout::Array { fields, .. } = propose::from_observation(text.as_bytes()) else { panic!("{text}") };
        assert_eq!(fields[0].shape, shape, "{text}");
    }
}

#[test]
fn numbers_are_taken_into_a_dtype_only_without_loss_of_their_value() {
    let accepted: [(&str, &str, &[u8]); 8] = [
        ("255", "|u1", &[255]),
        ("-128", "|i1", &[128]),
        ("3.0", "<i2", &[3, 0]),
        ("1e2", "|u1", &[100]),
        ("1", "|b1", &[1]),
        ("18446744073709551615", "<u8", &[255; 8]),
        ("0.5", "<f4", &[0, 0, 0, 63]),
        ("Infinity", "<f4", &[0, 0, 128, 127]),
    ];
    for (token, dtype, bytes) in accepted {
        let mut out = Vec::new();
        parse_number(token.as_bytes(), Dtype::parse(dtype.as_bytes()).expect("a dtype"), &mut out).expect(token);
        assert_eq!(out, bytes, "{token} as {dtype}");
    }
    for (token, dtype) in
        [("256", "|u1"), ("-1", "<u4"), ("0.5", "<i8"), ("2", "|b1"), ("NaN", "<i4"), ("1e300", "<i8")]
    {
        let dtype = Dtype::parse(dtype.as_bytes()).expect("a dtype");
        assert!(parse_number(token.as_bytes(), dtype, &mut Vec::new()).is_err(), "{token} as {}", dtype.code());
    }
}

#[test]
fn arrays_are_cast_by_numpys_same_kind_rule() {
    // numpy.can_cast(row, column, "same_kind")
    let dtypes = ["|b1", "<u4", "<i2", "<f2", "<c8"];
    let allowed = [
        [true, true, true, true, true],
        [false, true, true, true, true],
        [false, false, true, true, true],
        [false, false, false, true, true],
        [false, false, false, false, true],
    ];
    for (from, row) in dtypes.iter().zip(allowed) {
        for (to, expected) in dtypes.iter().zip(row) {
            let parse = |code: &str| Dtype::parse(code.as_bytes()).expect("a dtype");
            assert_eq!(parse(from).casts_to(parse(to)), expected, "{from} to {to}");
        }
    }
    let field = |code: &str| Field::new(Dtype::parse(code.as_bytes()).expect("a dtype"), vec![2]).expect("a field");
    let mut row = Vec::new();
    // numpy.array([1, -2], "<i2").astype("|i1"), and [1.5, -2.5] from float64 to float32
    let text = br#"{"$nd":["<i2",[2],"AQD+/w=="]}"#;
    fit(&[field("|i1")], &Tree::Field(0), text, &[], &mut row).expect("a narrower integer");
    assert_eq!(row, [1, 254]);
    let text = br#"{"$nd":["<f8",[2],"AAAAAAAA+D8AAAAAAAAEwA=="]}"#;
    fit(&[field("<f4")], &Tree::Field(0), text, &[], &mut row).expect("a narrower float");
    assert_eq!(row, [0, 0, 192, 63, 0, 0, 32, 192]);
    assert!(fit(&[field("<i8")], &Tree::Field(0), text, &[], &mut row).is_err());
}

#[test]
fn a_layout_comes_back_from_its_own_json() {
    let space = json!({"type": "Dict", "spaces": [["a", {"type": "Box", "dtype": "<f4", "shape": [3, 2]}],
        ["b", {"type": "Tuple", "spaces": [{"type": "MultiDiscrete", "dtype": "<i8", "shape": [2],
            "nvec": {"$nd": ["<i8", [2], ""]}}, {"type": "MultiBinary", "n": 4}, {"type": "Discrete", "n": 2}]}]]});
    let layout = propose::from_space(&space);
    assert_eq!(layout.row_bytes(), 24 + 16 + 4 + 8);
    assert_eq!(Layout::from_json(&layout.to_json()), Ok(layout));
    for other in [json!({"type": "Text"}), json!({"type": "Dict", "spaces": [["x", {"type": "Sequence"}]]}), json!({})]
    {
        assert_eq!(propose::from_space(&other), Layout::List);
    }
}

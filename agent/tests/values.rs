//! Observations, actions and infos in both encodings.

mod harness;

use harness::{Agent, Batch, puppets};
use serde_json::{Value, json};

fn f8(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|chunk| f64::from_le_bytes(chunk.try_into().expect("eight bytes"))).collect()
}

fn answer(members: &str) -> Value {
    json!([["write", format!(r#"{{"id":$ID,"reward":1,"terminated":false,{members}}}"#)]])
}

fn binary(agent: &mut Agent, actions: Value) -> Batch {
    agent.step(actions, json!({"encoding": "binary"}))
}

#[test]
fn a_binary_batch_has_buffers_and_sparse_infos() {
    let (mut agent, start) = puppets(json!({"obs": [0.5, 1]}), 3, json!({}));
    assert_eq!(start["layout"]["fields"], json!([{"dtype": "<f8", "shape": [2]}]));
    let batch = binary(
        &mut agent,
        json!([answer(r#""obs":[1,2]"#), [["exit", 1]], answer(r#""obs":[NaN,-Infinity],"info":{"x":Infinity}"#)]),
    );
    let observations = f8(batch.bytes("obs", Some(0)));
    assert_eq!(observations[..4], [1.0, 2.0, 0.0, 0.0], "zeros for a failed row");
    assert!(observations[4].is_nan() && observations[5] == f64::NEG_INFINITY);
    assert_eq!(f8(batch.bytes("rewards", None)), [1.0, 0.0, 1.0]);
    assert_eq!(batch.bytes("terminated", None), [0, 0, 0]);
    assert_eq!(batch.bytes("truncated", None), [0, 1, 0]);
    let infos: Value = serde_json::from_str(&format!("{{{}}}", batch.text("infos"))).expect("infos");
    assert_eq!(infos["2"], json!({"x": {"$float": "inf"}}));
    assert_eq!(infos["1"]["sandpool_error"]["exit_code"], 1);
    assert_eq!(infos.get("0"), None);
    let columns = batch.head["columns"].as_array().expect("columns");
    assert_eq!(columns[4]["json"], true);
    let observed = agent.request(&json!({"op": "observe", "encoding": "binary"}), b"");
    assert_eq!(f8(&observed.body[..32]), [1.0, 2.0, 0.5, 1.0], "the last good one stays");
}

#[test]
fn raw_bytes_after_a_line_are_its_arrays() {
    let space = json!({"type": "Box", "dtype": "<f4", "shape": [2, 2]});
    let hello = json!({"features": ["raw"], "observation_space": space});
    let zeros = json!({"$nd": ["<f4", [2, 2], "AAAAAAAAAAAAAAAAAAAAAA=="]});
    let (mut agent, start) = puppets(json!({"hello": hello, "obs": zeros}), 2, json!({}));
    assert_eq!(start["layout"]["fields"], json!([{"dtype": "<f4", "shape": [2, 2]}]));
    let floats = |values: [f32; 4]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = r#"{"id":$ID,"obs":{"$nd":["<f4",[2,2],4,16]},"reward":1,"terminated":false,"raw":20,"info":{"a":{"$nd":["<u1",[4],0,4]}}}"#;
    let script = json!([["write", text], ["hex", hex(&[1, 10, 0, 255])], ["hex", hex(&floats([1.0, 2.0, 3.0, 4.5]))]]);
    let batch = agent.step(json!([script, 0]), json!({"rows": [0], "encoding": "json"}));
    assert_eq!(batch.column("obs"), json!([[[1.0, 2.0], [3.0, 4.5]]]));
    assert_eq!(batch.column("infos"), json!([{"a": [1, 10, 0, 255]}]));
}

#[test]
fn array_actions_are_raw_for_programs_that_take_it_and_lists_for_others() {
    for (features, expected, raw) in
        [(json!(["raw"]), r#"{"$nd": ["<i4", [2], 0, 8]}"#, "01000000feffffff"), (json!([]), "[1, -2]", "")]
    {
        let (mut agent, _) = puppets(json!({"hello": {"features": features}}), 1, json!({}));
        let head = json!({"op": "step", "seq": 1, "encoding": "json", "rows": null, "offset": 0,
            "actions": {"kind": "array", "dtype": "<i4", "shape": [2]}});
        let body: Vec<u8> = [1i32, -2].iter().flat_map(|value| value.to_le_bytes()).collect();
        let batch = Batch::of(agent.request(&head, &body));
        assert_eq!(batch.column("infos")[0], json!({"action": expected, "raw": raw}));
    }
}

#[test]
fn scalar_actions_are_plain_numbers() {
    let (mut agent, _) = puppets(json!({"hello": {"features": ["raw"]}}), 3, json!({}));
    let head = json!({"op": "step", "seq": 1, "encoding": "json", "rows": null, "offset": 0,
        "actions": {"kind": "array", "dtype": "<i8", "shape": []}});
    let body: Vec<u8> = [5i64, -6, 7].iter().flat_map(|value| value.to_le_bytes()).collect();
    let batch = Batch::of(agent.request(&head, &body));
    assert_eq!(batch.text("obs"), "5.0,-6.0,7.0");
    let head = json!({"op": "step", "seq": 2, "encoding": "json", "rows": null, "offset": 0,
        "actions": {"kind": "array", "dtype": "<f4", "shape": []}});
    let body: Vec<u8> = [0.5f32, 1e20, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    // The double nearest to 1e20 in single precision, in its shortest form.
    assert_eq!(Batch::of(agent.request(&head, &body)).text("obs"), "0.5,1.0000000200408773e+20,3.0");
}

#[test]
fn a_nonfinite_reward_is_delivered_with_a_warning() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    let script = |reward: &str, info: &str| {
        json!([["write", format!(r#"{{"id":$ID,"obs":1,"reward":{reward},"terminated":false{info}}}"#)]])
    };
    let batch = agent.step(
        json!([script("NaN", ""), script("-Infinity", r#","info":{"a":1}"#), script(r#"{"$float":"inf"}"#, "")]),
        json!({}),
    );
    assert_eq!(batch.column("rewards"), json!([{"$float": "nan"}, {"$float": "-inf"}, {"$float": "inf"}]));
    assert_eq!(batch.head["failed"], json!([]));
    assert_eq!(batch.column("infos")[1], json!({"a": 1, "sandpool_warning": "nonfinite_reward"}));
    assert_eq!(batch.column("infos")[0], json!({"sandpool_warning": "nonfinite_reward"}));
}

#[test]
fn a_reward_may_be_a_numpy_scalar_or_a_truth_value() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let script =
        |reward: &str| json!([["write", format!(r#"{{"id":$ID,"obs":1,"reward":{reward},"terminated":false}}"#)]]);
    let batch = agent.step(json!([script(r#"{"$nd":["<f4",[],"AACAPw=="]}"#), script("true")]), json!({}));
    assert_eq!(batch.column("rewards"), json!([1.0, 1.0]));
}

#[test]
fn a_list_pool_keeps_tagged_arrays_for_binary_and_gives_lists_for_json() {
    let text = json!({"name": "x", "a": {"$nd": ["<i2", [2], "AQACAA=="]}});
    let (mut agent, start) = puppets(json!({"obs": text}), 1, json!({}));
    assert_eq!(start["layout"], json!({"kind": "list"}));
    let script =
        answer(r#""obs":{"t":{"$tuple":[{"$nd":["<f4",[],"AADAPw=="]},"é"]}},"info":{"m":{"$nd":["|b1",[2],"AQA="]}}"#);
    let batch = agent.step(json!([script]), json!({}));
    assert_eq!(batch.column("obs"), json!([{"t": {"$tuple": [1.5, "é"]}}]));
    assert_eq!(batch.column("infos"), json!([{"m": [true, false]}]));
    let batch = binary(&mut agent, json!([script]));
    assert_eq!(batch.text("obs"), r#"{"t":{"$tuple":[{"$nd":["<f4",[],"AADAPw=="]},"é"]}}"#);
    assert_eq!(batch.text("infos"), r#""0":{"m":{"$nd":["|b1",[2],"AQA="]}}"#);
    let failed = agent.step(json!([[["exit", 1]]]), json!({}));
    assert_eq!(failed.text("obs"), "null");
    let observed = Batch::of(agent.request(&json!({"op": "observe", "encoding": "json"}), b""));
    assert_eq!(observed.column("obs"), json!([{"t": {"$tuple": [1.5, "é"]}}]));
}

#[test]
fn dict_and_tuple_spaces_become_fields_in_a_tree() {
    let space = json!({"type": "Dict", "spaces": [
        ["$p", {"type": "Box", "dtype": "<f4", "shape": [2]}],
        ["t", {"type": "Tuple", "spaces": [
            {"type": "Discrete", "n": 3, "start": 0, "dtype": "<i8"}, {"type": "MultiBinary", "n": 2}]}]]});
    let first = json!({"$$p": [0, 0], "t": {"$tuple": [0, [0, 0]]}});
    let (mut agent, start) = puppets(json!({"hello": {"observation_space": space}, "obs": first}), 2, json!({}));
    assert_eq!(
        start["layout"],
        json!({"kind": "array",
            "fields": [{"dtype": "<f4", "shape": [2]}, {"dtype": "<i8", "shape": []}, {"dtype": "|i1", "shape": [2]}],
            "tree": {"dict": [["$p", {"field": 0}], ["t", {"tuple": [{"field": 1}, {"field": 2}]}]]}})
    );
    let script = answer(r#""obs":{"t":[2,{"$nd":["|b1",[2],"AQA="]}],"$$p":[1.5,-2]}"#);
    let batch = agent.step(json!([script, answer(r#""obs":{"$$p":[1,2]}"#)]), json!({}));
    assert_eq!(batch.column("obs"), json!([{"$$p": [1.5, -2.0], "t": {"$tuple": [2, [1, 0]]}}, null]));
    let message = batch.error(1)["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("without the key \"t\""), "{message}");
    let batch = binary(&mut agent, json!([script, 0]));
    assert_eq!(batch.bytes("obs", Some(1)), [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(batch.bytes("obs", Some(2)), [1, 0, 0, 0]);
}

#[test]
fn a_value_over_its_rows_share_is_a_protocol_fault() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"max_row_bytes": 1000}));
    let batch = agent.step(json!([1, answer(&format!(r#""obs":1,"info":{{"x":"{}"}}"#, "y".repeat(2000)))]), json!({}));
    assert_eq!(batch.error(1)["kind"], "protocol");
    assert!(batch.error(1)["message"].as_str().expect("a message").contains("share of 1000"));
}

#[test]
fn a_large_answer_in_pieces_comes_together() {
    let space = json!({"type": "Box", "dtype": "|u1", "shape": [100_000]});
    let settings = json!({"hello": {"observation_space": space, "features": ["raw"]},
        "zeros": 100_000, "socket": true});
    let (mut agent, _) = puppets(settings, 2, json!({}));
    let text = r#"{"id":$ID,"obs":{"$nd":["|u1",[100000],0,100000]},"reward":1,"terminated":false,"raw":100000}"#;
    let script = |byte: &str| {
        json!([
            ["text", &text[..20]],
            ["sleep", 0.02],
            ["write", &text[20..]],
            ["hex", byte.repeat(30_000)],
            ["sleep", 0.02],
            ["hex", byte.repeat(70_000)]
        ])
    };
    let batch = binary(&mut agent, json!([script("07"), script("ff")]));
    assert_eq!(batch.head["failed"], json!([]), "{}", batch.text("infos"));
    let observations = batch.bytes("obs", Some(0));
    assert!(observations[..100_000].iter().all(|byte| *byte == 7));
    assert!(observations[100_000..].iter().all(|byte| *byte == 255));
}

#[test]
fn a_layout_that_the_first_observation_does_not_fit_is_refused_with_the_row() {
    let mut agent = Agent::new();
    let argv = harness::puppet(json!({"obs": [1, 2, 3]}));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let head = agent.start_head(&argv, 1, json!({"n": 5, "first": 3}));
    agent.request(&head, b"{}");
    let layout = json!({"kind": "array", "fields": [{"dtype": "<f8", "shape": [2]}], "tree": {"field": 0}});
    let reply = agent.request(&json!({"op": "layout", "layout": layout}), b"");
    assert_eq!(reply.head["error"]["code"], "environment_failed");
    assert_eq!(reply.head["error"]["details"]["row"], 3);
    assert_eq!(reply.head["error"]["details"]["kind"], "protocol");
}

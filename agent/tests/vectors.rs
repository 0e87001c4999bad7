//! The vectors that the agent shares with the worker and the Python helper.

mod harness;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::{Agent, Batch, puppet, puppets};
use sandpool_agent::channel::frame::{self, Kind};
use sandpool_agent::channel::reader::FrameReader;
use sandpool_agent::values::array::Array;
use sandpool_agent::values::lists;
use sandpool_agent::values::scan::{Scanner, scan_value};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
struct Protocol {
    messages: BTreeMap<String, Vec<Message>>,
    arrays: Vec<ArrayCase>,
    values: Vec<ValueCase>,
    illegal_values: Vec<IllegalCase>,
}

#[derive(Deserialize)]
struct Message {
    name: String,
    request: Value,
    reply: Option<String>,
    reply_base64: Option<String>,
    raw: Option<String>,
    kind: String,
    expect: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct ArrayCase {
    name: String,
    json: Box<RawValue>,
    shape: Vec<usize>,
    bytes: String,
    list: Option<Value>,
}

#[derive(Deserialize)]
struct ValueCase {
    name: String,
    json: Box<RawValue>,
}

#[derive(Deserialize)]
struct IllegalCase {
    name: String,
    json: String,
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn protocol() -> Protocol {
    serde_json::from_str(&read("env-protocol.json")).expect("the protocol's vectors")
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
}

impl Message {
    /// The puppet's script that gives this answer.
    fn script(&self) -> Value {
        let line = match (&self.reply, &self.reply_base64) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(text)) => STANDARD.decode(text).expect("base64"),
            (None, None) => panic!("{}: no reply", self.name),
        };
        let mut bytes: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.push_str("0a");
        bytes.push_str(self.raw.as_deref().unwrap_or(""));
        json!([["hex", bytes]])
    }
}

/// Plays messages with the same id, each in a row of its own; the rows' requests come to that id.
fn play(messages: &[&Message]) -> Batch {
    let space = json!({"observation_space": {"type": "Custom", "repr": "any"}});
    let id = messages[0].request["id"].as_u64().expect("an id");
    let count = messages.len() as u32;
    let scripts: Vec<Value> = messages.iter().map(|message| message.script()).collect();
    let (mut agent, _) = puppets(json!({"hello": space}), count, json!({"first_reset": id != 2}));
    match messages[0].request["op"].as_str().expect("an op") {
        "reset" => {
            let seq = agent.next_seq();
            let head = json!({"op": "reset", "seq": seq, "encoding": "json", "rows": null, "seeds": null,
                "hard": false, "offset": 0, "total": count});
            Batch::of(agent.request(&head, json!({"options": scripts}).to_string().as_bytes()))
        }
        "step" => agent.step(json!(scripts), json!({})),
        _ => {
            for _ in 3..id {
                agent.step(json!(vec![0; messages.len()]), json!({}));
            }
            agent.call("play", json!({"values": scripts}), json!({"call": "set", "per_row": true, "total": count}))
        }
    }
}

fn check_reply(message: &Message, batch: &Batch, slot: usize) {
    let name = &message.name;
    if message.kind == "illegal" {
        assert_eq!(batch.error(slot)["kind"], "protocol", "{name}: {}", batch.text("infos"));
        return;
    }
    let expect: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(message.expect.as_ref().expect("expect").get()).expect("members");
    if let Some(error) = expect.get("error") {
        let error: Value = serde_json::from_str(error.get()).expect("an error");
        let received = batch.error(slot);
        for member in ["kind", "type", "message"] {
            assert_eq!(received[member], error[member], "{name}");
        }
        return;
    }
    assert_eq!(batch.error(slot), Value::Null, "{name}");
    let columns = [
        ("obs", "obs"),
        ("reward", "rewards"),
        ("terminated", "terminated"),
        ("truncated", "truncated"),
        ("result", "results"),
        ("info", "infos"),
    ];
    for (member, column) in columns {
        let Some(expected) = expect.get(member) else { continue };
        let received = batch.items(column)[slot].replace(r#""sandpool_warning":"nonfinite_reward""#, "");
        if received == expected.get() {
            continue;
        }
        let received: Value = serde_json::from_str(&received).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected: Value = serde_json::from_str(expected.get()).expect("a value");
        assert_eq!(received, expected, "{name}: {member}");
    }
}

#[test]
fn answers_come_to_what_the_vectors_say() {
    let protocol = protocol();
    let all = ["reset", "step", "call", "error"].iter().flat_map(|operation| &protocol.messages[*operation]);
    let mut groups: BTreeMap<String, Vec<&Message>> = BTreeMap::new();
    for message in all {
        let kind = ["reset", "step"].iter().find(|op| message.request["op"] == **op).unwrap_or(&"call");
        groups.entry(format!("{kind} {}", message.request["id"])).or_default().push(message);
    }
    let mut count = 0;
    for messages in groups.values() {
        let batch = play(messages);
        for (slot, message) in messages.iter().enumerate() {
            check_reply(message, &batch, slot);
            count += 1;
        }
    }
    assert!(count >= 60, "{count} vectors");
}

#[test]
fn hellos_come_to_what_the_vectors_say() {
    for message in &protocol().messages["hello"] {
        let template = message.request["template"] == true;
        let mut agent = Agent::new();
        let settings = json!({"socket": template, "hello_script": message.script()});
        let argv = puppet(settings);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let way = if template { "fork" } else { "spawn" };
        let changes = json!({"way": way, "first_reset": false, "deadlines_ms": {"start": 500}});
        let head = agent.start_head(&argv, 1, changes);
        let reply = agent.request(&head, b"{}").head;
        let expect: Value = serde_json::from_str(message.expect.as_ref().expect("expect").get()).expect("members");
        match (template, expect["error"]["kind"].as_str()) {
            (true, Some(kind)) => assert_eq!(reply["error"]["code"], kind, "{}", message.name),
            (true, None) => assert_eq!(reply["way"], "fork", "{}: {reply}", message.name),
            (false, error) => {
                assert_eq!(reply["ok"], true, "{}: {reply}", message.name);
                for (member, value) in expect.as_object().expect("members") {
                    let none = error.is_some() || (member == "features" && reply["hello"]["features"].is_null());
                    assert!(none || reply["hello"][member] == *value, "{}: {member}", message.name);
                }
            }
        }
    }
}

#[test]
fn arrays_have_the_bytes_and_the_lists_of_the_vectors() {
    for case in protocol().arrays {
        let text = case.json.get().as_bytes();
        assert!(scan_value(text).expect(&case.name).arrays, "{}", case.name);
        let mut scanner = Scanner::new(text);
        scanner.expect(b'{').expect("a brace");
        scanner.skip_space();
        scanner.key().expect("a key");
        let array = Array::parse(&mut scanner).expect(&case.name);
        let mut bytes = Vec::new();
        array.decode(&[], &mut bytes).expect(&case.name);
        assert_eq!((array.shape(), &bytes), (case.shape.as_slice(), &hex(&case.bytes)), "{}", case.name);
        assert_eq!(lists::can_write(array.dtype), case.list.is_some(), "{}", case.name);
        if let Some(expected) = case.list {
            let mut list = Vec::new();
            lists::write(array.dtype, array.shape(), &bytes, &mut list);
            let list: Value = serde_json::from_slice(&list).expect("a list");
            assert_eq!(list, expected, "{}", case.name);
        }
    }
}

#[test]
fn values_are_accepted_and_illegal_values_are_not() {
    let protocol = protocol();
    for case in protocol.values {
        assert!(scan_value(case.json.get().as_bytes()).is_ok(), "{}", case.name);
    }
    for case in protocol.illegal_values {
        assert!(scan_value(case.json.as_bytes()).is_err(), "{}", case.name);
    }
}

#[test]
fn frames_are_written_and_read_as_the_vectors_say() {
    let vectors: Value = serde_json::from_str(&read("frames.json")).expect("the frames' vectors");
    for case in vectors["cases"].as_array().expect("cases") {
        let bytes = STANDARD.decode(case["frame"].as_str().expect("a frame")).expect("base64");
        let head = case["head_text"].as_str().expect("a head").as_bytes();
        let body = STANDARD.decode(case["body"].as_str().expect("a body")).expect("base64");
        let sequence = case["sequence"].as_u64().expect("a sequence") as u32;
        let kind = [Kind::Request, Kind::Reply, Kind::Event][case["kind"].as_u64().expect("a kind") as usize - 1];
        let written = [&frame::encode(sequence, kind, head, body.len()), head, &body].concat();
        assert_eq!(written, bytes, "{}", case["name"]);
        // However the bytes arrive.
        for size in [1, 7, bytes.len()] {
            let mut reader = FrameReader::default();
            let read = frames_of(&mut reader, &bytes, size);
            assert_eq!(read, [(sequence, kind as u16, head.to_vec(), body.clone())], "{}", case["name"]);
        }
    }
    for case in vectors["torn"].as_array().expect("torn frames") {
        let input = STANDARD.decode(case["input"].as_str().expect("an input")).expect("base64");
        let expected: Vec<(u64, u64, Value, Vec<u8>)> = case["frames"]
            .as_array()
            .expect("frames")
            .iter()
            .map(|frame| {
                let body = STANDARD.decode(frame["body"].as_str().expect("a body")).expect("base64");
                let number = |name: &str| frame[name].as_u64().expect("a number");
                (number("sequence"), number("kind"), frame["head"].clone(), body)
            })
            .collect();
        for size in [1, 5, input.len()] {
            let mut reader = FrameReader::default();
            let read: Vec<_> = frames_of(&mut reader, &input, size)
                .into_iter()
                .filter_map(|(sequence, kind, head, body)| {
                    let head: Value = serde_json::from_slice(&head).ok().filter(Value::is_object)?;
                    Some((u64::from(sequence), u64::from(kind), head, body))
                })
                .collect();
            assert_eq!(read, expected, "{} in pieces of {size}", case["name"]);
        }
    }
}

type Read = (u32, u16, Vec<u8>, Vec<u8>);

fn frames_of(reader: &mut FrameReader, bytes: &[u8], size: usize) -> Vec<Read> {
    let mut read = Vec::new();
    for piece in bytes.chunks(size.max(1)) {
        reader.push(piece);
        while let Some(frame) = reader.next_frame() {
            let head = reader.bytes(&frame.head).to_vec();
            let mut body = Vec::new();
            reader.consume(&frame, &mut body);
            read.push((frame.sequence, frame.kind, head, body));
        }
    }
    read
}

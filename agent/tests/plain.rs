//! Plain programs on standard input and output.

mod harness;

use harness::{Agent, program};
use serde_json::json;

#[test]
fn a_program_without_hello_is_served_with_reset_and_step() {
    let path = program("counter.sh");
    let (mut agent, start) = Agent::started(&["/bin/sh", &path], 3, json!({}));
    assert_eq!(start["way"], "spawn");
    assert_eq!(start["hello"]["features"], json!([]));
    assert_eq!(start["layout"]["fields"], json!([{"dtype": "<f8", "shape": [2]}]));
    let batch = agent.step(json!([0, 1, 2]), json!({}));
    assert_eq!(batch.column("obs"), json!([[1.0, 0.5], [1.0, 0.5], [1.0, 0.5]]));
    assert_eq!(batch.column("rewards"), json!([1.5, 1.5, 1.5]));
    assert_eq!(batch.column("terminated"), json!([false, false, false]));
    let batch = agent.reset(json!({"rows": [1]}));
    assert_eq!(batch.column("obs"), json!([[0.0, 0.5]]));
    let closed = agent.request(&json!({"op": "close"}), b"");
    assert_eq!(closed.head, json!({"ok": true}));
    assert!(agent.process.wait().expect("an exit").success());
}

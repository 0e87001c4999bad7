//! Resets, seeds and the ends of episodes.

mod harness;

use harness::{Agent, Batch, puppets};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The contract's rule, written out again.
fn derived(pool: u64, row: u64, episode: u64) -> u64 {
    let digest = Sha256::digest(format!("sandpool-seed/1:{pool}:{row}:{episode}"));
    u64::from(u32::from_be_bytes(digest[..4].try_into().expect("four bytes")) >> 1)
}

fn seeds(batch: &Batch) -> Vec<Value> {
    batch.column("infos").as_array().expect("infos").iter().map(|info| info["seed"].clone()).collect()
}

fn reset_infos(agent: &mut Agent) -> Batch {
    Batch::of(agent.request(&json!({"op": "observe", "encoding": "json"}), b""))
}

#[test]
fn seeds_are_derived_from_pool_row_and_episode() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"n": 9, "first": 7}));
    assert_eq!(seeds(&reset_infos(&mut agent)), [derived(123, 7, 0), derived(123, 8, 0)].map(Value::from));
    assert_eq!(seeds(&agent.reset(json!({"rows": [8]}))), [json!(derived(123, 8, 1))]);
    assert_eq!(seeds(&agent.reset(json!({}))), [derived(123, 7, 1), derived(123, 8, 2)].map(Value::from));
}

#[test]
fn the_first_seeds_are_the_documented_numbers() {
    // printf 'sandpool-seed/1:123:0:0' | sha256sum begins with 6ac9b190.
    assert_eq!(derived(123, 0, 0), 0x6ac9_b190 >> 1);
}

#[test]
fn an_integer_seed_of_a_full_reset_becomes_the_pools() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    agent.reset(json!({}));
    let batch = agent.reset(json!({"seeds": [50, 51], "seed": 50}));
    assert_eq!(seeds(&batch), [json!(50), json!(51)]);
    assert_eq!(seeds(&agent.reset(json!({}))), [derived(50, 0, 1), derived(50, 1, 1)].map(Value::from));
}

#[test]
fn a_null_among_the_seeds_is_the_pools_rule() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    assert_eq!(seeds(&agent.reset(json!({"seeds": [null, 5]}))), [json!(derived(123, 0, 1)), json!(5)]);
}

#[test]
fn continued_seeds_are_null_except_for_a_new_process() {
    let (mut agent, _) = puppets(json!({}), 1, json!({"seeds": "continue", "episode_offset": 4}));
    assert_eq!(seeds(&reset_infos(&mut agent)), [json!(derived(123, 0, 4))]);
    assert_eq!(seeds(&agent.reset(json!({}))), [Value::Null]);
    assert_eq!(seeds(&agent.reset(json!({"hard": true}))), [json!(derived(123, 0, 6))]);
}

#[test]
fn options_are_one_for_all_or_one_for_each_selected_row() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    let seq = agent.next_seq();
    let head = json!({"op": "reset", "seq": seq, "encoding": "json", "rows": [0, 2], "seeds": null, "hard": false,
        "offset": 1, "total": 4});
    let batch = Batch::of(agent.request(&head, br#"{"options":[{"a":1},{"a":2.0},{"a":3},{"a":4}]}"#));
    assert!(batch.text("infos").contains(r#""options": {"a": 2.0}"#), "{}", batch.text("infos"));
    assert_eq!(batch.column("infos")[1]["options"], json!({"a": 3}));
    let seq = agent.next_seq();
    let head = json!({"op": "reset", "seq": seq, "encoding": "json", "rows": [1], "seeds": null, "hard": false,
        "offset": 0, "total": 1});
    let batch = Batch::of(agent.request(&head, br#"{"options":{"all":true}}"#));
    assert_eq!(batch.column("infos")[0]["options"], json!({"all": true}));
}

#[test]
fn a_hard_reset_replaces_the_process_and_wipes_its_files() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let file = agent.folder.join("1/workspace/kept");
    let answer = r#"{"id":$ID,"obs":3,"reward":1,"terminated":false}"#;
    agent.step(json!([1, [["file", file], ["write", answer]]]), json!({}));
    assert!(file.exists());
    let before = agent.status();
    let batch = agent.reset(json!({"rows": [1], "hard": true}));
    assert_eq!(batch.column("obs"), json!([0.0]));
    assert!(!file.exists());
    let after = agent.status();
    assert_eq!(before["rows"][0]["pid"], after["rows"][0]["pid"], "other rows are not touched");
    assert_ne!(before["rows"][1]["pid"], after["rows"][1]["pid"]);
}

#[test]
fn an_exception_in_reset_is_tried_once_more_in_a_new_process() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let mark = agent.folder.join("mark");
    let text = r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"bad","traceback":"tb"}}"#;
    let seq = agent.next_seq();
    let head = json!({"op": "reset", "seq": seq, "encoding": "json", "rows": null, "seeds": [77], "hard": false,
        "offset": 0, "total": 1});
    let body = json!({"options": [[["once", mark], ["write", text]]]}).to_string();
    let before = agent.status();
    let batch = Batch::of(agent.request(&head, body.as_bytes()));
    assert_eq!(batch.head["failed"], json!([]), "{}", batch.text("infos"));
    assert_eq!(seeds(&batch), [json!(77)], "the same seed");
    assert_ne!(before["rows"][0]["pid"], agent.status()["rows"][0]["pid"]);
    assert_eq!(agent.status()["rows"][0]["episode"], 2, "a second try is no second episode");
}

#[test]
fn a_second_exception_in_reset_is_the_rows_error() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let text = r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"bad","traceback":"tb"}}"#;
    let seq = agent.next_seq();
    let head = json!({"op": "reset", "seq": seq, "encoding": "json", "rows": null, "seeds": null, "hard": false,
        "offset": 0, "total": 1});
    let body = json!({"options": [[["write", text]]]}).to_string();
    let batch = Batch::of(agent.request(&head, body.as_bytes()));
    assert_eq!(batch.column("obs"), json!([null]));
    assert_eq!(batch.error(0)["kind"], "exception");
    assert_eq!(batch.error(0)["op"], "reset");
    assert_eq!(agent.reset(json!({})).head["failed"], json!([]));
}

#[test]
fn a_reset_that_times_out_is_not_tried_again() {
    let (mut agent, _) = puppets(json!({}), 1, json!({"deadlines_ms": {"reset": 2000}}));
    let mark = agent.folder.join("mark");
    let seq = agent.next_seq();
    let head = json!({"op": "reset", "seq": seq, "encoding": "json", "rows": null, "seeds": null, "hard": false,
        "offset": 0, "total": 1});
    let body = json!({"options": [[["once", mark], ["sleep", 60]]]}).to_string();
    let batch = Batch::of(agent.request(&head, body.as_bytes()));
    assert_eq!(batch.error(0)["kind"], "timeout");
    assert_eq!(batch.error(0)["deadline_s"], 2.0);
}

#[test]
fn without_autoreset_a_done_row_is_stepped_on() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    assert_eq!(agent.step(json!([9]), json!({})).column("terminated"), json!([true]));
    assert_eq!(agent.step(json!([2]), json!({})).column("obs"), json!([2.0]));
}

#[test]
fn same_step_autoreset_gives_the_next_episode_and_the_end_of_the_last() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"autoreset": "same_step"}));
    let text = r#"{"id":$ID,"obs":8,"reward":2.5,"terminated":true,"info":{"won":true}}"#;
    let batch = agent.step(json!([1, [["write", text]]]), json!({}));
    assert_eq!(batch.column("obs"), json!([1.0, 0.0]));
    assert_eq!(batch.column("rewards"), json!([1.0, 2.5]));
    assert_eq!(batch.column("terminated"), json!([false, true]));
    let info = &batch.column("infos")[1];
    assert_eq!(info["seed"], derived(123, 1, 1));
    assert_eq!(info["final_obs"], 8);
    assert_eq!(info["final_info"], json!({"won": true}));
    let observed = reset_infos(&mut agent);
    assert_eq!(observed.column("infos")[1].get("final_obs"), None, "the reset's own info stays as it was");
    let next = agent.step(json!([1, 2]), json!({}));
    assert_eq!(next.text("infos"), "{},{}");
}

#[test]
fn a_failed_same_step_autoreset_leaves_the_end_of_the_episode_as_it_was() {
    let (mut agent, _) = puppets(json!({}), 3, json!({"autoreset": "same_step"}));
    let ended = |more: &str| {
        let text = format!(r#"{{"id":$ID,"obs":8,"reward":2.5,"info":{{"won":true}},{more}}}"#);
        json!([["write", text], ["exit", 4]])
    };
    let batch =
        agent.step(json!([1, ended(r#""terminated":true"#), ended(r#""done":false,"truncated":true"#)]), json!({}));
    assert_eq!(batch.head["failed"], json!([1, 2]));
    assert_eq!(batch.column("obs"), json!([1.0, null, null]));
    assert_eq!(batch.column("rewards"), json!([1.0, 2.5, 2.5]));
    assert_eq!(batch.column("terminated"), json!([false, true, false]));
    assert_eq!(batch.column("truncated"), json!([false, false, true]));
    for row in [1, 2] {
        let info = &batch.column("infos")[row];
        assert_eq!((&batch.error(row)["op"], &batch.error(row)["exit_code"]), (&json!("reset"), &json!(4)));
        assert_eq!((&info["final_obs"], &info["final_info"]), (&json!(8), &json!({"won": true})));
    }
    let mut batch = agent.step(json!([1, 1, 1]), json!({}));
    while batch.head["failed"] != json!([]) {
        let repeated = &batch.column("infos")[batch.head["failed"][0].as_u64().expect("a row") as usize];
        assert_eq!((&repeated["sandpool_error"]["repeated"], repeated.get("final_obs")), (&json!(true), None));
        batch = agent.step(json!([1, 1, 1]), json!({}));
    }
    assert_eq!(batch.column("terminated"), json!([false, false, false]));
}

#[test]
fn next_step_autoreset_resets_instead_of_the_next_step() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"autoreset": "next_step"}));
    let ended = agent.step(json!([1, 9]), json!({}));
    assert_eq!(ended.column("obs"), json!([1.0, 9.0]));
    assert_eq!(ended.column("terminated"), json!([false, true]));
    let next = agent.step(json!([2, 5]), json!({}));
    assert_eq!(next.column("obs"), json!([2.0, 0.0]));
    assert_eq!(next.column("rewards"), json!([2.0, 0.0]));
    assert_eq!(next.column("terminated"), json!([false, false]));
    assert_eq!(next.column("infos")[1]["seed"], derived(123, 1, 1));
    assert_eq!(agent.step(json!([3, 4]), json!({})).column("obs"), json!([3.0, 4.0]));
}

#[test]
fn with_autoreset_a_failed_row_is_reset_by_the_step_that_finds_its_replacement() {
    for mode in ["same_step", "next_step"] {
        let (mut agent, _) = puppets(json!({}), 2, json!({"autoreset": mode}));
        let batch = agent.step(json!([1, [["exit", 4]]]), json!({}));
        assert_eq!(batch.error(1)["exit_code"], 4);
        // Until the replacement is there, the error is repeated.
        let mut batch = agent.step(json!([1, 5]), json!({}));
        while batch.head["failed"] != json!([]) {
            assert_eq!(batch.error(1)["repeated"], true);
            batch = agent.step(json!([1, 5]), json!({}));
        }
        assert_eq!(batch.head["failed"], json!([]), "{mode}: {}", batch.text("infos"));
        assert_eq!(batch.column("obs"), json!([1.0, 0.0]));
        assert_eq!(batch.column("rewards"), json!([1.0, 0.0]));
        assert_eq!(agent.step(json!([1, 5]), json!({})).column("obs"), json!([1.0, 5.0]));
    }
}

#[test]
fn done_of_the_old_interface_is_terminated_unless_a_time_limit_says_otherwise() {
    let (mut agent, _) = puppets(json!({}), 4, json!({}));
    let script = |members: &str| json!([["write", format!(r#"{{"id":$ID,"obs":1,"reward":1,{members}}}"#)]]);
    let batch = agent.step(
        json!([
            script(r#""done":true"#),
            script(r#""done":true,"info":{"TimeLimit.truncated":true}"#),
            script(r#""done":true,"info":{"TimeLimit.truncated":false}"#),
            script(r#""done":false"#),
        ]),
        json!({}),
    );
    assert_eq!(batch.column("terminated"), json!([true, false, true, false]));
    assert_eq!(batch.column("truncated"), json!([false, true, false, false]));
}

//! Seeds, options and the ends of episodes on the stream; and that its rows do exactly what a batch's do.

mod harness;

use harness::stream::{RowResult, number};
use harness::{Agent, Batch, puppets};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The contract's rule, written out again.
fn derived(pool: u64, row: u64, episode: u64) -> u64 {
    let digest = Sha256::digest(format!("sandpool-seed/1:{pool}:{row}:{episode}"));
    u64::from(u32::from_be_bytes(digest[..4].try_into().expect("four bytes")) >> 1)
}

fn seeds(agent: &mut Agent, rows: &[u64], changes: Value) -> Vec<Value> {
    agent.send_reset(json!(rows), changes);
    let mut results = agent.receive(rows.len());
    results.sort_by_key(|result| result.row);
    assert!(results.iter().all(|result| result.op == "reset" && !result.failed));
    assert!(results.iter().all(|result| (result.reward, result.terminated, result.truncated) == (0.0, false, false)));
    results.iter().map(|result| result.info["seed"].clone()).collect()
}

#[test]
fn seeds_are_given_or_derived_and_episodes_count_on_through_batches() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"n": 9, "first": 7}));
    assert_eq!(seeds(&mut agent, &[8], json!({})), [json!(derived(123, 8, 1))]);
    assert_eq!(seeds(&mut agent, &[7, 8], json!({"seeds": [null, 5]})), [json!(derived(123, 7, 1)), json!(5)]);
    let batch = agent.reset(json!({"rows": [8]}));
    assert_eq!(batch.column("infos")[0]["seed"], derived(123, 8, 3));
    assert_eq!(seeds(&mut agent, &[8], json!({})), [json!(derived(123, 8, 4))]);
    assert_eq!(seeds(&mut agent, &[7, 8], json!({"seeds": [50, 51], "seed": 50})), [json!(50), json!(51)]);
    assert_eq!(seeds(&mut agent, &[7, 8], json!({})), [derived(50, 7, 1), derived(50, 8, 1)].map(Value::from));
}

#[test]
fn continued_seeds_are_null_except_for_a_new_process() {
    let (mut agent, _) = puppets(json!({}), 1, json!({"seeds": "continue"}));
    assert_eq!(seeds(&mut agent, &[0], json!({})), [Value::Null]);
    let before = agent.status()["rows"][0]["pid"].clone();
    assert_eq!(seeds(&mut agent, &[0], json!({"hard": true})), [json!(derived(123, 0, 2))]);
    assert_ne!(agent.status()["rows"][0]["pid"], before);
}

#[test]
fn options_are_one_for_all_or_one_for_each_row() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    let head = json!({"kind": "reset", "rows": [0, 2], "seeds": null, "hard": false, "offset": 1, "total": 4});
    agent.send_off(head, br#"{"options":[{"a":1},{"a":2},{"a":3},{"a":4}]}"#);
    let mut results = agent.receive(2);
    results.sort_by_key(|result| result.row);
    assert_eq!((&results[0].info["options"], &results[1].info["options"]), (&json!({"a": 2}), &json!({"a": 3})));
    let head = json!({"kind": "reset", "rows": [1], "seeds": null, "hard": false, "total": 1});
    agent.send_off(head, br#"{"options":{"all":true}}"#);
    assert_eq!(agent.receive(1)[0].info["options"], json!({"all": true}));
}

#[test]
fn steps_and_resets_are_told_together_with_what_each_was() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    agent.send_step(json!([0]), json!([4]));
    agent.send_reset(json!([1]), json!({}));
    let mut results = agent.receive(2);
    results.sort_by_key(|result| result.row);
    let told: Vec<_> = results.iter().map(|result| (result.op.as_str(), result.reward)).collect();
    assert_eq!(told, [("step", 4.0), ("reset", 0.0)]);
}

#[test]
fn same_step_autoreset_is_one_result() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"autoreset": "same_step"}));
    let text = r#"{"id":$ID,"obs":8,"reward":2.5,"terminated":true,"info":{"won":true}}"#;
    agent.send_step(json!([1]), json!([[["write", text]]]));
    let result = agent.receive(1).remove(0);
    assert_eq!((result.op.as_str(), &result.obs, result.reward, result.terminated), ("step", &json!(0.0), 2.5, true));
    assert_eq!(result.info["seed"], derived(123, 1, 1));
    assert_eq!((&result.info["final_obs"], &result.info["final_info"]), (&json!(8), &json!({"won": true})));
}

#[test]
fn a_failed_same_step_autoreset_leaves_the_end_of_the_episode_as_it_was() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"autoreset": "same_step"}));
    let text = r#"{"id":$ID,"obs":8,"reward":2.5,"terminated":true,"info":{"won":true}}"#;
    agent.send_step(json!([1]), json!([[["write", text], ["exit", 4]]]));
    let result = agent.receive(1).remove(0);
    assert_eq!((result.failed, result.reward, result.terminated, result.truncated), (true, 2.5, true, false));
    assert_eq!((&result.obs, &result.error()["op"]), (&json!(null), &json!("reset")));
    assert_eq!((&result.info["final_obs"], &result.info["final_info"]), (&json!(8), &json!({"won": true})));
}

#[test]
fn next_step_autoreset_resets_with_the_next_message() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"autoreset": "next_step"}));
    agent.send_step(json!([1]), json!([9]));
    let ended = agent.receive(1).remove(0);
    assert_eq!((&ended.obs, ended.terminated), (&json!(9.0), true));
    agent.send_step(json!([1]), json!([5]));
    let next = agent.receive(1).remove(0);
    assert_eq!((next.op.as_str(), &next.obs, next.reward, next.terminated), ("step", &json!(0.0), 0.0, false));
    assert_eq!(next.info["seed"], derived(123, 1, 1));
}

#[test]
fn with_autoreset_a_failed_row_is_reset_by_the_message_that_finds_its_replacement() {
    for mode in ["same_step", "next_step"] {
        let (mut agent, _) = puppets(json!({}), 2, json!({"autoreset": mode}));
        agent.send_step(json!([1]), json!([[["exit", 4]]]));
        assert_eq!(agent.receive(1)[0].error()["exit_code"], 4);
        let result = loop {
            agent.send_step(json!([1]), json!([5]));
            let result = agent.receive(1).remove(0);
            if !result.failed {
                break result;
            }
            assert_eq!(result.error()["repeated"], true, "until the replacement is there");
        };
        assert_eq!((&result.obs, result.reward), (&json!(0.0), 0.0), "{mode}");
    }
}

/// The actions of a row, one after another: small numbers, ends of episodes, and scripts.
fn action(row: u64, step: u64) -> Value {
    let mixed = row.wrapping_mul(0x9e37_79b9).wrapping_add(step.wrapping_mul(0x85eb_ca6b)) >> 7;
    match mixed % 7 {
        0 => json!(9),
        1 => json!([[
            "write",
            r#"{"id":$ID,"obs":3,"reward":Infinity,"terminated":false,"info":{"x":[1.0,{"$float":"inf"}]}}"#
        ]]),
        2 => json!([["write", r#"{"id":$ID,"obs":4,"reward":0.5,"done":true,"info":{"TimeLimit.truncated":true}}"#]]),
        other => json!(other as f64 / 4.0),
    }
}

/// What a row was told, without what differs between two processes.
fn without_pids(mut info: Value) -> Value {
    if let Some(members) = info.as_object_mut() {
        members.remove("pid");
    }
    info
}

#[test]
fn a_row_is_told_the_same_on_the_stream_as_in_batches() {
    const ROWS: u64 = 4;
    const STEPS: u64 = 40;
    for (mode, observation) in [("same_step", json!(0)), ("next_step", json!("text")), ("next_step", json!(0))] {
        let settings = || json!({"obs": observation});
        let (mut batches, _) = puppets(settings(), ROWS as u32, json!({"autoreset": mode}));
        let (mut stream, _) = puppets(settings(), ROWS as u32, json!({"autoreset": mode}));
        let mut expected: Vec<Vec<RowResult>> = vec![Vec::new(); ROWS as usize];
        for step in 0..STEPS {
            let actions: Vec<Value> = (0..ROWS).map(|row| action(row, step)).collect();
            let batch = batches.step(json!(actions), json!({}));
            for (row, result) in told_by_a_batch(&batch).into_iter().enumerate() {
                expected[row].push(result);
            }
        }
        let mut received: Vec<Vec<RowResult>> = vec![Vec::new(); ROWS as usize];
        stream.send_step(Value::Null, json!((0..ROWS).map(|row| action(row, 0)).collect::<Vec<_>>()));
        // Each row goes on as soon as it is back, whatever the others do.
        while received.iter().any(|results| results.len() < STEPS as usize) {
            for mut result in stream.results().each() {
                let row = result.row;
                result.info = without_pids(result.info);
                received[row as usize].push(result);
                let step = received[row as usize].len() as u64;
                if step < STEPS {
                    stream.send_step(json!([row]), json!([action(row, step)]));
                }
            }
        }
        assert_eq!(received, expected, "{mode}");
    }
}

fn told_by_a_batch(batch: &Batch) -> Vec<RowResult> {
    let [obs, rewards, terminated, truncated, infos] =
        ["obs", "rewards", "terminated", "truncated", "infos"].map(|name| batch.column(name));
    let rows = 0..obs.as_array().map_or(0, Vec::len);
    let each = rows.map(|row| RowResult {
        row: row as u64,
        op: "step".to_owned(),
        obs: obs[row].clone(),
        reward: number(&rewards[row]),
        terminated: terminated[row] == true,
        truncated: truncated[row] == true,
        info: without_pids(infos[row].clone()),
        failed: false,
    });
    each.collect()
}
